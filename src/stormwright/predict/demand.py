"""What a tree of each topology takes of every thread, node and link under a placement.

All of it is linear in the topologies' rates, so a placement is a set of arrays: per thread, and per worker. A move of
one executor changes its own entries, its peers' and those of the workers concerned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.conf.requests import CPU
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.flow.profile import Profile, correction_factors
from stormwright.predict.flow.routes import Routes
from stormwright.predict.sums import sums

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Nodes(NamedTuple):
    """Cores of every node, their speed in Hz, and bytes/s of its link in either direction (inf where unknown), (N,)."""

    cores: FloatArray
    core_hz: FloatArray
    link_bytes_per_s: FloatArray


def nodes_of(problem: Problem) -> Nodes:
    """What the nodes of a problem have.

    A node that does not say how many cores its CPU is has cores of the problem's `core_hz`. One with less than a core
    has a share of one that runs at full speed.
    """
    cpu_hz = problem.node_cpu_hz
    told = np.array([node.resources.get(CPU, 0.0) / 100 for node in problem.supervisors], dtype=np.float64)
    cores = np.where(told > 0, told, cpu_hz / problem.core_hz)
    core_hz = np.divide(cpu_hz, cores, out=np.full(len(cores), problem.core_hz), where=cores > 0)
    links = [node.link_bps / 8 if node.link_bps else np.inf for node in problem.supervisors]
    return Nodes(cores, np.where(core_hz > 0, core_hz, problem.core_hz), np.array(links, dtype=np.float64))


class Places(NamedTuple):
    """Where topologies have workers: a place is a node with a topology (P of them).

    Parameters
    ----------
    node, topology
        Of every place, shape (P,).
    of_worker, of_thread
        Place of every worker, shape (W,), and thread, -1 for none, shape (E + 2 W,).
    link_s, link_messages
        Seconds of the link that 1 tree takes, and messages, out of the node and into it, shape (2, P).
    """

    node: IndexArray
    topology: IndexArray
    of_worker: IndexArray
    of_thread: IndexArray
    link_s: FloatArray
    link_messages: FloatArray


@dataclass(frozen=True, eq=False)
class Demand:
    """What each tree takes, in seconds of threads at the full speed of their node's cores and in bytes of links.

    Threads are those of the executors (E), then one of each worker (W) that sends and one that receives: E + 2 W.

    Parameters
    ----------
    nodes
        What nodes have.
    running
        Whether all executors of a topology have a slot, shape (T,); others take nothing.
    worker_topology, worker_slot, worker_node
        Of every worker, shape (W,).
    executor_worker
        Worker of every executor, -1 for none, shape (E,).
    thread_s, thread_visits
        Seconds and tuples of a tree, shape (E + 2 W,).
    link_bytes, link_messages
        Of a tree, from the worker to other nodes and to it from others, shape (2, W).
    base_cores
        CPU of nodes that depends on no rate, shape (N,).
    """

    nodes: Nodes
    running: BoolArray
    worker_topology: IndexArray
    worker_slot: IndexArray
    worker_node: IndexArray
    executor_worker: IndexArray
    executor_topology: IndexArray
    executor_node: IndexArray
    thread_s: FloatArray
    thread_visits: FloatArray
    link_bytes: FloatArray
    link_messages: FloatArray
    base_cores: FloatArray

    @cached_property
    def thread_topology(self) -> IndexArray:
        """Topology of every thread, shape (E + 2 W,)."""
        return np.concatenate([self.executor_topology, self.worker_topology, self.worker_topology])

    @cached_property
    def thread_node(self) -> IndexArray:
        """Node of every thread, -1 for none, shape (E + 2 W,)."""
        return np.concatenate([self.executor_node, self.worker_node, self.worker_node])

    @cached_property
    def shared(self) -> csr_array:
        """Part of each shared resource that 1 tree/s takes: CPU, links out, links in of all nodes; shape (3 N, T)."""
        from scipy.sparse import csr_array  # takes longer to import than the rest

        count, on = len(self.nodes.cores), self.thread_node != UNPLACED
        row = np.concatenate([self.thread_node[on], count + self.worker_node, 2 * count + self.worker_node])
        column = np.concatenate([self.thread_topology[on], self.worker_topology, self.worker_topology])
        speed = self.nodes.link_bytes_per_s[self.worker_node]
        parts = [_part(self.thread_s[on], self.nodes.cores[self.thread_node[on]]), *_part(self.link_bytes, speed)]
        return csr_array((np.concatenate(parts), (row, column)), shape=(3 * count, len(self.running)))

    @cached_property
    def free(self) -> FloatArray:
        """Part of each shared resource that is there for trees, shape (3 N,)."""
        part = _part(self.base_cores, self.nodes.cores)
        return np.concatenate([np.maximum(1.0 - part, 0.0), np.ones(2 * len(part))])

    @cached_property
    def busiest_s(self) -> FloatArray:
        """Seconds of a tree in that thread of each topology that has most to do, shape (T,)."""
        most = np.zeros(len(self.running))
        np.maximum.at(most, self.thread_topology, self.thread_s)
        return most

    @cached_property
    def places(self) -> Places:
        """Where topologies are, and which place each worker and thread is in."""
        topologies = np.int64(max(len(self.running), 1))
        keys, of_worker = np.unique(self.worker_node * topologies + self.worker_topology, return_inverse=True)
        node, topology = np.divmod(keys, topologies)
        on = self.executor_worker != UNPLACED
        of_executor = np.full(len(on), UNPLACED, dtype=np.int64)
        of_executor[on] = of_worker[self.executor_worker[on]]
        amounts = [
            [sums(of_worker, each, len(keys)) for each in kind] for kind in (self.link_bytes, self.link_messages)
        ]
        return Places(
            node=node,
            topology=topology,
            of_worker=of_worker,
            of_thread=np.concatenate([of_executor, of_worker, of_worker]),
            link_s=_part(np.stack(amounts[0]), self.nodes.link_bytes_per_s[node]),
            link_messages=np.stack(amounts[1]),
        )

    def link_use(self, rate_tps: FloatArray) -> FloatArray:
        """Part of every link in use, out of all nodes and then into them, at given rates (trees/s); shape (2 N,)."""
        used: FloatArray = (self.shared @ rate_tps)[len(self.nodes.cores) :]
        return used

    @cached_property
    def busiest(self) -> IndexArray:
        """The thread of each topology that has most to do, the first of several; shape (T,)."""
        order = np.lexsort((-self.thread_s, self.thread_topology))
        first = np.searchsorted(self.thread_topology[order], np.arange(len(self.running)))
        return np.append(order, UNPLACED)[first]

    @classmethod
    def of(
        cls,
        profile: Profile,
        routes: Routes,
        problem: Problem,
        costs: Costs,
        corrections: Mapping[str, Correction] = NO_CORRECTIONS,
    ) -> Demand:
        """The demand of a profile's topologies along `routes`, on the nodes of `problem`.

        Parameters
        ----------
        profile
            Of the load.
        routes
            Under the placement.
        problem
            Has the nodes.
        costs, corrections
            What messages and workers cost, and what is known of single topologies, by id.
        """
        slot = routes.scopes.slot.astype(np.int64)
        topology = profile.layout.executor_topology.astype(np.int64)
        unplaced = sums(topology, slot == UNPLACED, len(problem.topologies))
        running = unplaced == 0
        on = (slot != UNPLACED) & running[topology]
        slots = np.int64(max(len(problem.slots), 1))
        keys, worker = np.unique(topology[on] * slots + slot[on], return_inverse=True)
        worker_topology, worker_slot = np.divmod(keys, slots)
        executor_worker = np.full(len(slot), UNPLACED, dtype=np.int64)
        executor_worker[on] = worker
        worker_node = problem.slot_node[worker_slot].astype(np.int64)
        executor_node = np.where(on, routes.scopes.node, UNPLACED)
        messages = _Messages.of(routes, executor_worker, len(keys), costs)
        nodes = nodes_of(problem)
        factors = correction_factors(problem, corrections)[1]
        cycles = 1e-6 * problem.core_hz * np.append(factors, 1.0)
        work = profile.work_cycles(costs, corrections) * routes.handled + messages.serialise_us * cycles[topology]
        of_worker = cycles[worker_topology] / nodes.core_hz[worker_node]
        idle_cores = np.where(on, profile.idle_hz(), 0.0) / np.append(nodes.core_hz, 1.0)[executor_node]
        base = sums(executor_node[on], idle_cores[on], len(nodes.cores))
        base += np.bincount(worker_node, minlength=len(nodes.cores)) * costs.worker_cores
        return cls(
            nodes=nodes,
            running=running,
            worker_topology=worker_topology,
            worker_slot=worker_slot,
            worker_node=worker_node,
            executor_worker=executor_worker,
            executor_topology=topology,
            executor_node=executor_node,
            thread_s=np.concatenate(
                [
                    np.where(on, work / np.append(nodes.core_hz, 1.0)[executor_node], 0.0),
                    messages.send_us * of_worker,
                    messages.receive_us * of_worker,
                ]
            ),
            thread_visits=np.concatenate([np.where(on, routes.handled, 0.0), messages.sent, messages.received]),
            link_bytes=messages.link_bytes,
            link_messages=messages.link_messages,
            base_cores=base,
        )


class _Messages(NamedTuple):
    """Messages of a tree: CPU of each executor (µs) for those it sends, and of each worker; what crosses links."""

    serialise_us: FloatArray
    send_us: FloatArray
    receive_us: FloatArray
    sent: FloatArray
    received: FloatArray
    link_bytes: FloatArray
    link_messages: FloatArray

    @classmethod
    def of(cls, routes: Routes, executor_worker: IndexArray, workers: int, costs: Costs) -> _Messages:
        from_worker, to_worker = executor_worker[routes.source], executor_worker[routes.target]
        left = np.flatnonzero((from_worker != to_worker) & (from_worker != UNPLACED) & (to_worker != UNPLACED))
        tuples, source = routes.tuples[left], routes.source[left]
        kilobytes = tuples * routes.size[left] / 1e3
        from_worker, to_worker = from_worker[left], to_worker[left]
        far = routes.scopes.node[source] != routes.scopes.node[routes.target[left]]
        on_wire = (tuples * (routes.size[left] + costs.overhead_bytes))[far]

        def of_workers(worker: IndexArray, weights: FloatArray) -> FloatArray:
            return sums(worker, weights, workers)

        serialise_us = tuples * costs.serialise_us + kilobytes * costs.serialise_us_per_kb
        ends = (from_worker, to_worker)
        return cls(
            serialise_us=sums(source, serialise_us, len(executor_worker)),
            send_us=of_workers(from_worker, tuples * costs.send_us + kilobytes * costs.send_us_per_kb),
            receive_us=of_workers(to_worker, tuples * costs.receive_us + kilobytes * costs.receive_us_per_kb),
            sent=of_workers(from_worker, tuples),
            received=of_workers(to_worker, tuples),
            link_bytes=np.stack([of_workers(end[far], on_wire) for end in ends]),
            link_messages=np.stack([of_workers(end[far], tuples[far]) for end in ends]),
        )


def _part(used: FloatArray, capacity: FloatArray) -> FloatArray:
    """`used` in parts of `capacity`; of nothing, something is more than all."""
    nothing = np.where(used > 0, np.inf, 0.0)
    part: FloatArray = np.divide(
        used, capacity, out=np.broadcast_to(nothing, np.shape(used)).copy(), where=capacity > 0
    )
    return part
