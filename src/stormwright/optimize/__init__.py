"""Machine code that searches for placements and proves how near to the best these are.

::

    problem ─▶ layout ─▶ construct ─▶ repair ─▶ search (small: every step looked at) ─▶ placement
       └─────▶ bound: what no placement can go below
"""
