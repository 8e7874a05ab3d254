"""Chaos tests: workloads whose results are known, on a cluster in which workers move and fail."""
