"""What tuples add to executors, workers and places on their way."""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.throughput.records import Sustained


@inner
def handle(of: Sustained, executor: int, tuples: float, more: float) -> None:
    """Tuples that an executor gets; what begins trees handles these, and no more.

    Parameters
    ----------
    of
        The placement under way.
    executor
        Which.
    tuples, more
        How many, and how many more it would be if each took as long as one in the mean.
    """
    if of.executors[executor].begins == 0.0:
        of.executors[executor].handled += tuples
        if more != 0.0:
            of.executors[executor].busy_s += of.executors[executor].work_s * more


@inner
def send_messages(
    of: Sustained, topology: int, source: int, tuples: float, volume: float, far: float, holds: float
) -> None:
    """Tuples leave the worker of their source.

    Parameters
    ----------
    of
        The placement under way.
    topology, source
        Whose they are: topology and executor.
    tuples, volume
        How many, and their bytes together.
    far
        What part of them leaves the node.
    holds
        For how many each counts that holds the tree up.
    """
    cost, worker, dearer = of.cost[0], of.executors[source].worker, of.topologies[topology].dearer
    of.executors[source].busy_s += dearer * (tuples * cost.serialise_s + volume * cost.serialise_byte_s)
    of.workers[worker].send_s += tuples * cost.send_s + volume * cost.send_byte_s
    of.tried[of.nodes[of.workers[worker].node].place].out += far * (volume + tuples * cost.overhead)
    of.topologies[topology].tried_messages += holds * tuples


@inner
def receive_messages(of: Sustained, worker: int, tuples: float, volume: float) -> None:
    """Tuples come to a worker from others.

    Parameters
    ----------
    of
        The placement under way.
    worker
        Theirs.
    tuples, volume
        How many, and their bytes together.
    """
    of.workers[worker].receive_s += tuples * of.cost[0].receive_s + volume * of.cost[0].receive_byte_s


@inner
def come_in(of: Sustained, node: int, tuples: float, volume: float) -> None:
    """Tuples come to a node from others.

    Parameters
    ----------
    of
        The placement under way.
    node
        Theirs.
    tuples, volume
        How many, and their bytes together.
    """
    of.tried[of.nodes[node].place].into += volume + tuples * of.cost[0].overhead
