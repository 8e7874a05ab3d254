"""A virtual Storm cluster for a problem under a placement, before and between what happens in it.

::

    start      executors, workers, links and nodes as arrays, nothing of it placed
    edges      who sends to whom, as routes and pairs
    placing    executors in workers, and what that changes
    sets       sets of like tuples as one event, for long runs
"""
