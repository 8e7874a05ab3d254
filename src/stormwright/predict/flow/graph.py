"""Graph of components, and the order in which tuples pass them: latencies are summed over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.predict.flow.ends import EdgeEnds
from stormwright.predict.flow.layout import FlowLayout, StreamRates
from stormwright.predict.sums import numbered, sums

#: Longer paths than this are cycles.
_MAX_LEVELS = 200


@dataclass(frozen=True, eq=False)
class GraphEdges:
    """Components and the edges between them (D of them).

    Parameters
    ----------
    source, target
        Source and target component of each edge, shape (D,).
    sources, targets
        The ends of edges on either side.
    level
        Level of a component along the way of a tuple: 0 for those without input, shape (C,).
    onward
        Edges that a tree grows along: neither acks nor edges that close a cycle, shape (D,).
    acks, begun, answers
        Edges to an acker from bolts and from spouts, and from an acker to spouts, shape (D,).
    """

    source: IndexArray
    target: IndexArray
    sources: EdgeEnds
    targets: EdgeEnds
    level: IndexArray
    onward: BoolArray
    acks: BoolArray
    begun: BoolArray
    answers: BoolArray

    def blocking_weight(self, layout: FlowLayout, tuples: FloatArray) -> FloatArray:
        """Return the weight of a tuple along each edge by which it delays a tree sequentially, shape (…, D).

        Simultaneous messages count as one: those to components at the same level of the tree, acks, of which the last
        is awaited, answers, and the notices to ackers that a tree begins, which are in parallel to all others.

        Parameters
        ----------
        layout
            Layout of the components.
        tuples
            Tuples of a tree, along each edge, shape (…, D).
        """
        levels = int(self.level.max(initial=0)) + 1
        kinds, own = [self.acks, self.answers, self.begun], [levels, levels + 1, levels + 2]
        hop = layout.topology[self.source] * (levels + 3) + np.select(kinds, own, self.level[self.target])
        at_once = sums(hop, tuples, int(hop.max(initial=-1)) + 1).take(hop, axis=-1)
        part: FloatArray = np.minimum(at_once, 1.0) / np.where(at_once > 0, at_once, 1.0)
        return part


@dataclass(frozen=True, eq=False)
class Graph(GraphEdges):
    """The edges along which a profile has traffic.

    Parameters
    ----------
    pair_source, pair_target, flow_source
        Ends of each pair on either side, and the source end of each flow.
    of_flow
        The edge of each flow.
    """

    pair_source: IndexArray
    pair_target: IndexArray
    flow_source: IndexArray
    of_flow: IndexArray

    @classmethod
    def of(cls, layout: FlowLayout, pairs: StreamRates, flows: StreamRates) -> Graph:
        """Return the graph of all topologies of a profile, from its pairs of executors and its flows."""
        target = np.concatenate([layout.executor_component[pairs.target], flows.target])
        source = layout.executor_component[np.concatenate([pairs.source, flows.source])]
        # There is no traffic between topologies.
        count = np.diff(layout.component_offset)
        first, topology = np.cumsum([0, *count**2]), layout.topology[source]
        begin = layout.component_offset[topology]
        keys, edge = numbered(first[topology] + (source - begin) * count[topology] + target - begin, int(first[-1]))
        at = np.empty(len(keys), dtype=np.int64)
        at[edge] = np.arange(len(edge))
        source, target = source[at], target[at]
        system = layout.is_acker[source] | layout.is_acker[target] | layout.is_spout[target]
        level = _levels(source[~system], target[~system], len(layout.size))
        from_spout = layout.is_spout[source]
        sources, targets = (EdgeEnds.of(component, layout) for component in (source, target))
        of_pair, of_flow = edge[: len(pairs.source)], edge[len(pairs.source) :]
        return cls(
            source=source,
            target=target,
            sources=sources,
            targets=targets,
            pair_source=sources.number(of_pair, pairs.source),
            pair_target=targets.number(of_pair, pairs.target),
            flow_source=sources.number(of_flow, flows.source),
            of_flow=of_flow,
            level=level,
            onward=~system & (level[source] < level[target]),
            acks=layout.is_acker[target] & ~from_spout,
            begun=layout.is_acker[target] & from_spout,
            answers=layout.is_acker[source] & layout.is_spout[target],
        )


def _levels(source: IndexArray, target: IndexArray, components: int) -> IndexArray:
    """Return the most edges on a path to each component; within a cycle, up to one round."""
    level = np.zeros(components, dtype=np.int64)
    # A path without a cycle has fewer edges than any topology has components; most have a handful.
    for _ in range(components):
        raised = level.copy()
        np.maximum.at(raised, target, level[source] + 1)
        if np.array_equal(raised, level) or int(raised.max(initial=0)) >= _MAX_LEVELS:
            return level
        level = raised
    return level
