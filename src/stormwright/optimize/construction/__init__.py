"""Construction of an initial placement: topology by topology onto few nodes, or pair by pair, heaviest first.

::

    topologies   executors of one topology after the other onto nodes that it fills (`grow` for very large ones)
    next_node    the next node
    greedy       pairs of items into bins: the online scheduler's rule, by `greedy_loops` on `packing`

The first is where searches begin. The second is a policy of its own, as published by its authors.
"""
