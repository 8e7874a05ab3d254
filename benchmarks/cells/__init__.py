"""Predictions against measurements, cell by cell: what `prediction_cells.py` runs and compares."""
