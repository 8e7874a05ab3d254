"""What all virtual time is made of.

::

    clock    when each of many next does something, and who is first
    shares   jobs that share the cores of a node, with a quota or without
    times    how long something takes: constant, exponential, or in between
    arrays   arrays of records that compiled functions and plain Python read alike
"""
