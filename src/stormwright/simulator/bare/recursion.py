"""A queueing network without a list of events, where that is exact.

Where each station has one server and its jobs all come from one place, they come in the order in which they left that.
So one job after the other can be followed all the way: it begins at a station when it is there and the one before it is
done, whichever is later (D. V. Lindley, The theory of queues with a single server, Mathematical Proceedings of the
Cambridge Philosophical Society 48(2), 1952, https://doi.org/10.1017/S0305004100027638). As stations and sources have
random numbers of their own, what happens is the same as with events, job by job.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import compiled
from stormwright.jit.random_numbers import draw_at
from stormwright.simulator.bare.records import OUT, Network
from stormwright.simulator.kernel.times import draw_time


@compiled
def follow(of: Network, source: int, free_at: NDArray[np.float64], until: float, hops: int) -> None:
    """Follow the jobs of a source, each all the way, until they come later than an instant, or for so many services.

    Parameters
    ----------
    of
        With the next job of the source in its clock. What is inside at the end is not counted: jobs are followed on.
    source
        Its number among the actors.
    free_at
        When the server of each station is free again.
    until, hops
        The instant, and the number of services in all.
    """
    actor, run, when = of.actors[source], of.run[0], of.clock.when
    while when[source] <= until and run.hops < hops:
        now, station = when[source], actor.station
        when[source] = now + draw_time(of.random, actor.sequence, actor.mean_s, actor.varies)
        while station != OUT:
            here = of.stations[station]
            done = max(now, free_at[station]) + draw_time(of.random, 2 * station, here.mean_s, here.varies)
            free_at[station] = done
            here.area += done - now
            here.served += 1
            run.hops += 1
            now, way = done, here.first_way
            if here.last_way - way > 1:
                drawn = draw_at(of.random, 2 * station + 1)
                while drawn >= of.ways[way].below:
                    way += 1
            station = of.ways[way].to
    run.now = until if when[source] > until else when[source]
