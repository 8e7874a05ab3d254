"""The machine code that all searching is made of: records of a placement, what a step costs, the step itself.

::

    compiled   functions that Python calls, and parts of these (`part`); where the code is kept (`kept`)
    records    a placement under way: arrays of records, no objects
    costs      by how much a step would raise the cost; nothing is changed
    flows      the same of traffic that goes where the placement lets it
    steps      the step itself, with all that is noted of the placement
    draw       random numbers whose whole state is one of the arrays

Whether a step is wise is decided elsewhere (`search`, `repair`, `construct`).
"""
