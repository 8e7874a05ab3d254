"""What topologies and clusters say in their configuration, and what is wrong with it."""
