"""Runs on real and simulated clusters, measured and reported."""
