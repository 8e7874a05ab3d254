"""Machine code that searches for placements and proves how near to the best these are.

::

    problem ─▶ layout ─▶ construct ─▶ repair ─▶ search (small: every step looked at) ─▶ placement
       └─────▶ bound: what no placement can go below

All of it lowers one sum, the cost of traffic between executors i and j of workers w(i) and w(j),

    Σ tps_ij · d(w(i), w(j)),   d = 0 in one worker < inter_worker on one node < inter_node in one rack < inter_rack,

to which prices may be added (`layout.objective`), while CPU, memory, ports and places in workers limit it. Nothing here
knows a scheduler, reads a file or looks at a clock but for a budget in seconds. With a budget in steps the outcome
follows from the problem, the seed and the number of threads alone.
"""
