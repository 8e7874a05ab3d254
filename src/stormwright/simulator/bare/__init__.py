"""Queueing networks and nothing of Storm: what theory knows, and how fast virtual time can be.

::

    network     stations, sources and ways, and what they come to
    records     the same as arrays
    events      one thing after the other
    recursion   without events, where that is exact
"""
