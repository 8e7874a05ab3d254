"""Shared by benchmarks: results files, cached runs, CPU time."""
