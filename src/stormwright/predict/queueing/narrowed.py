"""The queues of some topologies by themselves, and those of all once they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.predict.demand import TreeDemand
from stormwright.predict.flow.part import layout_of, numbers
from stormwright.predict.queueing.network import QueueNetwork
from stormwright.predict.queueing.trees import Alike, Times, Tree


@dataclass(frozen=True, eq=False)
class Networks:
    """The network of a demand, which is made when it is first asked for; or that of some topologies alone.

    Parameters
    ----------
    demand
        Of all topologies.
    of_all
        Makes the network of all.
    of_some
        Makes that of some topologies, shape (T,), where not all of it is known.
    """

    demand: TreeDemand
    of_all: Callable[[], QueueNetwork]
    of_some: Callable[[BoolArray], QueueNetwork] | None = None

    @classmethod
    def of(cls, network: QueueNetwork) -> Networks:
        """One that is there."""
        found = cls(network.demand, lambda: network)
        found.__dict__["whole"] = network
        return found

    @cached_property
    def whole(self) -> QueueNetwork:
        """That of all topologies."""
        return self.of_all()

    def only(self, topologies: BoolArray) -> tuple[QueueNetwork, IndexArray]:
        """As `narrowed`."""
        if self.of_some is None or "whole" in self.__dict__:
            return narrowed(self.whole, topologies)
        return self.of_some(topologies), np.flatnonzero(topologies[self.demand.places.topology])


def narrowed(network: QueueNetwork, topologies: BoolArray) -> tuple[QueueNetwork, IndexArray]:
    """The network of some topologies, shape (T,), and which places of the other one are its places.

    Topologies keep their numbers; executors, workers, components and edges are numbered anew in the same order.
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
        alike=Alike(*(each[edges] for each in network.alike)),
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
    """Executors, workers and threads of some topologies, shape (T,)."""
    executors = np.flatnonzero(topologies[demand.workers.executor_topology])
    workers, every = np.flatnonzero(topologies[demand.worker_topology]), len(demand.worker_slot)
    first = len(demand.workers.executor_topology)
    return executors, workers, np.concatenate([executors, first + workers, first + every + workers])


def demand_of(demand: TreeDemand, topologies: BoolArray) -> TreeDemand:
    """The demand of some topologies, shape (T,); workers and executors are numbered anew in the same order."""
    executors, workers, threads = _threads(demand, topologies)
    return TreeDemand(
        workers=demand.workers.part(executors, topologies),
        thread_s=demand.thread_s[threads],
        thread_visits=demand.thread_visits[threads],
        link_bytes=demand.link_bytes[:, workers],
        link_messages=demand.link_messages[:, workers],
        base_cores=demand.base_cores,
    )
