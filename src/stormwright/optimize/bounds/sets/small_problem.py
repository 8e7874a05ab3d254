"""A small problem as arrays for an exact proof, and what is kept while sets of its executors are searched."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray

#: Levels of the room left on a node that bounds tell apart.
_LEVELS = 12


class Executors(NamedTuple):
    """The executors of a small problem, all topologies together.

    Parameters
    ----------
    tps
        What two of them exchange in both directions, shape (E, E); whole multiples of a power of two.
    demand
        What each uses of every resource, shape (K, E).
    topology
        The topology of each, shape (E,).
    most, spare
        Executors that a worker of each topology may have; places that all its workers together have beyond its
        executors, so that so many at most are empty on any node; shape (T,).
    near, inner
        What a tuple between workers of a node saves against one between nodes, and one within a worker beyond that.
    pair, own
        A set is worth no more than the sums of these over its pairs and its executors, shapes (E, E) and (E,).
    """

    tps: FloatArray
    demand: FloatArray
    topology: IndexArray
    most: IndexArray
    spare: IndexArray
    near: float
    inner: float
    pair: FloatArray
    own: FloatArray


class Kind(NamedTuple):
    """Nodes that are alike.

    Parameters
    ----------
    capacity
        What each has of every resource, shape (K,), with room for rounding.
    ports
        Of each.
    nodes
        How many there are.
    """

    capacity: FloatArray
    ports: int
    nodes: int


class SetPrices(NamedTuple):
    """What a set pays for its executors and workers, and is paid for its node; weighted tuples/s.

    Prices of executors and workers may be below 0.

    Parameters
    ----------
    executor, worker
        For each executor, shape (E,), and for each worker by topology, shape (T,).
    node
        What a set is paid for the node that it is on.
    seat
        What an executor pays with its part of the worker, if that is full, shape (E,).
    """

    executor: FloatArray
    worker: FloatArray
    node: float
    seat: FloatArray

    @classmethod
    def of(cls, executor: FloatArray, worker: FloatArray, node: float, executors: Executors) -> SetPrices:
        """Prices for `executors`, with what `seat` follows from them.

        Parameters
        ----------
        executor, worker, node
            As in the class.
        executors
            Whose topologies and limits count.
        """
        return cls(executor, worker, node, executor + (worker / executors.most)[executors.topology])


class FoundSets(NamedTuple):
    """Sets that were found, as many places as are wanted at most: their bits, what they are worth, their workers."""

    bits: NDArray[np.int64]
    worth: FloatArray
    workers: IndexArray

    @classmethod
    def of(cls, places: int, topologies: int) -> FoundSets:
        """So many places."""
        return cls(np.zeros(places, np.int64), np.zeros(places), np.zeros((places, topologies), np.int64))


class Scratch(NamedTuple):
    """What the search keeps at each depth, and what its parts work with: made once, as compiled code makes no arrays.

    Parameters
    ----------
    bits, value, next, left, gain, reach, counts
        Of the set at every depth: its executors, what it is worth by the bound, the next executor to try, what is left
        of every resource, what each executor would add by pairs, what sets with it can be worth at most, members by
        topology.
    half, share, skew, best_skew, part, worth, taken, rank
        Of `pair_shares`: shares of pairs, and what they amount to by level of room, first executor and executor.
    members, group, size, cut, best, joined, nearest, wanted, regret
        Of `worker_split`: the members to split, the worker of each, members of workers, what is lost so far, and what
        members exchange with each worker.
    rest
        What `_look_ahead` adds up, by price.
    """

    bits: NDArray[np.int64]
    value: FloatArray
    next: IndexArray
    left: FloatArray
    gain: FloatArray
    reach: FloatArray
    counts: IndexArray
    half: FloatArray
    share: FloatArray
    skew: FloatArray
    best_skew: FloatArray
    part: FloatArray
    worth: FloatArray
    taken: FloatArray
    rank: IndexArray
    members: IndexArray
    group: IndexArray
    size: IndexArray
    cut: FloatArray
    best: FloatArray
    joined: FloatArray
    nearest: IndexArray
    wanted: IndexArray
    regret: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, executors: Executors) -> Scratch:
        """Room for the search among `executors`."""
        resources, count = executors.demand.shape
        depths, topologies = count + 2, len(executors.most)
        return cls(
            bits=np.zeros(depths, np.int64),
            value=np.zeros(depths),
            next=np.zeros(depths, np.int64),
            left=np.zeros((depths, resources)),
            gain=np.zeros((depths, count)),
            reach=np.zeros((depths, count + 1)),
            counts=np.zeros((depths, topologies), np.int64),
            half=np.zeros((_LEVELS + 1, count + 1, count)),
            share=np.zeros((count, count)),
            skew=np.zeros((count, count)),
            best_skew=np.zeros((count, count)),
            part=np.zeros((count, count)),
            worth=np.zeros(count),
            taken=np.zeros(count),
            rank=np.zeros(count, np.int64),
            members=np.zeros(count, np.int64),
            group=np.zeros(depths, np.int64),
            size=np.zeros(depths, np.int64),
            cut=np.zeros(depths),
            best=np.zeros(depths),
            joined=np.zeros((count, depths)),
            nearest=np.zeros((count, count), np.int64),
            wanted=np.zeros(depths, np.int64),
            regret=np.zeros((depths, count + 1)),
            rest=np.zeros(_LEVELS),
        )


def members_of(bits: int | NDArray[np.int64], count: int) -> FloatArray:
    """1 for each of `count` executors that is in a set, else 0; of sets as a column, a row for each."""
    return (bits >> np.arange(count) & 1).astype(float)
