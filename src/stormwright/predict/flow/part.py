"""Some topologies of a load by themselves: their executors, components and edges, numbered anew in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.flow.ends import Ends
from stormwright.predict.flow.graph import Graph
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.flow.mix import Mix
from stormwright.predict.flow.profile import Profile


@dataclass(frozen=True, eq=False)
class ProfilePart(Profile):
    """The load of some topologies; topologies keep their numbers, and so does all that is said by topology.

    Parameters
    ----------
    whole
        The load of all.
    topologies
        Whether a topology is meant, shape (T,).
    executors, components, edges, pair_at, flow_at
        What there is of it, as numbers of the whole.
    """

    whole: Profile
    topologies: BoolArray
    executors: IndexArray
    components: IndexArray
    edges: IndexArray
    pair_at: IndexArray
    flow_at: IndexArray

    @classmethod
    def of_topologies(cls, whole: Profile, topologies: BoolArray) -> Self:
        """That of the topologies chosen, shape (T,)."""
        layout, graph = whole.layout, whole.graph
        executors = np.flatnonzero(topologies[layout.executor_topology])
        components = np.flatnonzero(topologies[layout.topology])
        number = numbers(executors, len(layout.executor_topology))
        component = numbers(components, len(layout.size))
        there = np.zeros(len(number), dtype=bool)
        there[executors] = True
        pair_at, flow_at = (np.flatnonzero(there[each.source]) for each in (whole.pairs, whole.flows))
        pairs, flows = whole.pairs.at(pair_at), whole.flows.at(flow_at)
        return cls(
            problem=whole.problem,
            layout=layout_of(layout, executors, components),
            assumed=whole.assumed,
            rate_tps=whole.rate_tps,
            begins=whole.begins[executors],
            handled_tps=whole.handled_tps[executors],
            pooled=whole.pooled[components],
            message_tps=whole.message_tps[executors],
            message_bytes_per_s=whole.message_bytes_per_s[executors],
            pairs=pairs._replace(source=number[pairs.source], target=number[pairs.target]),
            flows=flows._replace(source=number[flows.source], target=component[flows.target]),
            whole=whole,
            topologies=topologies,
            executors=executors,
            components=components,
            edges=np.flatnonzero(topologies[layout.topology[graph.source]]),
            pair_at=pair_at,
            flow_at=flow_at,
        )

    @cached_property
    def graph(self) -> Graph:
        """Which component sends to which."""
        whole, edges = self.whole.graph, self.edges
        component = numbers(self.components, len(self.whole.layout.size))
        edge = numbers(edges, len(whole.source))
        source, target = component[whole.source[edges]], component[whole.target[edges]]
        sources, targets = (Ends.of(of, self.layout) for of in (source, target))
        of_pair, of_flow = edge[whole.sources.edge[whole.pair_source[self.pair_at]]], edge[whole.of_flow[self.flow_at]]
        return replace(
            whole,
            source=source,
            target=target,
            sources=sources,
            targets=targets,
            pair_source=sources.number(of_pair, self.pairs.source),
            pair_target=targets.number(of_pair, self.pairs.target),
            flow_source=sources.number(of_flow, self.flows.source),
            of_flow=of_flow,
            level=whole.level[self.components],
            onward=whole.onward[edges],
            acks=whole.acks[edges],
            begun=whole.begun[edges],
            answers=whole.answers[edges],
        )

    @cached_property
    def ends(self) -> tuple[IndexArray, IndexArray]:
        """Its ends of edges, at their sources and at their targets, as numbers of the whole."""
        chosen = np.zeros(len(self.whole.graph.source), dtype=bool)
        chosen[self.edges] = True
        at_sources, at_targets = (
            np.flatnonzero(chosen[of.edge]) for of in (self.whole.graph.sources, self.whole.graph.targets)
        )
        return at_sources, at_targets

    def work_cycles(self, costs: Costs, corrections: Mapping[str, Correction] = NO_CORRECTIONS) -> FloatArray:
        """As of the whole, shape (E,)."""
        return self.whole.work_cycles(costs, corrections)[self.executors]

    def mix(self, corrections: Mapping[str, Correction]) -> Mix | None:
        """As of the whole."""
        whole = self.whole.mix(corrections)
        return None if whole is None else whole.at(self.executors, self.edges)

    def idle_hz(self) -> FloatArray:
        """As of the whole, shape (E,)."""
        return self.whole.idle_hz()[self.executors]


def numbers(chosen: IndexArray, length: int) -> IndexArray:
    """The new number of each of so many that is chosen."""
    numbers = np.zeros(length, dtype=np.int64)
    numbers[chosen] = np.arange(len(chosen))
    return numbers


def layout_of(whole: FlowLayout, executors: IndexArray, components: IndexArray) -> FlowLayout:
    """That of some topologies, which have these executors and components."""
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
