"""What tuples take by the component that they come from, where that was told apart; and by the mix that was measured.

An executor's work per tuple, as measured, is that of a tuple in the mean. Under another placement it may get more of
those that take long: then it is by what of each comes, in parts of what came while it was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.traffic_matrix import scopes_of
from stormwright.predict.costs import Correction, InputWork
from stormwright.predict.flow.measured import Measured
from stormwright.predict.flow.spread import Flows, spread
from stormwright.predict.sums import ratio, sums

if TYPE_CHECKING:
    from stormwright.predict.flow.graph import GraphEdges
    from stormwright.predict.flow.profile import Profile

#: Factors that differ by less from 1 are the same but for rounding.
_ROUNDING = 1e-9


class Mix(NamedTuple):
    """How much more than in the mean tuples take.

    Parameters
    ----------
    edge
        Factor of a tuple that comes along each edge, shape (D,).
    measured
        Mean factor of the tuples that each executor got while it was measured, shape (E,).
    mixed
        Executors for which it matters along which edge a tuple comes, shape (E,).
    """

    edge: FloatArray
    measured: FloatArray
    mixed: BoolArray

    def at(self, executors: IndexArray, edges: IndexArray) -> Mix:
        """Of some executors and edges."""
        return Mix(self.edge[edges], self.measured[executors], self.mixed[executors])

    def worked(self, handled: FloatArray, came: FloatArray, graph: GraphEdges) -> FloatArray:
        """Tuples that every executor handles, each counting as many of the mean as it takes, shape (E,).

        Parameters
        ----------
        handled
            Tuples that it handles, shape (E,).
        came
            Tuples that come along edges, by the end at which they come, shape (K,).
        graph
            Has the edges.
        """
        by_edge = sums(graph.targets.executor, self.edge[graph.targets.edge] * came, handled.shape[-1])
        return np.where(self.mixed, by_edge / self.measured, handled)


def mix_of(profile: Profile, corrections: Mapping[str, Correction]) -> Mix | None:
    """What is known of a profile's topologies; None where tuples of all edges are taken to be alike.

    Parameters
    ----------
    profile
        Of a whole problem.
    corrections
        What is known of single topologies, by id.
    """
    graph, layout = profile.graph, profile.layout
    edge = _factors(profile, corrections)
    unlike = np.abs(edge - 1) > _ROUNDING
    if not unlike.any():
        return None
    components = np.zeros(len(layout.size), dtype=bool)
    components[graph.target[unlike]] = True
    mixed = (components & ~layout.is_spout)[layout.executor_component] & (profile.begins == 0)
    return Mix(edge, np.where(mixed, _measured(profile, edge), 1.0), mixed)


def _factors(profile: Profile, corrections: Mapping[str, Correction]) -> FloatArray:
    """Factor of every edge beside the mean of its component, shape (D,); 1 where nothing is known."""
    graph, factors = profile.graph, np.ones(len(profile.graph.source))
    components = np.int64(max(len(profile.layout.size), 1))
    edges = {key: number for number, key in enumerate((graph.source * components + graph.target).tolist())}
    for number, topology in enumerate(profile.problem.topologies):
        known, offset = corrections.get(topology.id), int(profile.layout.component_offset[number])
        for name, inputs in known.inputs.items() if known else ():
            for source, factor in _by_source(inputs).items():
                ends = topology.component_index.get(source), topology.component_index.get(name)
                if ends[0] is not None and ends[1] is not None:
                    at = edges.get(int((ends[0] + offset) * components + ends[1] + offset))
                    if at is not None:
                        factors[at] = factor
    return factors


def _by_source(inputs: tuple[InputWork, ...]) -> dict[str, float]:
    """By component that tuples come from, what they take in parts of the mean of all."""
    part = sum(one.part for one in inputs)
    mean = sum(one.part * one.us for one in inputs) / part if part > 0 else 0.0
    if not mean > 0:
        return {}
    found = {}
    for source in {one.source for one in inputs}:
        own = [one for one in inputs if one.source == source]
        weight = sum(one.part for one in own)
        if weight > 0:
            found[source] = sum(one.part * one.us for one in own) / weight / mean
    return found


def _measured(profile: Profile, edge: FloatArray) -> FloatArray:
    """Mean factor of what executors got under the placement that was measured, shape (E,).

    Of pooled components it is the same for all executors, as their work per tuple is.
    """
    problem, layout, graph = profile.problem, profile.layout, profile.graph
    component, count = layout.executor_component, problem.num_executors
    traffic = Measured.of(problem, layout)
    keys, width = graph.source * np.int64(len(layout.size)) + graph.target, np.int64(len(layout.size))

    def of(source: IndexArray, target: IndexArray) -> FloatArray:
        wanted = source * width + target
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, edge[at], 1.0)

    of_pair = of(component[traffic.pair_source], component[traffic.pair_target])
    of_flow = of(component[traffic.flow_source], traffic.flow_target)
    flows = Flows(traffic.flow_source, traffic.flow_target, traffic.flow_local)
    where = spread(scopes_of(problem, problem.measured_slot), component, np.arange(len(layout.size)), flows)
    came, took = (
        sums(traffic.pair_target, traffic.pair_tps * pair, count)
        + sums(where.member, where.gets * where.lots(traffic.flow_tps * flow), count)
        for pair, flow in ((1.0, 1.0), (of_pair, of_flow))
    )
    together = ratio(*(sums(component, each, len(layout.size)) for each in (took, came)))[component]
    mean = np.where(profile.pooled[component] | (came == 0), together, ratio(took, came))
    return np.where(mean > 0, mean, 1.0)
