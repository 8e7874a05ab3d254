"""Part of a load: some topologies with their executors, components and edges, renumbered in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.flow.ends import EdgeEnds
from stormwright.predict.flow.graph import Graph, GraphEdges
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.flow.mix import Mix
from stormwright.predict.flow.profile import Profile
from stormwright.predict.sums import spans


@dataclass(frozen=True, eq=False)
class TopologySubset:
    """Some topologies of a load; topologies are not renumbered, nor is anything indexed by topology.

    Parameters
    ----------
    whole
        The load of all topologies.
    topologies
        Whether a topology is selected, shape (T,).
    executors, components, edges
        Its items, as numbers of the whole.
    """

    whole: Profile
    topologies: BoolArray
    executors: IndexArray
    components: IndexArray
    edges: IndexArray

    @classmethod
    def of(cls, whole: Profile, topologies: BoolArray) -> Self:
        """Return the part of some topologies, shape (T,)."""
        layout = whole.layout
        return cls(
            whole=whole,
            topologies=topologies,
            executors=np.flatnonzero(topologies[layout.executor_topology]),
            components=np.flatnonzero(topologies[layout.topology]),
            edges=np.flatnonzero(topologies[layout.topology[whole.graph.source]]),
        )

    @cached_property
    def layout(self) -> FlowLayout:
        """Layout of executors and components."""
        return layout_of(self.whole.layout, self.executors, self.components)

    @cached_property
    def graph(self) -> GraphEdges:
        """Graph of components."""
        whole, edges = self.whole.graph, self.edges
        component = numbers(self.components, len(self.whole.layout.size))
        source, target = component[whole.source[edges]], component[whole.target[edges]]
        return GraphEdges(
            source=source,
            target=target,
            sources=EdgeEnds.of(source, self.layout),
            targets=EdgeEnds.of(target, self.layout),
            level=whole.level[self.components],
            onward=whole.onward[edges],
            acks=whole.acks[edges],
            begun=whole.begun[edges],
            answers=whole.answers[edges],
        )

    @cached_property
    def ends(self) -> tuple[IndexArray, IndexArray]:
        """Its ends of edges, at their sources and at their targets, as numbers of the whole."""
        graph = self.whole.graph
        at_sources, at_targets = (
            spans(np.append(side.first, len(side.edge)), self.edges) for side in (graph.sources, graph.targets)
        )
        return at_sources, at_targets


@dataclass(frozen=True, eq=False)
class ProfilePart(Profile):
    """The load of some topologies.

    Parameters
    ----------
    chosen
        Selected topologies, with the numbers of their executors and components.
    pair_at, flow_at
        Its pairs and flows, as numbers of the whole.
    """

    chosen: TopologySubset
    pair_at: IndexArray
    flow_at: IndexArray

    @classmethod
    def of_topologies(cls, whole: Profile, topologies: BoolArray) -> Self:
        """Return the load of some topologies, shape (T,)."""
        chosen = TopologySubset.of(whole, topologies)
        executors, components = chosen.executors, chosen.components
        number = numbers(executors, len(whole.layout.executor_topology))
        component = numbers(components, len(whole.layout.size))
        pair_at, flow_at = (spans(first, np.flatnonzero(topologies)) for first in whole.sent_from)
        pairs, flows = whole.pairs.at(pair_at), whole.flows.at(flow_at)
        return cls(
            problem=whole.problem,
            layout=chosen.layout,
            assumed=whole.assumed,
            rate_tps=whole.rate_tps,
            begins=whole.begins[executors],
            handled_tps=whole.handled_tps[executors],
            pooled=whole.pooled[components],
            message_tps=whole.message_tps[executors],
            message_bytes_per_s=whole.message_bytes_per_s[executors],
            pairs=pairs._replace(source=number[pairs.source], target=number[pairs.target]),
            flows=flows._replace(source=number[flows.source], target=component[flows.target]),
            chosen=chosen,
            pair_at=pair_at,
            flow_at=flow_at,
        )

    @cached_property
    def graph(self) -> Graph:
        """Graph of components."""
        own, whole = self.chosen.graph, self.chosen.whole.graph
        edge = numbers(self.chosen.edges, len(whole.source))
        of_pair, of_flow = edge[whole.sources.edge[whole.pair_source[self.pair_at]]], edge[whole.of_flow[self.flow_at]]
        return Graph(
            **{each.name: getattr(own, each.name) for each in fields(GraphEdges)},
            pair_source=own.sources.number(of_pair, self.pairs.source),
            pair_target=own.targets.number(of_pair, self.pairs.target),
            flow_source=own.sources.number(of_flow, self.flows.source),
            of_flow=of_flow,
        )

    def work_cycles(self, costs: Costs, corrections: Mapping[str, Correction] = NO_CORRECTIONS) -> FloatArray:
        """Return the cycles of a tuple as for the whole, shape (E,)."""
        return self.chosen.whole.work_cycles(costs, corrections)[self.chosen.executors]

    def mix(self, corrections: Mapping[str, Correction]) -> Mix | None:
        """Return the mix as for the whole."""
        whole = self.chosen.whole.mix(corrections)
        return None if whole is None else whole.at(self.chosen.executors, self.chosen.edges)

    def idle_hz(self) -> FloatArray:
        """Return the idle CPU as for the whole, shape (E,)."""
        return self.chosen.whole.idle_hz()[self.chosen.executors]


def numbers(chosen: IndexArray, length: int) -> IndexArray:
    """Return the new number of each of `length` items that is chosen."""
    numbers = np.zeros(length, dtype=np.int64)
    numbers[chosen] = np.arange(len(chosen))
    return numbers


def layout_of(whole: FlowLayout, executors: IndexArray, components: IndexArray) -> FlowLayout:
    """Return the layout of some topologies with these executors and components."""
    number, component = numbers(executors, len(whole.executor_topology)), numbers(components, len(whole.size))
    size, topology = whole.size[components], whole.topology[components]
    chosen = np.zeros(len(number), dtype=bool)
    chosen[executors] = True
    return replace(
        whole,
        component_offset=np.searchsorted(topology, np.arange(len(whole.component_offset))),
        topology=topology,
        size=size,
        is_spout=whole.is_spout[components],
        is_acker=whole.is_acker[components],
        executor_component=component[whole.executor_component[executors]],
        executor_topology=whole.executor_topology[executors],
        members=number[whole.members[chosen[whole.members]]],
        first=np.concatenate([[0], np.cumsum(size)]),
    )
