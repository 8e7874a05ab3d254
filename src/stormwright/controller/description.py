"""Figures of a plan for people, the same in the service and for files: predictions, pauses, heaps and a score."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isfinite
from typing import Protocol

import numpy as np

from stormwright.controller.objectives.outlook import NODES, THROUGHPUT, inter_node_tps, nodes_used
from stormwright.controller.objectives.placements import Placements, measured_rates
from stormwright.controller.planning.expected_pauses import Pause, PauseOf, modelled_pause_s
from stormwright.controller.safety.move_kinds import MoveSafety, move_safety, restarted_shares
from stormwright.controller.stages import staged
from stormwright.history.evaluation.moves import AFTER_S, SETTLE_S
from stormwright.model import UNPLACED, Cost, Problem, Topology
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import where
from stormwright.model.constraints.constraint import PlacedExecutors, Violation
from stormwright.model.constraints.heaps import LiveHeap, WorkerHeaps
from stormwright.model.constraints.violations import concerned
from stormwright.model.humanize import proof_text, readable
from stormwright.optimize.throughput.start import MeasuredLoad
from stormwright.plans.figures import HeapChange, MoveKindReport, PlannedTopology, Range, Side, TopologySide
from stormwright.plans.plan import Plan, TopologyMove
from stormwright.predict.answer import Assumptions
from stormwright.predict.prediction import Interval, Prediction, TopologyPrediction
from stormwright.schedulers.templates.by_rates import RateGoal, RateSearch
from stormwright.schedulers.templates.proof_by_rates import RateBounds, proof_by_rates, throughput_proof

# Summary ------------------------------------------------------------------------------------------
# Predicted figures of a placement for comparison, and its score.
#
# The score is a number from 0 to 100 in three ranges, so that no gain outweighs a broken limit or a rate that is not
# sustained:
#
# 1. up to 33, where executors have no slot or a limit is broken: in proportion to the others;
# 2. up to 67, where a measured rate is not sustained: in proportion to the sustained part, in the mean over topologies;
# 3. above, by *room* and *near* in equal parts: room is 1 where the fullest of all CPUs, links and threads is at most
#    half full, 0 where it is full, in between in proportion; near is the part of all traffic that stays within a node.
#
# So 100 is a placement that carries its load with capacity to spare and sends nothing between nodes. The figures beside
# a score contain all its inputs.

#: Maximum number of violations listed.
_MAX_VIOLATIONS = 20

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
    violations = [str(each) for each in broken[:_MAX_VIOLATIONS]]
    if len(broken) > _MAX_VIOLATIONS:
        violations.append(f"and {len(broken) - _MAX_VIOLATIONS:,} more")
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


# Bounds -------------------------------------------------------------------------------------------
# Distance of a plan from the optimum, as far as it can be proven quickly.

#: Seconds for a proof: enough for bounds from sums at any size, and for solving a small program.
PROOF_S = 0.2

#: Percent of nodes and links to keep free for the objective of few nodes.
_HEADROOM = 0.2


@dataclass(frozen=True)
class _Proof:
    """The proven distance to the optimum in percent (None if unknown), and its description."""

    gap_percent: float | None = None
    text: str = ""


def proven(placements: Placements, goal: str, slots: IntArray) -> _Proof:
    """Return the proven optimality gap of a placement.

    Parameters
    ----------
    placements
        Placements of the problem with their predictions.
    goal
        Objective. There is no bound for latency, and one for traffic takes too long for interactive use: for these, and
        without a goal, nothing is proven.
    slots
        Slot of every executor, -1 for none, shape (E,).
    """
    problem, profile = placements.problem, placements.profile
    if goal not in (THROUGHPUT, NODES) or profile is None:
        return _Proof()
    assumptions = (placements.assumptions or Assumptions.of(problem)).fixed(profile)
    wish = RateGoal(goal, "free", _HEADROOM, 0)
    if goal == THROUGHPUT:
        highest_tps = np.array([each.highest_tps.value for each in placements.predicted(slots).topologies])
        bounding = RateBounds.of(problem, profile, assumptions, wish)
        found = throughput_proof(bounding, slots, highest_tps, placements.broken(slots), PROOF_S)
    else:
        search = RateSearch(problem, MeasuredLoad(profile, assumptions.costs, assumptions.corrections), wish)
        found = proof_by_rates(search, slots, PROOF_S)
    return _Proof(None if found["gap"] is None else 100 * found["gap"], proof_text(found))


# Heaps --------------------------------------------------------------------------------------------
# Heaps of workers that start.

#: Needed part of a heap from which it is scarce, and the maximum number of heaps listed for a topology.
_SCARCE, _MAX_HEAPS = 0.8, 20


def heap_changes(problem: Problem, slots: IntArray) -> dict[str, tuple[HeapChange, ...]]:
    """Return the heaps of workers that start, by topology id, where the size changes or is scarce.

    Parameters
    ----------
    problem
        Problem with its current placement.
    slots
        Planned slot of every executor, shape (E,).
    """
    now, then = (PlacedExecutors(problem, each) for each in (problem.current_slot, slots))
    before, after = WorkerHeaps.of(now), WorkerHeaps.of(then)
    found: dict[str, list[HeapChange]] = {}
    started = _started(now, then)
    for worker in sorted(started, key=lambda each: (-after.fill[each], each)):
        topology = problem.topologies[after.workers.topology[worker]].id
        source, sizes = started[worker], [_finite(after.size_mb[worker])]
        sizes.insert(0, None if source is None else _finite(before.size_mb[source]))
        changes = sizes[0] is not None and sizes[1] is not None and sizes[0] != sizes[1]
        listed = found.setdefault(topology, [])
        if (changes or after.fill[worker] > _SCARCE) and len(listed) < _MAX_HEAPS:
            change = HeapChange(
                worker=problem.cluster.slot_name(problem.slots[after.workers.slot[worker]]),
                before_mb=sizes[0],
                after_mb=sizes[1],
                used_mb=_finite(after.live_mb[worker]),
                too_small=bool(after.is_too_small[worker]),
            )
            listed.append(change)
    return {topology: tuple(each) for topology, each in found.items()}


def _started(now: PlacedExecutors, then: PlacedExecutors) -> dict[int, int | None]:
    """Return workers that start, by position, with the current worker of most of their executors, if any had one."""
    positions = []
    for placed in (now, then):
        worker = np.full(placed.problem.num_executors, UNPLACED)
        worker[placed.placed] = placed.worker
        positions.append(worker)
    both = (positions[0] != UNPLACED) & (positions[1] != UNPLACED)
    count = max(len(now.workers.slot), 1)
    keys, executors = np.unique(positions[1][both] * count + positions[0][both], return_counts=True)
    started: dict[int, int | None] = dict.fromkeys(range(len(then.workers.slot)))
    most: dict[int, int] = {}
    for key, shared in zip(keys.tolist(), executors.tolist(), strict=True):
        worker, source = divmod(key, count)
        same = now.workers.slot[source] == then.workers.slot[worker]
        if same and shared == now.workers.executors[source] == then.workers.executors[worker]:
            del started[worker]
        elif shared > most.get(worker, 0):
            most[worker], started[worker] = shared, source
    return started


def _finite(mb: float) -> float | None:
    return float(mb) if isfinite(mb) else None


# Description --------------------------------------------------------------------------------------

#: Maximum number of staying topologies listed by name.
_MAX_NAMED = 100


class SafetyOf(Protocol):
    """Returns how a topology can be moved, as `move_safety`."""

    def __call__(
        self, topology: Topology, rate_tps: float | None = None, restarts: Mapping[str, float] | None = None, /
    ) -> MoveSafety: ...


def move_kinds(
    problem: Problem, topologies: Collection[str], safety_of: SafetyOf = move_safety
) -> dict[str, MoveKindReport]:
    """Return how topologies (ids) can be moved, by id.

    Parameters
    ----------
    problem
        The problem, with the load by which tuples are predicted.
    topologies
        Ids of existing topologies.
    safety_of
        Returns how a topology can be moved.
    """
    rates = measured_rates(problem) if topologies else {}
    known = (problem.topologies[problem.topology_index[name]] for name in sorted(topologies))
    return {each.id: MoveKindReport(**safety_of(each, rates.get(each.id)).as_dict()) for each in known}


def with_wait(pause: Pause, safety: MoveSafety) -> Pause:
    """Return the pause with the wait for windows, unless it was measured with the topology itself.

    Windows may be empty already, so the shortest pause is unchanged.
    """
    if not safety.wait_s or pause.measured:
        return pause
    value, high = ((each or 0.0) + safety.wait_s for each in (pause.seconds.value, pause.seconds.high))
    seconds = Range(value=value, low=pause.seconds.low, high=high)
    return Pause(seconds, f"{pause.source}, and at most {safety.wait_s:,.0f} s until windows are empty")


@dataclass(frozen=True)
class FigureSources:
    """Sources of the figures of a plan.

    Parameters
    ----------
    pause_of
        Returns the expected pause of a topology.
    safety_of
        Returns how a topology can be moved.
    in_stages
        Whether it is applied in stages, each evaluated before the next one begins.
    """

    pause_of: PauseOf
    safety_of: SafetyOf = move_safety
    in_stages: bool = True


def with_figures(
    plan: Plan,
    placements: Placements,
    slots: IntArray,
    sources: FigureSources,
    goal: str = "",
    then: Placements | None = None,
) -> Plan:
    """Return a plan with its stages, and its figures for people.

    Parameters
    ----------
    plan
        The plan; one without steps gets the figures of what runs.
    placements
        Placements of the problem that it was made for.
    slots
        Slot of every executor after it, shape (E,).
    sources
        Sources of the figures.
    goal
        Objective of the proven optimality gap; empty for none.
    then
        Placements of the problem after it, if topologies get other numbers of executors.
    """
    problem, after_it = placements.problem, then or placements
    if sources.in_stages:
        stages = staged(plan.steps)
        steps = tuple(replace(step, stage=stage) for step, stage in zip(plan.steps, stages, strict=True))
        plan = plan.model_copy(update={"steps": steps, "stages": max(stages, default=-1) + 1})
    blocked = dict(islice(plan.blocked.items(), _MAX_NAMED))
    if not (problem.current_slot >= 0).any():
        return plan.model_copy(update={"blocked": blocked})
    both = (placements, problem.current_slot), (after_it, slots)
    before, after = (side_of(*each) for each in both)
    predicted = [each.predicted(of) for each, of in both]
    heaps = heap_changes(problem, slots) if then is None else {}
    moved = list(_moved(plan, problem, predicted, sources, heaps))
    pauses = [each.pause_s.value or 0.0 for each in moved]
    evaluated = plan.stages if sources.in_stages else 0
    proof = proven(after_it, goal, slots)
    broken = placements.newly_broken(slots) if then is None else then.broken(slots)
    worse = [f"newly exceeded: {each}" for each in broken[:_MAX_VIOLATIONS]]
    more = placements.worsened(slots)[:_MAX_VIOLATIONS] if then is None else []
    worse += [f"exceeded already, and {new.amount / old.amount - 1:.1%} more: {new}" for old, new in more]
    figures = {
        "blocked": blocked,
        "worse": (*worse, *_worse(before, after)),
        "gap_percent": proof.gap_percent,
        "proof": proof.text,
        "before": before,
        "after": after,
        "score_before": before.score,
        "score_after": after.score,
        "moved": tuple(moved),
        "duration_s": sum(pauses) + evaluated * (SETTLE_S + AFTER_S),
    }
    return plan.model_copy(update=figures)


#: Relative loss from which a figure of a plan counts as worse.
_WORSE = 0.01


def _worse(before: Side, after: Side) -> Iterator[str]:
    """Yield the figures that a plan worsens."""
    rates = before.reachable_tps.value, after.reachable_tps.value
    if rates[0] is not None and rates[1] is not None and rates[1] < rates[0] * (1 - _WORSE):
        yield f"reachable throughput {readable(rates[0])} → {readable(rates[1])} trees/s"
    latency = [each.latency_ms.value if each.latency_ms else None for each in (before, after)]
    figures: tuple[tuple[str, str, float | None, float | None], ...] = (
        ("latency", " ms", latency[0], latency[1]),
        ("traffic between nodes", " tuples/s", before.traffic_tps, after.traffic_tps),
        ("nodes", "", before.nodes, after.nodes),
    )
    for name, unit, now, then in figures:
        if now is not None and then is not None and then > now * (1 + _WORSE):
            yield f"{name} {readable(now)} → {readable(then)}{unit}"


def _moved(
    plan: Plan,
    problem: Problem,
    predicted: Sequence[Prediction],
    sources: FigureSources,
    heaps: Mapping[str, tuple[HeapChange, ...]],
) -> Iterator[PlannedTopology]:
    """Yield the topologies that move, by the predictions of the current and of the planned placement, in order."""
    of: dict[str, list[TopologyMove]] = {}
    modelled_s: dict[str, float] = {}
    for step in plan.steps:
        for move in step.moves:
            of.setdefault(move.topology, []).append(move)
            modelled_s[move.topology] = modelled_s.get(move.topology, 0.0) + modelled_pause_s(step)
    sides = [{each.topology: each for each in side.topologies} for side in predicted]
    for topology, moves in of.items():
        one, other = (side[topology] for side in sides)
        measured = one.measured_tps > 0
        itself = problem.topologies[problem.topology_index[topology]]
        rate_tps = one.measured_tps if measured else None
        safety = sources.safety_of(itself, rate_tps, restarted_shares(itself, moves))
        pause = with_wait(sources.pause_of(itself.name, modelled_s[topology]), safety)
        yield PlannedTopology(
            topology=topology,
            name=itself.name,
            executors=_executors_moved(moves),
            workers_started=len({slot for move in moves for slot in move.started_workers}),
            workers_stopped=len({slot for move in moves for slot in move.stopped_workers}),
            workers_unchanged=len(moves[-1].unchanged_workers),
            pause_s=pause.seconds,
            pause_from=pause.source,
            kind=MoveKindReport(**safety.as_dict()),
            before=topology_side(one) if measured else None,
            after=topology_side(other) if measured else None,
            heaps=heaps.get(topology, ()),
        )


def _executors_moved(moves: Sequence[TopologyMove]) -> int:
    """Return the number of executors that end in another slot, however many detours they take, or are new."""
    if moves[-1].executors:
        return moves[-1].moved_executors
    return sum(one != other for one, other in zip(where(moves[0].before), where(moves[-1].after), strict=True))
