"""Sets of like tuples that are one event, for long runs.

A set of m trees is begun at once, and what each executor handles, sends and acks are sets of m tuples: m times the
work, the bytes and the time between them, in m times fewer events. Its work varies by m times less, as that of m tuples
together does, and so do the times between sets. So what executors, cores and links have to do is the same, and near
saturation so is for how long tuples wait (J. F. C. Kingman, The single server queue in heavy traffic, Proceedings
of the Cambridge Philosophical Society 57(4), 1961, https://doi.org/10.1017/S0305004100036094). What differs:

- An executor hands on a set once it has worked on all of it: latencies are longer, by up to m tuples' work at each
  executor on the way.
- A set goes to one executor where single tuples would go to several, whose queues grow and shrink by m.
- What may be pending, and what queues hold, is rounded down to whole sets.
- What it takes to wake a thread, where nodes have a quota, is paid once for a set: there CPU comes out too low.
"""

from __future__ import annotations

import numpy as np

from stormwright.simulator.storm.records import Cluster

#: So many sets may be pending and be in a queue at least, for executors to have work beside each other.
_LEAST_SETS = 8


def fitting(of: Cluster, most: int) -> int:
    """How many tuples are a set: `most`, or fewer where spouts may have few trees pending, or queues are short."""
    executors = int(of.run[0]["executors"])
    rooms = [*of.spouts["most"], *of.threads["limit"][: executors + int(of.run[0]["workers"])]]
    return max(min(most, int(min(rooms, default=0)) // _LEAST_SETS), 1)


def put_together(of: Cluster, count: int) -> None:
    """Have so many tuples be one in a cluster in which nothing has happened yet."""
    spouts, executors = of.spouts, int(of.run[0]["executors"])
    spouts["apart_s"] *= count
    spouts["comes"] *= count
    spouts["varies"] /= count
    spouts["most"] //= count
    of.threads["limit"][: executors + int(of.run[0]["workers"])] //= count
    of.routes["bytes"] *= count
    for name in ("overhead_bytes", "serialise_s", "send_s", "receive_s"):
        of.run[name] *= count
    np.maximum(spouts["most"], 1, out=spouts["most"])
