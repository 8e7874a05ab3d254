"""Arrays for a search, from a problem: traffic of executors, the initial placement, and parts of it.

::

    problem ─▶ links ──┐
    workers ───────────┼─▶ start ─▶ Layout ─▶ coarsen: groups of executors as one
    objective (prices) ┘                  └─▶ regions: nodes that are searched separately
"""
