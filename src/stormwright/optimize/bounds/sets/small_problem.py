"""A small problem as arrays for an exact proof, and the state of the search for sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray

#: Levels of remaining capacity of a node that bounds distinguish.
_LEVELS = 12


class Executors(NamedTuple):
    """The executors of a small problem, all topologies together.

    Parameters
    ----------
    tps
        Traffic of two of them in both directions, shape (E, E); whole multiples of a power of two.
    demand
        Demand of each for every resource, shape (K, E).
    topology
        The topology of each, shape (E,).
    most, spare
        Executors that a worker of each topology may have; places that all its workers together have beyond its
        executors, the most that are empty on any node; shape (T,).
    near, inner
        Saving of a tuple between workers of a node over one between nodes, and additional saving within a worker.
    pair, own
        Upper bound of the worth of a set as sums over its pairs and its executors, shapes (E, E) and (E,).
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
    """A group of identical nodes.

    Parameters
    ----------
    capacity
        Capacity of each node for every resource, shape (K,), with a rounding tolerance.
    ports
        Number of ports of each node.
    nodes
        Number of nodes of this kind, at least 1.
    """

    capacity: FloatArray
    ports: int
    nodes: int


class SetPrices(NamedTuple):
    """Prices of a set for its executors and workers, and the payment for its node; weighted tuples/s.

    Prices of executors and workers may be below 0.

    Parameters
    ----------
    executor, worker
        Price of each executor, shape (E,), and of each worker by topology, shape (T,).
    node
        Payment to a set for its node.
    seat
        Price of an executor with its part of the worker, if that is full, shape (E,).
    """

    executor: FloatArray
    worker: FloatArray
    node: float
    seat: FloatArray

    @classmethod
    def of(cls, executor: FloatArray, worker: FloatArray, node: float, executors: Executors) -> SetPrices:
        """Return prices for `executors`, with the `seat` that follows from them.

        Parameters
        ----------
        executor, worker, node
            As in the class.
        executors
            Executors with their topologies and limits.
        """
        return cls(executor, worker, node, executor + (worker / executors.most)[executors.topology])


class FoundSets(NamedTuple):
    """Buffer for sets: their bits, worth and workers."""

    bits: NDArray[np.int64]
    worth: FloatArray
    workers: IndexArray

    @classmethod
    def of(cls, places: int, topologies: int) -> FoundSets:
        """Return a buffer of this size."""
        return cls(np.zeros(places, np.int64), np.zeros(places), np.zeros((places, topologies), np.int64))


class Scratch(NamedTuple):
    """State of the search at each depth, and scratch arrays: allocated once, as compiled code allocates none.

    Parameters
    ----------
    bits, value, next, left, gain, reach, counts
        Of the set at every depth: its executors, its worth by the bound, the next executor to try, remaining capacity
        of every resource, addition of each executor by pairs, upper bound of sets with it, members by
        topology.
    half, share, skew, best_skew, part, worth, taken, rank
        Of `pair_shares`: shares of pairs, and their sums by level of capacity, first executor and executor.
    members, group, size, cut, best, joined, nearest, wanted, regret
        Of `worker_split`: the members to split, the worker of each, members of workers, loss so far, and traffic of
        members with each worker.
    rest
        Sums of `_look_ahead`, by price.
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
        """Return the scratch for a search among `executors`."""
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
    """Return 1 for each of `count` executors that is in a set, else 0; for a column of sets, a row for each."""
    return (bits >> np.arange(count) & 1).astype(float)
