"""Frames that a policy fills in: topologies in a queue, or a search from a valid placement to a better one."""
