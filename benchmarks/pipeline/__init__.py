"""Spark: the performance log's way into loads, history and sweeps."""
