"""The real cluster: Nimbus calls, the bridge that Nimbus asks, local clusters."""
