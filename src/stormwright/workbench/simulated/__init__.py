"""Simulated clusters: virtual counterparts of real ones."""
