"""Capacity advice: executors, workers and nodes for a rate or an objective; published rules for comparison.

::

    a window of measurements ─▶ Observation ─▶ Adviser ─▶ Wanted: executors by component, workers

`rules` has DS2, Dhalion and Stela; `search` the search by `stormwright.predict`.
"""
