"""The machine code that all searching is made of: records of a placement, what a step costs, the step itself.

::

    records    a placement under way: arrays of records, no objects
    costs      by how much a step would raise the cost; nothing is changed
    flows      the same of traffic that goes where the placement lets it
    steps      the step itself, with all that is noted of the placement

How it is made and kept is told in `stormwright.jit`, and whence random numbers come. Whether a step is wise is
decided elsewhere (`search`, `repair`, `construct`).
"""
