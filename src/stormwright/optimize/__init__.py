"""Compiled search for placements, and proofs of how close they are to the optimum.

::

    problem ─▶ layout ─▶ construct ─▶ repair ─▶ search (small: every step evaluated) ─▶ placement
       └─────▶ bound: lower bound of any placement

All of it minimises one sum, the cost of traffic between executors i and j of workers w(i) and w(j),

    Σ tps_ij · d(w(i), w(j)),   d = 0 in one worker < inter_worker on one node < inter_node in one rack < inter_rack,

to which prices may be added (`layout.objective`), subject to CPU, memory, ports and places in workers. Nothing here
knows a scheduler, reads a file or looks at a clock except for a budget in seconds. With a budget in steps the outcome
follows from the problem, the seed and the number of threads alone.
"""
