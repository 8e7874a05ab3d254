"""Predictions of the demonstration's placements, for comparison with measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from stormwright.model import Problem, TopologyAssignment
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.gain import rate_gain
from stormwright.predict.prediction import Interval, NodePrediction, TopologyPrediction


@dataclass(frozen=True)
class TopologyPromise:
    """Prediction for one topology.

    Parameters
    ----------
    rate_tps
        Trees/s: begun by its spouts, limited to the sustainable rate.
    latency_ms
        Mean complete latency then; None if unknown.
    bottleneck
        Description of the limiting resource.
    """

    rate_tps: Interval
    latency_ms: Interval | None
    bottleneck: str

    def as_dict(self) -> dict[str, Any]:
        """Return the prediction as JSON."""
        return {
            "acked_tps": self.rate_tps.as_dict(),
            "mean_latency_ms": self.latency_ms.as_dict() if self.latency_ms else None,
            "bottleneck": self.bottleneck,
        }


@dataclass(frozen=True)
class PlacementPromise:
    """Prediction for a placement.

    Parameters
    ----------
    topologies
        Promise for each topology, by id.
    nodes
        Use of each node by name.
    """

    topologies: Mapping[str, TopologyPromise]
    nodes: Mapping[str, NodePrediction]


def promise(
    problem: Problem,
    placement: Mapping[str, TopologyAssignment],
    begin_tps: Mapping[str, float],
    assumptions: Assumptions | None = None,
) -> PlacementPromise:
    """Return the prediction for a placement, from the load measured under the problem's own.

    For another placement than the problem's own, the highest rate of that one is multiplied by the predicted gain
    (`stormwright.predict.gain`).

    Parameters
    ----------
    problem
        Problem with speeds of links, and a load.
    placement
        Placement of the promise.
    begin_tps
        Trees/s begun by spouts, by topology id; others run at the maximum.
    assumptions
        Costs and other assumptions.
    """
    assumptions = assumptions or Assumptions.of(problem)
    slots = problem.with_current(placement).current_slot
    now, highest = (predict(problem, each, assumptions) for each in (problem.current_slot, slots))
    rates = {
        each.topology: min(each.reachable_tps.value, begin_tps.get(each.topology, each.reachable_tps.value))
        for each in highest.topologies
    }
    requested = {topology: rate for topology, rate in rates.items() if 0 < rate < float("inf")}
    then = predict(problem, slots, replace(assumptions, rate_tps=requested))
    return PlacementPromise(
        {
            most.topology: _of_topology(
                before, most, given, begin_tps.get(most.topology), shared=len(now.topologies) > 1
            )
            for before, most, given in zip(now.topologies, highest.topologies, then.topologies, strict=True)
        },
        {node.node: node for node in then.nodes},
    )


def cpu_us_per_tree(problem: Problem, promised: PlacementPromise) -> float | None:
    """Return the CPU of a tuple tree over all nodes, in µs of a core; None if no rate is known."""
    rate_tps = sum(each.rate_tps.value for each in promised.topologies.values())
    cores = {node.id: node.cpu_hz / problem.core_hz for node in problem.supervisors}
    used = sum(each.cpu.value * cores[each.supervisor] for each in promised.nodes.values())
    return 1e6 * used / rate_tps if 0 < rate_tps < float("inf") else None


def _of_topology(
    now: TopologyPrediction,
    most: TopologyPrediction,
    given: TopologyPrediction,
    begin_tps: float | None,
    *,
    shared: bool,
) -> TopologyPromise:
    """Return the prediction from those of the current placement, of the highest rate, and of the given rate."""
    reach, reached_tps = most.reachable_tps, now.reachable_tps.value
    gain = rate_gain(now, most, shared=shared)
    if begin_tps is None and 0 < reached_tps < inf and gain.sd > 0:
        reach = Interval(*(reached_tps * each for each in (gain.value, gain.low, gain.high)))
    if begin_tps is not None and begin_tps <= reach.value:
        held = Interval(begin_tps, min(begin_tps, reach.low), min(begin_tps, reach.high))
        return TopologyPromise(held, given.latency_ms, f"its spouts, which begin {begin_tps:,.0f} trees/s")
    return TopologyPromise(reach, most.pending_latency_ms, str(most.bottleneck))
