"""Measurement: loads of executors, topologies and nodes from the facts of a window."""
