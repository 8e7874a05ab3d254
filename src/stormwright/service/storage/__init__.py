"""Persistent state of a service: database, history, calibration, forecasts."""
