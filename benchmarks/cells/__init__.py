"""Predictions against measurements, cell by cell: what `prediction/real_cells.py` runs and compares."""
