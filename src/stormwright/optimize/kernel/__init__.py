"""Compiled primitives of all searches: records of a placement, costs of steps, and the steps.

::

    records    a placement as arrays of records, no objects
    costs      change of the cost by a step; nothing is changed
    flows      the same for traffic whose targets depend on the placement
    steps      the steps themselves, with all derived data of the placement

Compilation, caching and random numbers are in `stormwright.jit`. Which steps are taken is
decided elsewhere (`search`, `repair`, `construct`).
"""
