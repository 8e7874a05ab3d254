"""What is predicted of a placement, as people compare two of them; and its score.

The score is a number from 0 to 100, the mean of three parts, of which only executors that have a slot and break no
limit count:

1. *sustained*: which part of its measured rate a topology can sustain, at most 1, in the mean over topologies;
2. *room*: 1 where the fullest of all CPUs, links and threads is at most half full, 0 where it is full, in between in
   proportion;
3. *near*: which part of all traffic stays within a node.

So 100 is a placement that carries its load with room to spare and sends nothing between nodes, and nothing that a score
says is not among the figures beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from stormwright.client.shapes import Range, Side, TopologySide
from stormwright.controller.aims.gains import inter_node_tps, nodes_used
from stormwright.controller.aims.placements import Placements
from stormwright.controller.plans.overloaded import concerned
from stormwright.model import UNPLACED, Cost, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import Violation
from stormwright.predict.prediction import Interval, Prediction, TopologyPrediction

#: Violations that are told.
_TOLD = 20

#: From this part on, what is full leaves less and less room.
_HALF = 0.5


def side_of(placements: Placements, slots: IntArray) -> Side:
    """The figures of a placement.

    Parameters
    ----------
    placements
        Of the problem, which has the load.
    slots
        Slot of every executor, shape (E,).
    """
    problem, predicted = placements.problem, placements.predicted(slots)
    cost, broken = placements.cost(slots), placements.broken(slots)
    measured = [one for one in predicted.topologies if one.rate_tps > 0]
    tightest = min(measured, key=lambda one: one.headroom, default=None)
    told = [str(each) for each in broken[:_TOLD]]
    if len(broken) > _TOLD:
        told.append(f"and {len(broken) - _TOLD:,} more")
    return Side(
        reachable_tps=Range(**_total([one.reachable_tps for one in measured]).as_dict()),
        latency_ms=_range(_mean([one.latency_ms for one in measured])),
        traffic_tps=inter_node_tps(cost),
        nodes=nodes_used(problem, slots),
        workers=len(np.unique(slots[slots != UNPLACED])),
        bottleneck=str(tightest.bottleneck) if tightest else "nothing",
        violations=tuple(told),
        score=_score(predicted, cost, _sound(problem, slots, broken)),
    )


def topology_side(predicted: TopologyPrediction) -> TopologySide:
    """The figures of one topology."""
    return TopologySide(
        reachable_tps=Range(**predicted.reachable_tps.as_dict()),
        latency_ms=_range(predicted.latency_ms),
        bottleneck=str(predicted.bottleneck),
    )


def _score(predicted: Prediction, cost: Cost, sound: float) -> float:
    shares = [_sustained(one) for one in predicted.topologies if one.rate_tps]
    parts = [
        float(np.mean(shares)) if shares else 1.0,
        float(np.clip((1 - predicted.fullest_use) / _HALF, 0, 1)) if isfinite(predicted.fullest_use) else 0.0,
        1 - inter_node_tps(cost) / sent if (sent := _sent_tps(cost)) else 1.0,
    ]
    return round(100 * sound * sum(parts) / len(parts), 1)


def _sustained(one: TopologyPrediction) -> float:
    return min(1.0, one.reachable_tps.value / one.rate_tps)


def _sent_tps(cost: Cost) -> float:
    return cost.same_executor + cost.same_worker + cost.inter_worker + inter_node_tps(cost)


def _sound(problem: Problem, slots: IntArray, broken: Sequence[Violation]) -> float:
    """Which part of the executors has a slot, on a node or of a topology of which no limit is broken."""
    if not len(slots):
        return 1.0
    bad = slots == UNPLACED
    nodes, topologies = concerned(problem, broken)
    bad |= np.isin(problem.executor_topology, list(topologies))
    bad |= np.isin(np.where(slots == UNPLACED, UNPLACED, problem.slot_node[slots]), list(nodes))
    return float(1 - bad.mean())


def _total(intervals: Sequence[Interval]) -> Interval:
    return Interval(*(sum(getattr(each, name) for each in intervals) for name in ("value", "low", "high")))


def _mean(intervals: Sequence[Interval | None]) -> Interval | None:
    known = [each for each in intervals if each is not None]
    if not known:
        return None
    total = _total(known)
    return Interval(*(value / len(known) for value in (total.value, total.low, total.high)))


def _range(interval: Interval | None) -> Range | None:
    return None if interval is None else Range(**interval.as_dict())
