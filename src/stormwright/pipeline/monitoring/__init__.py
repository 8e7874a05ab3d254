"""Monitoring over time: overload alarms, drift of loads, and forecasts."""
