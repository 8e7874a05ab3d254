"""Compilation and caching of machine code, for every package that has some.

::

    compiled         functions that Python calls, and parts of these (`inlined`)
    cache            where a package's machine code is stored, and the digest of sources that identifies it
    random_numbers   random numbers whose whole state is one of the arrays that a function works on
"""
