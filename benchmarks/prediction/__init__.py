"""Predictions and advice: against a real cluster, an exhaustive search, and in time."""
