"""D-Storm: executors are packed into nodes like items into bins, those first that talk to what is already there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers.placement.placing import NodeRoom, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import Params, param
from stormwright.schedulers.toolkit.traffic import Exchange
from stormwright.schedulers.toolkit.triggers import Adaptation


@dataclass(frozen=True, kw_only=True)
class DStormParams(Params):
    """Parameters of the scheduler."""

    communication: float = param(
        0.5, "weight in an executor's priority of its traffic with the node, against that of its size", low=0, high=1
    )


class DStormScheduler:
    """Fills node after node: always with the executor that is large and talks much to what is already on the node.

    After X. Liu, R. Buyya, "D-Storm: Dynamic resource-efficient scheduling of stream processing applications", ICPADS
    2017, https://doi.org/10.1109/ICPADS.2017.00070, of which only the abstract was to be had.

    1. Placing executors is bin packing in several dimensions, here CPU and memory, solved by first fit decreasing.
    2. Decreasing by a priority that changes with what is placed: the traffic that would stay on the node counts too.
    3. So few nodes are used, and little traffic goes between them.

    Assumptions:

    1. The size of an executor is the larger of its CPU and its memory in parts of what the largest node has, and that
       in parts of the largest executor of the topology.
    2. Its priority on a node is (1 - `communication`) × size + `communication` × the part of its traffic that it has
       with executors on the node.
    3. A node is filled until no executor fits, then comes the next: nodes that the topology already runs on, then
       those with most free CPU.
    4. Exactly as many workers as the topology wants; they are opened last, where most executors share one. A topology
       has at most as many nodes as workers: what then is left goes where there is room.
    5. The paper reassigns a topology when a resource runs short, as ``--from-scratch`` does; else what runs stays.
    6. A service looks once a node was over its CPU for more than X seconds, and then moves whatever that gains: of when
       D-Storm does, others write that it is whenever contention for resources is detected (A. Muhammad, M. Aleem, M. A.
       Islam, "TOP-Storm: A topology-based resource-aware scheduler for Stream Processing Engine", Cluster Computing 24,
       2021, §3, https://doi.org/10.1007/s10586-020-03117-y). X and T are those of `online`.

    Ties go to the lower index of executor and node.

    When to use
    -----------
    Nodes are few or are to be few, and tuples between them should be few as well. `communication` shifts the weight
    from the one to the other.

    Ignores
    -------
    Racks, streams, how evenly nodes are loaded, and which worker of a node a tuple goes to.

    Honours
    -------
    CPU, memory, executors per worker, traffic
    """

    params_type = DStormParams
    quick_up_to = 20_000
    adapts = Adaptation(on_overload=True)

    def __init__(self, params: DStormParams | None = None) -> None:
        self.params = params or DStormParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        exchange = Exchange.of(problem)
        traffic = exchange.total()

        def make_rule(_: NodeRoom) -> Rule:
            def place(placing: Placing) -> None:
                packing = _Packing(placing, exchange, traffic, self.params.communication)
                for node in _nodes(placing):
                    packing.fill(node)
                for executor in packing.waiting():
                    placing.put(executor, UNPLACED)

            return place

        return place_waiting(problem, "d_storm", self.params, make_rule)


def _nodes(placing: Placing) -> list[int]:
    """Assumption 3: the nodes in the order in which they are filled."""
    room, problem = placing.room, placing.room.problem
    own = room.node_of[problem.executors_of(placing.wanted.topology)]
    runs_here = np.bincount(own[own != UNPLACED], minlength=room.num_nodes) > 0
    nodes: list[int] = np.lexsort((-room.cpu_hz, ~runs_here)).tolist()
    return nodes


class _Packing:
    """The executors of a topology that wait, and their priorities on one node."""

    def __init__(self, placing: Placing, exchange: Exchange, traffic: FloatArray, communication: float) -> None:
        problem = placing.room.problem
        self._placing, self._exchange = placing, exchange
        self._executors: IndexArray = placing.wanted.executors
        self._demand = problem.executor_demand[:, self._executors]
        cpu_hz, memory_mb = self._demand[:2]
        room = placing.room
        size = np.maximum(cpu_hz / _largest(room.capacity_hz), memory_mb / _largest(room.capacity_mb))
        self._static = (1 - communication) * size / (float(size.max()) or 1.0)
        own_traffic = traffic[self._executors]
        #: What a tuple/s with the node adds to the priority.
        self._per_tps = np.divide(communication, own_traffic, out=np.zeros(len(own_traffic)), where=own_traffic > 0)
        self._waits = np.ones(len(self._executors), dtype=bool)

    def waiting(self) -> list[int]:
        """The executors that are not placed yet."""
        waiting: list[int] = self._executors[self._waits].tolist()
        return waiting

    def fill(self, node: int) -> None:
        """Put executors on a node, the one with the highest priority first, until none fits."""
        placing, room = self._placing, self._placing.room
        if not self._waits.any() or not placing.is_open(node):
            return
        tps = np.zeros(len(self._executors))
        running = room.problem.executors_of(placing.wanted.topology)
        for executor in (np.flatnonzero(room.node_of[running] == node) + running.start).tolist():
            self._add_partners(tps, executor)
        while placing.is_open(node):
            fits = self._waits & (self._demand <= room.left[:, [node]]).all(axis=0)
            priority = np.where(fits, self._static + self._per_tps * tps, -1.0)
            position = int(np.argmax(priority))
            if not fits[position]:
                return
            executor = int(self._executors[position])
            placing.put(executor, node)
            self._waits[position] = False
            self._add_partners(tps, executor)

    def _add_partners(self, tps: FloatArray, executor: int) -> None:
        """Add what the topology's executors exchange with one that is on the node."""
        partners, rates = self._exchange.of_executor(executor)
        position = np.minimum(np.searchsorted(self._executors, partners), len(tps) - 1)
        ours = self._executors[position] == partners
        tps[position[ours]] += rates[ours]


def _largest(capacity: FloatArray) -> float:
    """The largest capacity of a node that tells it; infinite if none does, so that demands for it do not count."""
    return float(capacity[np.isfinite(capacity)].max(initial=0.0)) or math.inf
