"""What no placement can go below: proofs for small problems, relaxations for all others.

::

    problem ─▶ relaxed ─┬─▶ sets          few executors: the optimum, if time allows
                        └─▶ relaxation    any number
                   prove: which of the two, and what rounding takes

Everything is turned round: instead of what traffic costs at least it is what can be *kept*, on nodes and in workers, at
most. Each of these bounds holds at any time, and only gets better.
"""
