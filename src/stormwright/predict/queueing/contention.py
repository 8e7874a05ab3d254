"""Contention of threads for the cores of a node."""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.predict.demand import TreeDemand
from stormwright.predict.sums import sums

#: Least fraction of a core that is assumed to be left for a thread.
MIN_FREE = 1e-9

#: Exponent of the transition from waiting for others only to a full node.
_SOON = 4


def stretch(demand: TreeDemand, load: FloatArray, beside: FloatArray) -> FloatArray:
    """Return wall time by CPU time of every thread while it works, at least 1, shape (E + 2 W,).

    The threads are software servers on their node's cores, as in layered queueing: J. A. Rolia, K. C. Sevcik, The
    Method of Layers, IEEE Transactions on Software Engineering 21(8), 1995, https://doi.org/10.1109/32.403785. The
    others of a node take a fraction ρ of its c cores, and an arrival waits as in a queue with c servers, by the time of
    service W = ρ^(√(2 (c + 1)) − 1) / (c (1 − ρ)): H. Sakasegawa, An approximation formula L_q ≃ αρ^β/(1 − ρ), Annals
    of the Institute of Statistical Mathematics 29, 1977, https://doi.org/10.1007/BF02532775. For one core that is
    1 / (1 − ρ) in all, which is exact for a core that is shared equally. The number of threads is finite: m others (the
    number of identical threads with the same variance) fill c cores only if they are at least c, so W counts times
    (m − c + 1) / m.

    A node is full when its threads together take all of its cores, and then one of them always has work: it gets what
    the others leave, c (1 − ρ), at most a core. So as the node fills, the wait goes over to 1 / (c (1 − ρ)) − 1;
    without that a node would be full before its cores are.

    A node with less than one core has a share of a core, which runs at full speed until the share is used up. The base
    CPU of workers is not available to threads.

    Parameters
    ----------
    demand
        Demand with the location of threads.
    load
        CPU time of every thread by wall time, shape (E + 2 W,).
    beside
        Cores that other topologies take on the node of every place, and the squares of what each thread takes, (2, P).
    """
    place = demand.places.of_thread
    on = np.flatnonzero((place >= 0) & (load > 0))
    at, own = place[on], load[on]
    of_place, square = np.maximum(demand.nodes.cores - demand.base_cores, MIN_FREE)[demand.places.node], own**2
    total, squares = (other + sums(at, each, len(of_place)) for other, each in zip(beside, (own, square), strict=True))
    filled, at_least = np.minimum(total / of_place, 1.0), np.maximum(of_place, 1.0)
    cores, whole, others = of_place[at], at_least[at], total[at] - own
    free = np.maximum(cores - others, MIN_FREE) / cores  # 1 − ρ
    queueing = np.maximum(1.0 - free, 0.0) ** (np.sqrt(2 * (at_least + 1)) - 1)[at]
    vary = squares[at] - square
    alike = np.divide(np.maximum(others, 0.0) ** 2, vary, out=np.zeros(len(at)), where=vary > square * MIN_FREE)
    several = np.maximum(1.0 - (whole - 1.0) / np.maximum(alike, MIN_FREE), 0.0)
    queueing *= np.where(whole > 1, several, 1.0)
    late = (filled**_SOON)[at]
    waits = ((1 - late) * queueing + late * np.maximum(1.0 - whole * free, 0.0)) / (whole * free)
    scarce = (filled * np.maximum(1.0 / of_place - 1.0, 0.0))[at] / free
    factor = np.ones(len(place))
    factor[on] = 1.0 + waits + scarce
    return factor
