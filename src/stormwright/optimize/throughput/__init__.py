"""A search for the placement that sustains the highest rates, answers fastest, or needs the fewest nodes.

::

    predict: what a tree takes ─▶ records ─▶ evaluate: one topology ─▶ score: all nodes ─▶ search: steps
"""
