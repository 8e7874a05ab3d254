"""Demonstration on a cluster: decide, move, measure and report."""
