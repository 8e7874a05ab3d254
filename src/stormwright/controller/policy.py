"""When to move: the triggers of Aniello et al. over what is observed, and what a move may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stormwright.controller.plan import MoveBudget, MovePlan
from stormwright.controller.planner import plan_moves
from stormwright.model import Assignment, Cost, LoadProfile, Problem, Scheduler, cost_of
from stormwright.model.load import silent_load
from stormwright.schedulers.kit.triggers import Observation, TriggerParams, should_reschedule

#: In a topology's configuration: false keeps it from being moved.
MOVE = "stormwright.move"


@dataclass(frozen=True)
class Clock:
    """What the triggers look back at, in seconds of one clock.

    `last_idle_look_s` is the last look after which nothing moved: what that could not cure is not looked at again
    within a period, unless an alarm was raised since (`last_alarm_s`).
    """

    now_s: float
    last_change_s: float
    last_look_s: float
    last_idle_look_s: float = float("-inf")
    last_alarm_s: float = float("-inf")


def _nothing() -> MovePlan:
    return MovePlan((), {})


@dataclass(frozen=True)
class Decision:
    """What was decided, and everything it was decided by.

    `looked` tells whether the scheduler was asked at all; `plan` is empty where nothing shall move.
    """

    looked: bool
    reason: str
    plan: MovePlan = field(default_factory=_nothing)
    before: Cost | None = None
    after: Cost | None = None
    assignment: Assignment | None = None


def decide(
    problem: Problem,
    scheduler: Scheduler,
    triggers: TriggerParams,
    budget: MoveBudget,
    clock: Clock,
    stay: Mapping[str, str] | None = None,
    drifted: str = "",
) -> Decision:
    """Decide whether and what to move.

    Parameters
    ----------
    problem
        What runs now under the load measured last. A topology that was not measured counts with what its executors
        ask for, without traffic, and stays.
    scheduler
        Asked for a placement once a trigger fires.
    triggers
        What has to be observed for a look, and what a placement has to gain.
    budget
        What may move in one decision.
    clock
        The time, and when it was last looked and moved.
    stay
        Further topologies that shall not move, with the reason.
    drifted
        How the load has changed since the placement did; empty where it has not.
    """
    measured = problem.load.topologies if problem.load else {}
    kept = {t.id: f"{MOVE} is false in its configuration" for t in problem.topologies if t.conf.get(MOVE) is False}
    unmeasured = {topology.id: "not measured" for topology in problem.topologies if topology.id not in measured}
    stay = {**unmeasured, **(stay or {}), **kept}
    problem = without_assumed_traffic(problem)
    before = cost_of(problem, problem.current_slot)
    # Whether even a placement without any inter-node traffic would be a reason to move.
    at_best = Observation(
        since_change_s=clock.now_s - clock.last_change_s,
        since_look_s=clock.now_s - clock.last_look_s,
        overload_s=problem.load.overload_s if problem.load else {},
        inter_node_now_tps=inter_node_tps(before),
        inter_node_new_tps=0.0,
        drifted=drifted,
    )
    tried = clock.now_s - clock.last_idle_look_s < triggers.period_s and clock.last_alarm_s < clock.last_idle_look_s
    if (tried and not drifted) or should_reschedule(triggers, at_best) is None:
        return Decision(False, "no trigger", before=before)
    assignment = scheduler.schedule(problem)
    after = cost_of(problem, assignment.slot_of_executor)
    reason = should_reschedule(triggers, replace(at_best, inter_node_new_tps=inter_node_tps(after)))
    traffic = f"inter-node traffic {inter_node_tps(before):.0f} → {inter_node_tps(after):.0f} tuples/s"
    if reason is None:
        why = f"{drifted}; {traffic}" if drifted else traffic
        return Decision(True, f"{why}: not worth a move", before=before, after=after, assignment=assignment)
    plan = plan_moves(problem, assignment, budget, stay)
    return Decision(True, f"{reason} ({traffic})", plan, before, after, assignment)


def without_assumed_traffic(problem: Problem) -> Problem:
    """What a decision is made on: topologies that were not measured have what they ask for, and no traffic."""
    load = problem.load or LoadProfile({})
    silent = {
        topology.id: silent_load(topology, problem.core_hz, problem.conf)
        for topology in problem.topologies
        if topology.id not in load.topologies
    }
    return problem.with_load(replace(load, topologies={**load.topologies, **silent})) if silent else problem


def inter_node_tps(cost: Cost) -> float:
    """Traffic between nodes, in one rack or not."""
    return cost.inter_node + cost.inter_rack
