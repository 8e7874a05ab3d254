"""Building blocks of discrete-event simulation.

::

    clock    next event time of each actor, and the first actor
    shares   jobs that share cores
    turns    jobs that take turns on a core
    quotas   core seconds that a node may use per period
    times    random durations: constant, exponential, or in between
    arrays   record arrays for compiled functions and plain Python
"""
