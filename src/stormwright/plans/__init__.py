"""Plans, the one way to change a cluster: steps, promises, states and JSON; pure data."""
