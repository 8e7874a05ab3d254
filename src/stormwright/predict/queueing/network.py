"""Queueing network of a placement: threads on nodes that they share, links, and the hops between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.flow.graph import GraphEdges
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.flow.part import layout_of, numbers
from stormwright.predict.flow.routes import Routes
from stormwright.predict.queueing.trees import Leaves, MaximumCoefficients, Times, Tree, leaf_share
from stormwright.predict.sums import ratio, sums

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Networks:
    """Lazily built network of a demand, or of some topologies alone.

    Parameters
    ----------
    demand
        Demand of all topologies.
    of_all
        Builds the network of all.
    of_some
        Builds that of some topologies, shape (T,), if the whole is not built yet.
    """

    demand: TreeDemand
    of_all: Callable[[], QueueNetwork]
    of_some: Callable[[BoolArray], QueueNetwork] | None = None

    @classmethod
    def of(cls, network: QueueNetwork) -> Networks:
        """Wrap an existing network."""
        found = cls(network.demand, lambda: network)
        found.__dict__["whole"] = network
        return found

    @cached_property
    def whole(self) -> QueueNetwork:
        """Network of all topologies."""
        return self.of_all()

    def only(self, topologies: BoolArray) -> tuple[QueueNetwork, IndexArray]:
        """Return the result of `narrowed`."""
        if self.of_some is None or "whole" in self.__dict__:
            return narrowed(self.whole, topologies)
        return self.of_some(topologies), np.flatnonzero(topologies[self.demand.places.topology])


def narrowed(network: QueueNetwork, topologies: BoolArray) -> tuple[QueueNetwork, IndexArray]:
    """Return the network of some topologies, shape (T,), and the original numbers of its places.

    Topologies are not renumbered; executors, workers, components and edges are renumbered in the same order.
    """
    from scipy.sparse import csr_array  # takes longer to import than the rest

    layout, graph, places = network.layout, network.graph, network.demand.places
    components = np.flatnonzero(topologies[layout.topology])
    executors, workers, threads = _threads(network.demand, topologies)
    sites, every = np.flatnonzero(topologies[places.topology]), len(network.demand.worker_slot)
    edges = np.flatnonzero(topologies[layout.topology[graph.source]])
    component, edge = numbers(components, len(layout.size)), numbers(edges, len(graph.source))
    columns = np.concatenate(
        [*(at * every + workers for at in (0, 1)), *(2 * every + at * len(places.node) + sites for at in (0, 1))]
    )
    rows = network.visits[edges]
    at = numbers(columns, network.visits.shape[1])[rows.indices]
    chosen = np.zeros(len(graph.source), dtype=bool)
    chosen[edges] = True
    steps = (edge[step[chosen[step]]] for step in network.tree.steps)
    narrow = QueueNetwork(
        demand=demand_of(network.demand, topologies),
        graph=replace(
            graph,
            source=component[graph.source[edges]],
            target=component[graph.target[edges]],
            onward=graph.onward[edges],
            acks=graph.acks[edges],
            begun=graph.begun[edges],
            answers=graph.answers[edges],
        ),
        layout=layout_of(layout, executors, components),
        population=network.population[threads],
        alike=MaximumCoefficients(*(each[edges] for each in network.alike)),
        edge_tuples=network.edge_tuples[edges],
        delay=Times(*(each[edges] for each in network.delay)),
        visits=csr_array((rows.data, at, rows.indptr), shape=(len(edges), len(columns))),
        tree=Tree(tuple(step for step in steps if len(step))),
        ends=network.ends[components],
        share=network.share[executors],
        part=network.part[components],
    )
    return narrow, sites


def _threads(demand: TreeDemand, topologies: BoolArray) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Return executors, workers and threads of some topologies, shape (T,)."""
    executors = np.flatnonzero(topologies[demand.workers.executor_topology])
    workers, every = np.flatnonzero(topologies[demand.worker_topology]), len(demand.worker_slot)
    first = len(demand.workers.executor_topology)
    return executors, workers, np.concatenate([executors, first + workers, first + every + workers])


def demand_of(demand: TreeDemand, topologies: BoolArray) -> TreeDemand:
    """Return the demand of some topologies, shape (T,); workers and executors are renumbered in the same order."""
    executors, workers, threads = _threads(demand, topologies)
    return TreeDemand(
        workers=demand.workers.part(executors, topologies),
        thread_s=demand.thread_s[threads],
        thread_visits=demand.thread_visits[threads],
        link_bytes=demand.link_bytes[:, workers],
        link_messages=demand.link_messages[:, workers],
        base_cores=demand.base_cores,
    )


class SojournTimes(NamedTuple):
    """Sojourn times of tuples: waiting and service.

    `threads` has all threads (E + 2 W), `links` messages at the link of every place, out of its node and into it (2 P).
    """

    threads: Times
    links: Times


class TreeTimes(NamedTuple):
    """Times of trees by topology, shape (T,).

    `cycle` is from a spout's beginning a tree until it may begin another in its place; `latency` is Storm's complete
    latency: from when an acker learns of a tree to when it knows of its end.
    """

    cycle: Times
    latency: Times


@dataclass(frozen=True, eq=False)
class QueueNetwork:
    """Rate-independent part of the model: visits of queues, and their order.

    Parameters
    ----------
    demand, graph, layout
        Demand, graph and layout of the topologies under a placement.
    population
        Maximum number of tuples at a thread at once, shape (E + 2 W,).
    alike, edge_tuples
        Tuples along an edge for each that is handled at its source, and for each tree, shape (D,).
    delay
        Constant delay of a tuple along an edge, besides waiting, shape (D,), by whether it leaves its worker.
    visits
        Number of visits of the threads of workers and the links by a tuple along an edge, shape (D, 2 W + 2 P).
    tree
        The order in which times are summed.
    ends
        Fraction of handled tuples that trigger no other one, so that their own ack ends their part of the tree, shape
        (C,).
    share, part
        Fraction of a component's tuples that each executor handles, shape (E,), and of a topology's trees or acks that
        a spout or an acker handles, shape (C,).
    """

    demand: TreeDemand
    graph: GraphEdges
    layout: FlowLayout
    population: FloatArray
    alike: MaximumCoefficients
    edge_tuples: FloatArray
    delay: Times
    visits: csr_array
    tree: Tree
    ends: FloatArray
    share: FloatArray
    part: FloatArray

    @classmethod
    def of(
        cls, demand: TreeDemand, routes: Routes, graph: GraphEdges, layout: FlowLayout, costs: Costs
    ) -> QueueNetwork:
        """Return the network of a demand along `routes`.

        Parameters
        ----------
        demand, routes, graph, layout
            Demand, routes, graph and layout of one profile under one placement.
        costs
            Costs with the delays.
        """
        edge_tuples = routes.edge_tuples
        handled = sums(layout.executor_component, routes.handled, len(layout.size))
        ends = np.where(layout.is_spout | layout.is_acker, handled, 0.0)
        kind = layout.topology * 2 + layout.is_acker
        count = ratio(edge_tuples, handled[graph.source])
        onward = np.flatnonzero(graph.onward & (count > 0))
        visits, crossing = _visits(demand, routes, graph, edge_tuples)
        return cls(
            demand=demand,
            graph=graph,
            layout=layout,
            population=layout.pending[demand.thread_topology] * np.maximum(demand.thread_visits, 1.0),
            alike=MaximumCoefficients.of(count),
            edge_tuples=edge_tuples,
            delay=_delay(crossing, costs),
            visits=visits,
            tree=Tree.of(graph.source, graph.level, onward),
            ends=leaf_share(graph.source[onward], count[onward], len(layout.size)),
            share=ratio(routes.handled, handled[layout.executor_component]),
            part=ratio(ends, sums(kind, ends, 2 * len(layout.pending))[kind]),
        )

    def ways(self, stays: SojournTimes) -> TreeTimes:
        """Return the times of trees, given the sojourn times of tuples and messages."""
        layout, graph = self.layout, self.graph
        executors = len(layout.executor_component)
        stay = self._at_components(Times(*(index[:executors] for index in stays.threads)))
        beyond = (
            np.concatenate([index[executors:], link]) for index, link in zip(stays.threads, stays.links, strict=True)
        )
        waited = Times(*(self.visits @ each for each in beyond))
        hop = waited + self.delay
        # A tree ends with its last ack: that of a tuple that triggers no other one (see `queueing.trees`).
        acks = np.flatnonzero(graph.acks)
        ack_s = np.zeros(len(layout.size))
        ack_s[graph.source[acks]] = hop.mean[acks]
        whole = self.tree.times(graph.source, graph.target, self.alike, stay, hop, Leaves(self.ends, ack_s))
        at_spout, from_spout = (self._mean(layout.is_spout, times) for times in (stay, whole))
        begun, answered = (self._mean_hop(kind, hop) for kind in (graph.begun, graph.answers))
        # All acks of a tree have the same acker: the variance of their way is added once, not for each of them.
        varies = self._mean_hop(graph.acks, hop, self.ends).variance
        from_spout = Times(from_spout.mean, from_spout.variance + varies)
        cycle = from_spout + self._mean(layout.is_acker, stay) + answered
        variance = np.maximum(from_spout.variance - at_spout.variance, 0.0)
        # An acker learns of the tree at the same time as of its tuples' path: only the extra time of the path counts.
        latency = Times(np.maximum(from_spout.mean - at_spout.mean - begun.mean, 0.0), variance)
        return TreeTimes(cycle, latency)

    def _at_components(self, stay: Times) -> Times:
        """Return the moments of a tuple's stay at every component: a mixture of those at its executors."""
        index, count = self.layout.executor_component, len(self.layout.size)
        mean = sums(index, self.share * stay.mean, count)
        square = sums(index, self.share * (stay.variance + stay.mean**2), count)
        return Times(mean, np.maximum(square - mean**2, 0.0))

    def _mean(self, chosen: BoolArray, times: Times) -> Times:
        """Return the mean over the chosen components of every topology, weighted by their shares."""
        weights = np.where(chosen, self.part, 0.0)
        index, count = self.layout.topology, len(self.layout.pending)
        return Times(*(sums(index, weights * each, count) for each in times))

    def _mean_hop(self, chosen: BoolArray, hop: Times, part: FloatArray | None = None) -> Times:
        """Return the mean over the chosen edges of every topology, by tuples, or by a part of their source, (C,)."""
        source = self.graph.source[chosen]
        index, count = self.layout.topology[source], len(self.layout.pending)
        tuples = self.edge_tuples[chosen] if part is None else self.edge_tuples[chosen] * part[source]
        whole = sums(index, tuples, count)
        totals = (sums(index, tuples * each[chosen], count) for each in hop)
        return Times(*(ratio(each, whole) for each in totals))


def _delay(crossing: FloatArray, costs: Costs) -> Times:
    """Return the delays of tuples, given the fraction that leaves its worker, shape (D,)."""
    local_s, more_s = 1e-6 * costs.local_hop_us, 1e-6 * costs.remote_hop_us
    return Times(local_s + crossing * more_s, np.maximum(crossing * (1 - crossing), 0.0) * more_s**2)


def _visits(
    demand: TreeDemand, routes: Routes, graph: GraphEdges, edge_tuples: FloatArray
) -> tuple[csr_array, FloatArray]:
    """Return the visits of workers' threads and links by a tuple of each edge, and the fraction of messages."""
    from scipy.sparse import csr_array  # takes longer to import than the rest

    workers, places = len(demand.worker_slot), demand.places
    rows, columns, values = [], [], []
    for number, (ends, messages) in enumerate(((graph.sources, routes.sent), (graph.targets, routes.received))):
        worker = demand.executor_worker[ends.executor]
        left = np.flatnonzero((messages.tuples > 0) & (worker != UNPLACED))
        far = left[messages.far_tuples[left] > 0]
        link = 2 * workers + number * len(places.node) + places.of_worker[worker[far]]
        columns += [number * workers + worker[left], link]
        rows += [ends.edge[left], ends.edge[far]]
        values += [messages.tuples[left], messages.far_tuples[far]]
        if number == 0:
            leave = sums(rows[0], values[0], len(edge_tuples))
    row = np.concatenate(rows)
    by = np.argsort(row, kind="stable")
    row, begin = row[by], np.searchsorted(row[by], np.arange(len(edge_tuples) + 1))
    each = ratio(np.concatenate(values)[by], edge_tuples[row])
    shape = (len(edge_tuples), 2 * workers + 2 * len(places.node))
    # A matrix that is only multiplied needs no order within a row.
    visits = csr_array((each, np.concatenate(columns)[by], begin), shape=shape)
    return visits, ratio(leave, edge_tuples)
