"""Search for the placement that sustains the highest rates, has the lowest latency, or needs the fewest nodes.

::

    predict: demand of a tree ─▶ records ─▶ evaluate: one topology ─▶ score: all nodes ─▶ search: steps
"""
