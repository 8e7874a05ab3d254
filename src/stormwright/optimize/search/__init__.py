"""Search: improve a placement by random steps that cool down, level by level, on one or several threads.

::

    budget ─▶ relieve overloaded nodes, then one of
                small       few executors: the best of all steps each time (`stormwright.optimize.small`)
                threads     regions: very many topologies, cut apart       ─┐
                levels      very large topologies: groups before executors  ├─▶ anneal ─▶ refine ─▶ steps
                threads     apart: each thread the whole                   ─┘   by `cooling`   `accept`

One step is one proposal: a random change within limits, made or not.
"""
