"""Workbench: runs on real and simulated clusters, comparisons, and reports."""
