"""A queueing network under way, as arrays of records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Records
from stormwright.simulator.kernel.clock import Clock
from stormwright.simulator.kernel.shares import Shares

#: Who leaves the network goes to this station.
OUT = -1

#: Kinds of who has a time in the clock.
SERVER, SHARED, SOURCE = 0, 1, 2

#: Its jobs: `inside` now; their number over time, added up until `since`; how many went out. A station with servers
#: has its free ones in `free` from `first` on, `idle` of `servers`; for one that shares cores `node` is their number.
#: Where its jobs go is in `ways` from `first_way` to before `last_way`; where there is one, nothing is drawn.
STATION = np.dtype(
    [
        *((name, np.float64) for name in ("mean_s", "varies", "area", "since")),
        *(
            (name, np.int64)
            for name in ("inside", "served", "servers", "first", "idle", "node", "first_way", "last_way")
        ),
    ],
    align=True,
)

#: Part of a station's jobs that go to `to` or to what is before it.
WAY = np.dtype([("below", np.float64), ("to", np.int64)])

#: Who has a time in the clock: its kind and its station; of a source also how long until its next job, and by which
#: sequence of random numbers.
ACTOR = np.dtype(
    [
        *((name, np.float64) for name in ("mean_s", "varies")),
        *((name, np.int64) for name in ("kind", "station", "sequence")),
    ]
)

#: One record: the instant that was reached, hops (services that were completed), and whether a heap of jobs has no
#: room left.
RUN = np.dtype([("now", np.float64), ("hops", np.int64), ("full", np.bool_)])


class Network(NamedTuple):
    """A network under way.

    Parameters
    ----------
    stations, ways, actors, run
        Of the kinds above.
    free
        Servers that are idle, by station.
    shares
        Nodes whose cores jobs share.
    clock
        When each actor next does something.
    random
        States of random numbers: of every station for its services and for its ways, then of every source. So each has
        its own sequence, whatever the others do.
    """

    stations: Records
    ways: Records
    actors: Records
    run: Records
    free: NDArray[np.int64]
    shares: Shares
    clock: Clock
    random: NDArray[np.uint64]
