"""The queues of some topologies by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.predict.demand import Demand
from stormwright.predict.flow.part import layout_of, numbers
from stormwright.predict.queue.network import Network
from stormwright.predict.queue.trees import Alike, Tree


def narrowed(network: Network, topologies: BoolArray) -> tuple[Network, IndexArray]:
    """The network of some topologies, shape (T,), and which places of the other one are its places.

    Topologies keep their numbers; executors, workers, components and edges are numbered anew in the same order.
    """
    from scipy.sparse import csr_array  # takes longer to import than the rest

    layout, graph, places = network.layout, network.graph, network.demand.places
    executors = np.flatnonzero(topologies[layout.executor_topology])
    components = np.flatnonzero(topologies[layout.topology])
    workers = np.flatnonzero(topologies[network.demand.worker_topology])
    sites, every = np.flatnonzero(topologies[places.topology]), len(network.demand.worker_slot)
    edges = np.flatnonzero(topologies[layout.topology[graph.source]])
    component, edge = numbers(components, len(layout.size)), numbers(edges, len(graph.source))
    threads = np.concatenate([executors, *(len(layout.executor_component) + at * every + workers for at in (0, 1))])
    columns = np.concatenate(
        [*(at * every + workers for at in (0, 1)), *(2 * every + at * len(places.node) + sites for at in (0, 1))]
    )
    rows = network.visits[edges]
    at = numbers(columns, network.visits.shape[1])[rows.indices]
    chosen = np.zeros(len(graph.source), dtype=bool)
    chosen[edges] = True
    steps = (edge[step[chosen[step]]] for step in network.tree.steps)
    narrow = Network(
        demand=_demand(network.demand, topologies, executors, workers, threads),
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
        delay_s=network.delay_s[edges],
        visits=csr_array((rows.data, at, rows.indptr), shape=(len(edges), len(columns))),
        tree=Tree(tuple(step for step in steps if len(step))),
        share=network.share[executors],
        part=network.part[components],
    )
    return narrow, sites


def _demand(
    demand: Demand, topologies: BoolArray, executors: IndexArray, workers: IndexArray, threads: IndexArray
) -> Demand:
    return Demand(
        workers=demand.workers.part(executors, topologies),
        thread_s=demand.thread_s[threads],
        thread_visits=demand.thread_visits[threads],
        link_bytes=demand.link_bytes[:, workers],
        link_messages=demand.link_messages[:, workers],
        base_cores=demand.base_cores,
    )
