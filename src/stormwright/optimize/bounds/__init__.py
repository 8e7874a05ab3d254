"""Lower bounds of the cost: proofs for small problems, relaxations for all others.

::

    problem ─▶ relaxed ─┬─▶ sets          few executors: the optimum, if time allows
                        └─▶ relaxation    any number
                   prove: which of the two, and the rounding

The problem is inverted: instead of the least cost of traffic, the most traffic that can stay *local*, on nodes and
in workers, is bounded from above. Each of these bounds is valid at any time, and only improves.
"""
