"""How machine code is made and kept, for every room that has some.

::

    compiled   functions that Python calls, and parts of these (`part`)
    kept       where a room's machine code is kept, and by which sources it is told from that of others
    draw       random numbers whose whole state is one of the arrays that a function works on
"""
