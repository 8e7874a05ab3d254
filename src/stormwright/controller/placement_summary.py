"""Predicted figures of a placement for comparison, and its score.

The score is a number from 0 to 100 in three ranges, so that no gain outweighs a broken limit or a rate that is not
sustained:

1. up to 33, where executors have no slot or a limit is broken: in proportion to the others;
2. up to 67, where a measured rate is not sustained: in proportion to the sustained part, in the mean over topologies;
3. above, by *room* and *near* in equal parts: room is 1 where the fullest of all CPUs, links and threads is at most
   half full, 0 where it is full, in between in proportion; near is the part of all traffic that stays within a node.

So 100 is a placement that carries its load with capacity to spare and sends nothing between nodes. The figures beside
a score contain all its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from stormwright.controller.objectives.outlook import inter_node_tps, nodes_used
from stormwright.controller.objectives.placements import Placements
from stormwright.model import UNPLACED, Cost, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import PlacedExecutors, Violation
from stormwright.model.constraints.heaps import LiveHeap
from stormwright.model.constraints.violations import concerned
from stormwright.plans.figures import Range, Side, TopologySide
from stormwright.predict.prediction import Interval, Prediction, TopologyPrediction

#: Maximum number of violations listed.
MAX_VIOLATIONS = 20

#: Use from which the *room* part of the score decreases.
_HALF = 0.5


def side_of(placements: Placements, slots: IntArray) -> Side:
    """Return the figures of a placement.

    Parameters
    ----------
    placements
        Placements of the problem, with its load.
    slots
        Slot of every executor, shape (E,).
    """
    problem, predicted = placements.problem, placements.predicted(slots)
    cost, placed = placements.cost(slots), PlacedExecutors(problem, slots)
    broken = [*placements.broken(slots), *LiveHeap().violations(placed)]
    measured = [one for one in predicted.topologies if one.rate_tps > 0]
    tightest = min(measured, key=lambda one: one.headroom, default=None)
    violations = [str(each) for each in broken[:MAX_VIOLATIONS]]
    if len(broken) > MAX_VIOLATIONS:
        violations.append(f"and {len(broken) - MAX_VIOLATIONS:,} more")
    return Side(
        reachable_tps=Range(**_total([one.reachable_tps for one in measured]).as_dict()),
        latency_ms=_range(_mean([one.latency_ms for one in measured])),
        traffic_tps=inter_node_tps(cost),
        nodes=nodes_used(problem, slots),
        workers=len(np.unique(slots[slots != UNPLACED])),
        bottleneck=str(tightest.bottleneck) if tightest else "nothing",
        violations=tuple(violations),
        score=_score(predicted, cost, _sound(problem, slots, broken)),
    )


def topology_side(predicted: TopologyPrediction) -> TopologySide:
    """Return the figures of one topology."""
    return TopologySide(
        reachable_tps=Range(**predicted.reachable_tps.as_dict()),
        latency_ms=_range(predicted.latency_ms),
        bottleneck=str(predicted.bottleneck),
    )


def _score(predicted: Prediction, cost: Cost, sound: float) -> float:
    shares = [_sustained(one) for one in predicted.topologies if one.rate_tps]
    sustained = float(np.mean(shares)) if shares else 1.0
    room = float(np.clip((1 - predicted.fullest_use) / _HALF, 0, 1)) if isfinite(predicted.fullest_use) else 0.0
    near = 1 - inter_node_tps(cost) / sent if (sent := _sent_tps(cost)) else 1.0
    if sound < 1:
        part = sound
    elif sustained < 1:
        part = 1 + sustained
    else:
        part = 2 + (room + near) / 2
    return round(100 / 3 * part, 1)


def _sustained(one: TopologyPrediction) -> float:
    return min(1.0, one.reachable_tps.value / one.rate_tps)


def _sent_tps(cost: Cost) -> float:
    return cost.same_executor + cost.same_worker + cost.inter_worker + inter_node_tps(cost)


def _sound(problem: Problem, slots: IntArray, broken: Sequence[Violation]) -> float:
    """Return the part of the executors that have a slot and violate no constraint."""
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
