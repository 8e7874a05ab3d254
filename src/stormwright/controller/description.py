"""Figures of a plan for people, the same in the service and for files: predictions, pauses, heaps and a score."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np

from stormwright.controller.heap_changes import heap_changes
from stormwright.controller.objectives.outlook import NODES, THROUGHPUT
from stormwright.controller.objectives.placements import Placements, measured_rates
from stormwright.controller.placement_figures import MAX_VIOLATIONS, side_of, topology_side
from stormwright.controller.planning.expected_pauses import Pause, PauseOf, modelled_pause_s
from stormwright.controller.safety.move_kinds import MoveSafety, move_safety, restarted_shares
from stormwright.controller.stages import staged
from stormwright.history.evaluation.moves import AFTER_S, SETTLE_S
from stormwright.model import Problem, Topology
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import where
from stormwright.model.humanize import proof_text, readable
from stormwright.optimize.throughput.start import MeasuredLoad
from stormwright.plans.figures import HeapChange, MoveKindReport, PlannedTopology, Range, Side
from stormwright.plans.plan import Plan, TopologyMove
from stormwright.predict.answer import Assumptions
from stormwright.predict.prediction import Prediction
from stormwright.schedulers.templates.by_rates import RateGoal, RateSearch
from stormwright.schedulers.templates.proof_by_rates import RateBounds, proof_by_rates, throughput_proof

#: Seconds for a proof: enough for bounds from sums at any size, and for solving a small program.
PROOF_S = 0.2

#: Percent of nodes and links to keep free for the objective of few nodes.
_HEADROOM = 0.2

#: Maximum number of staying topologies listed by name.
_MAX_NAMED = 100

#: Relative loss from which a figure of a plan counts as worse.
_WORSE = 0.01


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
    worse = [f"newly exceeded: {each}" for each in broken[:MAX_VIOLATIONS]]
    more = placements.worsened(slots)[:MAX_VIOLATIONS] if then is None else []
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
        "predictions": tuple(moved),
        "duration_s": sum(pauses) + evaluated * (SETTLE_S + AFTER_S),
    }
    return plan.model_copy(update=figures)


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
