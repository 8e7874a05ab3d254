"""Demand of a tree of each topology for every thread, node and link under a placement.

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
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.flow.graph import GraphEdges
from stormwright.predict.flow.part import TopologySubset
from stormwright.predict.flow.profile import Factors, Profile
from stormwright.predict.flow.routes import Routes
from stormwright.predict.sums import first_of_most, sums
from stormwright.predict.workers import NodeSpeeds, SteadyWorkers

if TYPE_CHECKING:
    from scipy.sparse import coo_array

#: Fraction of an absent resource that a tree/s takes: in effect all of it, but finite.
ALL_AT_ONCE = 1e15


class MessageDemand(NamedTuple):
    """Messages of a tree: CPU of each executor (µs) to send them, of each worker, and bytes over links."""

    serialise_us: FloatArray
    send_us: FloatArray
    receive_us: FloatArray
    sent: FloatArray
    received: FloatArray
    link_bytes: FloatArray
    link_messages: FloatArray

    @classmethod
    def of(cls, routes: Routes, graph: GraphEdges, costs: Costs) -> MessageDemand:
        """Return the demand of the messages along `routes`."""
        sender, receiver = graph.sources.executor, graph.targets.executor
        executors, workers = len(routes.workers.of_executor), len(routes.workers.slot)
        # Index -1 is counted before all others.
        by_sender, by_receiver = (routes.workers.of_executor[end] + 1 for end in (sender, receiver))

        def of_workers(worker: IndexArray, amounts: FloatArray) -> FloatArray:
            return sums(worker, amounts, workers + 1)[..., 1:]

        sent, received = routes.sent, routes.received
        kilobytes, came = sent.bytes / 1e3, received.bytes / 1e3
        serialise_us = sent.tuples * costs.serialise_us + kilobytes * costs.serialise_us_per_kb
        ends = ((by_sender, sent), (by_receiver, received))
        return cls(
            serialise_us=sums(sender, serialise_us, executors),
            send_us=of_workers(by_sender, sent.tuples * costs.send_us + kilobytes * costs.send_us_per_kb),
            receive_us=of_workers(by_receiver, received.tuples * costs.receive_us + came * costs.receive_us_per_kb),
            sent=of_workers(by_sender, sent.tuples),
            received=of_workers(by_receiver, received.tuples),
            link_bytes=np.stack(
                [of_workers(end, edges.far_bytes + edges.far_tuples * costs.overhead_bytes) for end, edges in ends]
            ),
            link_messages=np.stack([of_workers(end, edges.far_tuples) for end, edges in ends]),
        )


class Places(NamedTuple):
    """Places of topologies: a place is a node with a topology (P of them).

    Parameters
    ----------
    node, topology
        Node and topology of every place, shape (P,).
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


class Claims(NamedTuple):
    """Demand of 1 tree/s: fractions of CPU, link out and link in by place, shape (3, P); seconds of its busiest thread.

    `busiest_s` is by topology, shape (T,).
    """

    shared: FloatArray
    busiest_s: FloatArray


@dataclass(frozen=True, eq=False)
class TreeDemand:
    """Demand of a tree, in seconds of threads at the full speed of their node's cores and in bytes of links.

    For several trees, as in routes, all but `base_cores` has an axis of trees before the last.

    Threads are those of the executors (E), then one of each worker (W) that sends and one that receives: E + 2 W.

    Parameters
    ----------
    workers
        Workers of the placement.
    thread_s, thread_visits
        Seconds and tuples of a tree, shape (E + 2 W,).
    link_bytes, link_messages
        Bytes and messages of a tree, from the worker to other nodes and to it from others, shape (2, W).
    base_cores
        CPU of nodes that depends on no rate, shape (N,).
    """

    workers: SteadyWorkers
    thread_s: FloatArray
    thread_visits: FloatArray
    link_bytes: FloatArray
    link_messages: FloatArray
    base_cores: FloatArray

    @property
    def nodes(self) -> NodeSpeeds:
        """Capacities of nodes."""
        return self.workers.nodes

    @property
    def running(self) -> BoolArray:
        """Whether all executors of a topology have a slot, shape (T,); others have no demand."""
        return self.workers.running

    @property
    def worker_topology(self) -> IndexArray:
        """Topology of every worker, shape (W,)."""
        return self.workers.topology

    @property
    def worker_slot(self) -> IndexArray:
        """Slot of every worker, shape (W,)."""
        return self.workers.slot

    @property
    def worker_node(self) -> IndexArray:
        """Node of every worker, shape (W,)."""
        return self.workers.node

    @property
    def executor_worker(self) -> IndexArray:
        """Worker of every executor, -1 for none, shape (E,)."""
        return self.workers.of_executor

    @property
    def executor_node(self) -> IndexArray:
        """Node of every executor, -1 for none, shape (E,)."""
        return self.workers.executor_node

    @property
    def thread_topology(self) -> IndexArray:
        """Topology of every thread, shape (E + 2 W,)."""
        return self.workers.thread_topology

    @property
    def thread_node(self) -> IndexArray:
        """Node of every thread, -1 for none, shape (E + 2 W,)."""
        return self.workers.thread_node

    @cached_property
    def shared(self) -> coo_array:
        """Fraction of each shared resource that 1 tree/s takes: CPU, links out, links in of nodes; shape (3 N, T)."""
        from scipy.sparse import coo_array  # takes longer to import than the rest

        places, count = self.places, len(self.nodes.cores)
        row = np.concatenate([places.node, count + places.node, 2 * count + places.node])
        finite = np.minimum(self.claims.shared.ravel(), ALL_AT_ONCE)
        return coo_array((finite, (row, np.tile(places.topology, 3))), shape=(3 * count, len(self.running)))

    @cached_property
    def claims(self) -> Claims:
        """Fractions of shared resources by place, and of the busiest thread."""
        places = self.places
        # Index -1 is counted before all others.
        seconds = sums(places.of_thread + 1, self.thread_s, len(places.node) + 1)[1:]
        cpu = _part(seconds, self.nodes.cores[places.node])
        return Claims(np.stack([cpu, *places.link_s]), self.busiest_s)

    @cached_property
    def free(self) -> FloatArray:
        """Fraction of each shared resource that is available for trees, shape (3 N,)."""
        return free_of(self.nodes, self.base_cores)

    @cached_property
    def busiest_s(self) -> FloatArray:
        """Seconds of a tree in the busiest thread of each topology, shape (T,)."""
        most = np.zeros(len(self.running))
        np.maximum.at(most, self.thread_topology, self.thread_s)
        return most

    @cached_property
    def places(self) -> Places:
        """Places of topologies, and the place of each worker and thread."""
        node, topology, of_worker = self.workers.places
        amounts = [
            [sums(of_worker, each, len(node)) for each in kind] for kind in (self.link_bytes, self.link_messages)
        ]
        return Places(
            node=node,
            topology=topology,
            of_worker=of_worker,
            of_thread=self.workers.place_of_thread,
            link_s=_part(np.stack(amounts[0]), self.nodes.link_bytes_per_s[node]),
            link_messages=np.stack(amounts[1]),
        )

    def link_use(self, rate_tps: FloatArray) -> FloatArray:
        """Return the utilisation of links, out of all nodes and then into them, at given trees/s; shape (2 N,)."""
        used: FloatArray = (self.shared @ rate_tps)[len(self.nodes.cores) :]
        return used

    @cached_property
    def busiest(self) -> IndexArray:
        """The busiest thread of each topology, the first of several; shape (T,)."""
        return first_of_most(self.thread_s, self.thread_topology, self.busiest_s)

    @classmethod
    def of(
        cls,
        profile: Profile,
        routes: Routes,
        problem: Problem,
        costs: Costs,
        corrections: Mapping[str, Correction] = NO_CORRECTIONS,
        base_cores: FloatArray | None = None,
    ) -> TreeDemand:
        """Return the demand of a profile's topologies along `routes`, on the nodes of `problem`.

        Parameters
        ----------
        profile
            Profile of the load.
        routes
            Routes under the placement.
        problem
            The problem with the nodes.
        costs, corrections
            Costs of messages and workers, and corrections of single topologies, by id.
        base_cores
            CPU of nodes that depends on no rate, if the profile covers only part of it, shape (N,).
        """
        workers = routes.workers
        nodes, worker_node, executor_node = workers.nodes, workers.node, workers.executor_node
        on, topology = workers.of_executor != UNPLACED, workers.executor_topology
        messages = MessageDemand.of(routes, profile.graph, costs)
        factors = Factors.of(problem, corrections)
        cycles = 1e-6 * problem.core_hz * np.append(factors.messages * factors.scale, 1.0)
        mix = profile.mix(corrections)
        worked = routes.handled if mix is None else mix.worked(routes.handled, routes.came, profile.graph)
        work = profile.work_cycles(costs, corrections) * worked + messages.serialise_us * cycles[topology]
        of_worker = cycles[workers.topology] / nodes.core_hz[worker_node]
        own_s = np.where(on, work / np.append(nodes.core_hz, 1.0)[executor_node], 0.0)
        handled = np.where(on, routes.handled, 0.0)
        return cls(
            workers=workers,
            thread_s=np.concatenate([own_s, messages.send_us * of_worker, messages.receive_us * of_worker], axis=-1),
            thread_visits=np.concatenate([handled, messages.sent, messages.received], axis=-1),
            link_bytes=messages.link_bytes,
            link_messages=messages.link_messages,
            base_cores=base_cores_of(profile, workers, costs) if base_cores is None else base_cores,
        )

    def with_part(
        self, part: TopologySubset, other: TreeDemand, workers: SteadyWorkers, base_cores: FloatArray
    ) -> TreeDemand:
        """Return this demand with that of some topologies replaced by `other`.

        Parameters
        ----------
        part
            The topologies that are replaced.
        other
            Demand of these topologies.
        workers, base_cores
            Workers and base CPU of all topologies, under the new placement.
        """
        unchanged, there = ~part.topologies[self.workers.topology], part.topologies[workers.topology]
        executors, chosen = len(self.executor_worker), part.executors

        def of_workers(ours: FloatArray, theirs: FloatArray) -> FloatArray:
            every = np.empty((2, len(there)))
            every[:, there], every[:, ~there] = theirs, ours[:, unchanged]
            return every

        def of_threads(ours: FloatArray, theirs: FloatArray) -> FloatArray:
            own = ours[:executors].copy()
            own[chosen] = theirs[: len(chosen)]
            carry = of_workers(ours[executors:].reshape(2, -1), theirs[len(chosen) :].reshape(2, -1))
            return np.concatenate([own, carry.ravel()])

        return TreeDemand(
            workers=workers,
            thread_s=of_threads(self.thread_s, other.thread_s),
            thread_visits=of_threads(self.thread_visits, other.thread_visits),
            link_bytes=of_workers(self.link_bytes, other.link_bytes),
            link_messages=of_workers(self.link_messages, other.link_messages),
            base_cores=base_cores,
        )


def cpu_s_of(demand: TreeDemand) -> FloatArray:
    """Return the CPU of a tree of every topology, in seconds of a core at the speed of the node it is used on; (T,)."""
    return sums(demand.thread_topology, demand.thread_s, len(demand.running))


def free_of(nodes: NodeSpeeds, base_cores: FloatArray) -> FloatArray:
    """Return the fraction of each shared resource that is available for trees, shape (3 N,)."""
    part = _part(base_cores, nodes.cores)
    left = np.where(nodes.cores > 0, np.maximum(1.0 - part, 0.0), 0.0)
    return np.concatenate([left, np.ones(2 * len(part))])


def base_cores_of(profile: Profile, workers: SteadyWorkers, costs: Costs) -> FloatArray:
    """Return the CPU of nodes that depends on no rate, shape (N,).

    It is that of workers, of polling, of topologies that begin no trees, and of others than workers.
    """
    count, node, idle_hz = len(workers.nodes.cores), workers.executor_node, profile.idle_hz()
    idle = np.flatnonzero((idle_hz > 0) & (node != UNPLACED))
    base = sums(node[idle], idle_hz[idle] / workers.nodes.core_hz[node[idle]], count)
    base += workers.nodes.overhead_cores
    there = np.bincount(workers.node, minlength=count)
    return base + there * costs.worker_cores + np.where(there > 0, costs.polling_cores, 0.0)


def _part(used: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return `used` as a fraction of `capacity`; without capacity any use is more than all."""
    nothing = np.where(used > 0, np.inf, 0.0)
    part: FloatArray = np.divide(
        used, capacity, out=np.broadcast_to(nothing, np.shape(used)).copy(), where=capacity > 0
    )
    return part
