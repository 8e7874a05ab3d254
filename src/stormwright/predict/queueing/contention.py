"""How much longer threads take because others want the cores of their node."""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.predict.demand import TreeDemand
from stormwright.predict.sums import sums

#: Of a core, the least that is taken to be left for a thread.
_LEAST = 1e-9

#: How soon, as a node fills, it matters that a thread waits for others only, and never for itself.
_SOON = 4


def stretch(demand: TreeDemand, load: FloatArray, beside: FloatArray) -> FloatArray:
    """Wall time by CPU time of every thread while it works, at least 1, shape (E + 2 W,).

    The threads are software servers on their node's cores, as in layered queueing: J. A. Rolia, K. C. Sevcik, The
    Method of Layers, IEEE Transactions on Software Engineering 21(8), 1995, https://doi.org/10.1109/32.403785. The
    others of a node take a part ρ of its c cores, and who comes waits as in a queue with c servers, by the time of
    service W = ρ^(√(2 (c + 1)) − 1) / (c (1 − ρ)): H. Sakasegawa, An approximation formula L_q ≃ αρ^β/(1 − ρ), Annals
    of the Institute of Statistical Mathematics 29, 1977, https://doi.org/10.1007/BF02532775. For one core that is
    1 / (1 − ρ) in all, which is exact for a core that is shared equally. There are only so many threads: m others (as
    many alike as would vary as much) fill c cores only if they are at least c, so W counts times (m − c + 1) / m.

    A node is full when its threads together take all of its cores, and then one of them always has work: it gets what
    the others leave, c (1 − ρ), at most a core. So as the node fills the wait goes over to 1 / (c (1 − ρ)) − 1; without
    that a node would be full before its cores are.

    A node with less than one core has a share of a core, which runs at full speed until the share is used up. What
    workers take by being there is no longer there for threads.

    Parameters
    ----------
    demand
        Tells which threads are where.
    load
        CPU time of every thread by wall time, shape (E + 2 W,).
    beside
        Cores that other topologies take on the node of every place, and the squares of what each thread takes, (2, P).
    """
    place = demand.places.of_thread
    on = np.flatnonzero((place >= 0) & (load > 0))
    at, own = place[on], load[on]
    of_place, square = np.maximum(demand.nodes.cores - demand.base_cores, _LEAST)[demand.places.node], own**2
    total, squares = (other + sums(at, each, len(of_place)) for other, each in zip(beside, (own, square), strict=True))
    filled, at_least = np.minimum(total / of_place, 1.0), np.maximum(of_place, 1.0)
    cores, whole, others = of_place[at], at_least[at], total[at] - own
    free = np.maximum(cores - others, _LEAST) / cores  # 1 − ρ
    queueing = np.maximum(1.0 - free, 0.0) ** (np.sqrt(2 * (at_least + 1)) - 1)[at]
    vary = squares[at] - square
    alike = np.divide(np.maximum(others, 0.0) ** 2, vary, out=np.zeros(len(at)), where=vary > square * _LEAST)
    several = np.maximum(1.0 - (whole - 1.0) / np.maximum(alike, _LEAST), 0.0)
    queueing *= np.where(whole > 1, several, 1.0)
    late = (filled**_SOON)[at]
    waits = ((1 - late) * queueing + late * np.maximum(1.0 - whole * free, 0.0)) / (whole * free)
    scarce = (filled * np.maximum(1.0 / of_place - 1.0, 0.0))[at] / free
    factor = np.ones(len(place))
    factor[on] = 1.0 + waits + scarce
    return factor
