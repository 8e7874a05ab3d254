"""How many executors, workers and nodes a rate or an objective needs: advice, and the rules that others published.

::

    a window of measurements ─▶ Observation ─▶ Adviser ─▶ Wanted: executors by component, workers

`rules` has DS2, Dhalion and Stela; `own` the search that goes by `stormwright.predict`.
"""
