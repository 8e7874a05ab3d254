"""Building blocks of discrete-event simulation.

::

    clock    when each of many next does something, and who is first
    shares   jobs that share cores
    turns    jobs that have a core one after the other
    quotas   how many core seconds the cores of a node may use in a period
    times    how long something takes: constant, exponential, or in between
    arrays   arrays of records that compiled functions and plain Python read alike
"""
