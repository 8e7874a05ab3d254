"""From the facts of a window to what executors, topologies and nodes do."""
