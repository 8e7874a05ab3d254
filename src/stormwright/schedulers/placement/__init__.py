"""Placement of waiting executors: admission, choice of nodes, preservation of running workers."""
