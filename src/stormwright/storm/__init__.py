"""Connection to Storm: Nimbus calls, the scheduler bridge, and local clusters."""
