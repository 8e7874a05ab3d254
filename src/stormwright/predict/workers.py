"""Workers of a placement and their nodes, independent of traffic and costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.requests import CPU
from stormwright.model.traffic_matrix import Scopes, scopes_of
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.sums import sums

#: Payload fraction of a saturated link's traffic: a frame of Ethernet has 14 bytes before a packet of 1,500 (RFC 894),
#: of which 52 are IP's and TCP's with time stamps (RFC 791, RFC 7323). Counters of interfaces do not include them: the
#: kernel passes many packets down at once, with one header.
PAYLOAD = 1448 / 1514


class NodeSpeeds(NamedTuple):
    """Cores of every node, their speed in Hz, and payload in bytes/s of its link in either direction, (N,).

    A link of unknown speed has infinite payload. `overhead_cores` are used by others than workers.
    """

    cores: FloatArray
    core_hz: FloatArray
    link_bytes_per_s: FloatArray
    overhead_cores: FloatArray


def nodes_of(problem: Problem) -> NodeSpeeds:
    """Return the capacities of the nodes of a problem.

    A node without a number of cores has cores of the problem's `core_hz`. One with less than a core has a share of one
    that runs at full speed. What a node's control group allows counts more than what it declares. If it was not
    measured, the use by others than workers is the mean of the measured nodes.
    """
    cpu_hz = problem.node_cpu_hz
    reported = np.array([node.resources.get(CPU, 0.0) / 100 for node in problem.supervisors], dtype=np.float64)
    cores = np.where(reported > 0, reported, cpu_hz / problem.core_hz)
    core_hz = np.divide(cpu_hz, cores, out=np.full(len(cores), problem.core_hz), where=cores > 0)
    core_hz = np.where(core_hz > 0, core_hz, problem.core_hz)
    links = [PAYLOAD * node.link_bps / 8 if node.link_bps else np.inf for node in problem.supervisors]
    quota_hz, overhead_hz = (problem.load.node_quota_hz, problem.load.node_overhead_hz) if problem.load else ({}, {})
    allowed = np.array([quota_hz.get(node.id, np.nan) for node in problem.supervisors], dtype=np.float64) / core_hz
    others = np.array([overhead_hz.get(node.id, np.nan) for node in problem.supervisors], dtype=np.float64) / core_hz
    known = others[np.isfinite(others)]
    others = np.where(np.isfinite(others), others, known.mean() if len(known) else 0.0)
    return NodeSpeeds(np.where(np.isnan(allowed), cores, allowed), core_hz, np.array(links, dtype=np.float64), others)


class Sites(NamedTuple):
    """Places of topologies: a place is a node with a topology (P of them), and each worker is in one, (W,)."""

    node: IndexArray
    topology: IndexArray
    of_worker: IndexArray


@dataclass(frozen=True, eq=False)
class SteadyWorkers:
    """Workers of a placement, by topology and slot (W of them).

    Parameters
    ----------
    nodes
        Cores, their speed, and link payload of every node, shape (N,) each.
    scopes
        Slot, node and rack of every executor.
    running
        Whether all executors of a topology have a slot, shape (T,); others have no workers.
    topology, slot, node
        Topology, slot and node of every worker, shape (W,).
    of_executor, executor_topology, executor_node
        Worker, topology and node of every executor, -1 for none, shape (E,).
    """

    nodes: NodeSpeeds
    scopes: Scopes
    running: BoolArray
    topology: IndexArray
    slot: IndexArray
    node: IndexArray
    of_executor: IndexArray
    executor_topology: IndexArray
    executor_node: IndexArray

    @classmethod
    def of(
        cls, problem: Problem, layout: FlowLayout, slot_of_executor: IntArray, nodes: NodeSpeeds | None = None
    ) -> SteadyWorkers:
        """Return the workers of a placement.

        Parameters
        ----------
        problem
            The problem with the nodes.
        layout
            Layout of the load.
        slot_of_executor
            Index into the problem's slots, -1 for none, shape (E,).
        nodes
            Capacities of the problem's nodes, if known.
        """
        return cls._of(problem, layout.executor_topology, slot_of_executor, nodes or nodes_of(problem))

    @classmethod
    def _of(
        cls, problem: Problem, executor_topology: IntArray | IndexArray, slot_of_executor: IntArray, nodes: NodeSpeeds
    ) -> SteadyWorkers:
        """Return the workers of executors of the given topologies in the given slots."""
        scopes = scopes_of(problem, slot_of_executor)
        slot, topology = slot_of_executor.astype(np.int64), executor_topology.astype(np.int64)
        running = sums(topology, slot == UNPLACED, len(problem.topologies)) == 0
        on = (slot != UNPLACED) & running[topology]
        slots = np.int64(max(len(problem.slots), 1))
        keys, worker = np.unique(topology[on] * slots + slot[on], return_inverse=True)
        worker_topology, worker_slot = np.divmod(keys, slots)
        of_executor = np.full(len(slot), UNPLACED, dtype=np.int64)
        of_executor[on] = worker
        return cls(
            nodes=nodes,
            scopes=scopes,
            running=running,
            topology=worker_topology,
            slot=worker_slot,
            node=problem.slot_node[worker_slot].astype(np.int64),
            of_executor=of_executor,
            executor_topology=topology,
            executor_node=np.where(on, scopes.node, UNPLACED),
        )

    def moved(self, problem: Problem, slot_of_executor: IntArray, topologies: BoolArray) -> SteadyWorkers:
        """Return the workers of a placement, shape (E,), in which only some topologies moved, shape (T,)."""
        executors = np.flatnonzero(topologies[self.executor_topology])
        new = self._of(problem, self.executor_topology[executors], slot_of_executor[executors], self.nodes)
        indices, slots = np.flatnonzero(~topologies[self.topology]), np.int64(max(len(problem.slots), 1))
        before, among = (each.topology * slots + each.slot for each in (self, new))
        # Workers are in the order of their topologies and slots.
        at = np.searchsorted(before[indices], among) + np.arange(len(among))
        old = np.delete(np.arange(len(indices) + len(at)), at)
        number = np.full(len(self.topology) + 1, UNPLACED, dtype=np.int64)
        number[indices] = old

        def merged(ours: IndexArray, theirs: IndexArray) -> IndexArray:
            every = np.empty(len(old) + len(at), dtype=np.int64)
            every[old], every[at] = ours[indices], theirs
            return every

        def changed(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
            every = ours.copy()
            every[executors] = theirs
            return every

        return SteadyWorkers(
            nodes=self.nodes,
            scopes=Scopes(*(changed(*each) for each in zip(self.scopes, new.scopes, strict=True))),
            running=np.where(topologies, new.running, self.running),
            topology=merged(self.topology, new.topology),
            slot=merged(self.slot, new.slot),
            node=merged(self.node, new.node),
            of_executor=changed(number[self.of_executor], np.append(at, UNPLACED)[new.of_executor]),
            executor_topology=self.executor_topology,
            executor_node=changed(self.executor_node, new.executor_node),
        )

    def part(self, executors: IndexArray, topologies: BoolArray) -> SteadyWorkers:
        """Return the workers of some topologies, shape (T,), with these executors."""
        indices = np.flatnonzero(topologies[self.topology])
        number = np.full(len(self.topology) + 1, UNPLACED, dtype=np.int64)
        number[indices] = np.arange(len(indices))
        return SteadyWorkers(
            nodes=self.nodes,
            scopes=Scopes(*(each[executors] for each in self.scopes)),
            running=self.running,
            topology=self.topology[indices],
            slot=self.slot[indices],
            node=self.node[indices],
            of_executor=number[self.of_executor[executors]],
            executor_topology=self.executor_topology[executors],
            executor_node=self.executor_node[executors],
        )

    @cached_property
    def places(self) -> Sites:
        """Places of topologies."""
        topologies = np.int64(max(len(self.running), 1))
        keys, of_worker = np.unique(self.node * topologies + self.topology, return_inverse=True)
        node, topology = np.divmod(keys, topologies)
        return Sites(node, topology, of_worker)

    @cached_property
    def place_of_thread(self) -> IndexArray:
        """Place of every thread, executors first, -1 for none; shape (E + 2 W,)."""
        of_executor = np.append(self.places.of_worker, UNPLACED)[self.of_executor]
        return np.concatenate([of_executor, self.places.of_worker, self.places.of_worker])

    @cached_property
    def thread_topology(self) -> IndexArray:
        """Topology of every thread, shape (E + 2 W,)."""
        return np.concatenate([self.executor_topology, self.topology, self.topology])

    @cached_property
    def thread_node(self) -> IndexArray:
        """Node of every thread, -1 for none, shape (E + 2 W,)."""
        return np.concatenate([self.executor_node, self.node, self.node])
