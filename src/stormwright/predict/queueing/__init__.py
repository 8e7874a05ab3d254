"""Queueing: waiting times of tuples and latencies of trees."""
