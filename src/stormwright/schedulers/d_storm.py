"""D-Storm: pack executors into nodes like items into bins, by size and by traffic with the node."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
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
    """Fills node after node, always with the executor that is large and has much traffic with the node.

    After X. Liu, R. Buyya, "D-Storm: Dynamic resource-efficient scheduling of stream processing applications", ICPADS
    2017, https://doi.org/10.1109/ICPADS.2017.00070, of which only the abstract was available.

    1. Placing executors is bin packing in several dimensions, here CPU and memory, solved by first fit decreasing.
    2. Decreasing by a priority that changes during the placement: the traffic that would stay on the node counts, too.
    3. The result is few nodes with little traffic between them.

    Assumptions:

    1. The size of an executor is the larger of its CPU and memory as fractions of the largest node, relative to the
       largest executor of the topology.
    2. Its priority on a node is (1 - `communication`) × size + `communication` × the fraction of its traffic with
       executors on the node.
    3. A node is filled until no executor fits, then the next one: first nodes that the topology already uses, then
       those with most free CPU.
    4. Exactly the requested number of workers; they are opened last, where most executors share one. A topology uses at
       most as many nodes as workers: the remaining executors go wherever they fit.
    5. The paper reassigns a topology when a resource runs short, as ``--from-scratch`` does; otherwise running
       executors stay.
    6. A service reschedules once a node has exceeded its CPU for more than X seconds, whatever the gain: others write
       that D-Storm does so whenever contention for resources is detected (A. Muhammad, M. Aleem, M. A. Islam,
       "TOP-Storm: A topology-based resource-aware scheduler for Stream Processing Engine", Cluster Computing 24, 2021,
       §3, https://doi.org/10.1007/s10586-020-03117-y). X and T are those of `online`.

    Ties go to the lower index of executor and node.

    When to use
    -----------
    Few nodes should be used, with little traffic between them. `communication` shifts the weight from the former to the
    latter.

    Ignores
    -------
    Racks, streams, load balance, and traffic between workers of one node.

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
        """Place the executors without a slot."""
        exchange = Exchange.of(problem)
        traffic = exchange.total()

        def make_rule(_: FreeResources) -> Rule:
            def place(placing: Placing) -> None:
                packing = _Packing(placing, exchange, traffic, self.params.communication)
                for node in _nodes(placing):
                    packing.fill(node)
                for executor in packing.waiting():
                    placing.put(executor, UNPLACED)

            return place

        return place_waiting(problem, "d_storm", self.params, make_rule)


def _nodes(placing: Placing) -> list[int]:
    """Return the nodes in the order in which they are filled; assumption 3."""
    room, problem = placing.room, placing.room.problem
    own = room.node_of[problem.executors_of(placing.wanted.topology)]
    runs_here = np.bincount(own[own != UNPLACED], minlength=room.num_nodes) > 0
    nodes: list[int] = np.lexsort((-room.cpu_hz, ~runs_here)).tolist()
    return nodes


class _Packing:
    """The unplaced executors of a topology and their priorities on one node."""

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
        #: Priority per tuple/s exchanged with the node.
        self._per_tps = np.divide(communication, own_traffic, out=np.zeros(len(own_traffic)), where=own_traffic > 0)
        self._waits = np.ones(len(self._executors), dtype=bool)

    def waiting(self) -> list[int]:
        """Executors that are not placed yet."""
        waiting: list[int] = self._executors[self._waits].tolist()
        return waiting

    def fill(self, node: int) -> None:
        """Place executors on a node, highest priority first, until none fits."""
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
        """Add the traffic of the topology's executors with one on the node."""
        partners, rates = self._exchange.of_executor(executor)
        position = np.minimum(np.searchsorted(self._executors, partners), len(tps) - 1)
        ours = self._executors[position] == partners
        tps[position[ours]] += rates[ours]


def _largest(capacity: FloatArray) -> float:
    """Return the largest finite capacity of a node; infinite if there is none, so that demands for it do not count."""
    return float(capacity[np.isfinite(capacity)].max(initial=0.0)) or math.inf
