"""From a problem to the arrays that are searched: what executors exchange, where all begins, and parts of it.

::

    problem ─▶ links ──┐
    workers ───────────┼─▶ start ─▶ Layout ─▶ coarsen: groups of executors as one
    objective (prices) ┘                  └─▶ regions: nodes that are searched apart
"""
