"""When to look for a better placement: triggers over observations. `propose` decides about moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from stormwright.controller.objectives.objective import PlacementAim
from stormwright.controller.objectives.outlook import THROUGHPUT, TRAFFIC, Outlook, Outlooks
from stormwright.controller.objectives.placements import without_assumed_traffic
from stormwright.controller.planning.order import UNLIMITED, Forbidden, MoveBudget
from stormwright.controller.propose import propose
from stormwright.controller.requests import Improve, NoPlan, PlanInputs, Unattended
from stormwright.model import Problem, Scheduler
from stormwright.model.humanize import listed
from stormwright.plans.plan import Because, Plan
from stormwright.schedulers.toolkit.triggers import (
    Adaptation,
    TriggerParams,
    TriggerView,
    by_name,
    own_overload_s,
    should_reschedule,
)

#: Minimum predicted gain in percent while a node is overloaded: topologies with unlimited spouts fill their nodes under
#: any placement.
OVERLOAD_GAIN_PERCENT = 5.0

#: Minimum expected gain of a trial in percent: it pauses the topology once, or twice where it is taken back.
TRIAL_GAIN_PERCENT = 15.0


@dataclass(frozen=True)
class DecisionTimes:
    """Times of past looks and moves, in seconds of one clock.

    `last_idle_search_s` is the last check after which nothing moved: there is no other check within a period, unless an
    alarm was raised since (`last_alarm_s`).
    """

    now_s: float
    last_change_s: float
    last_search_s: float
    last_idle_search_s: float = float("-inf")
    last_alarm_s: float = float("-inf")


def decide(
    problem: Problem,
    scheduler: Scheduler,
    triggers: TriggerParams,
    budget: MoveBudget,
    clock: DecisionTimes,
    stay: Mapping[str, str | Forbidden] | None = None,
    drifted: str = "",
    aim: PlacementAim | None = None,
) -> Plan | NoPlan:
    """Decide about a move: whether, and of which topologies.

    Parameters
    ----------
    problem
        What runs now under the load measured last. A topology that was not measured counts with what its executors
        ask for, without traffic, and stays.
    scheduler
        Scheduler that is run once a trigger fires.
    triggers
        Conditions for a check, and the required gain.
    budget
        Limits of one decision.
    clock
        Current time, and times of the last check and move.
    stay
        Additional topologies that do not move, with the reason.
    drifted
        Drift of the load since the last move; empty without drift.
    aim
        Objective of placements, to which the triggers refer; by default little traffic between nodes.
    """
    aim = aim or PlacementAim()
    outlooks = Outlooks(without_assumed_traffic(problem), aim.objective, aim.assumptions, aim.adapts.gains)
    # Whether even the best placement there could be would be a reason to move.
    at_best = TriggerView(
        since_change_s=clock.now_s - clock.last_change_s,
        since_look_s=clock.now_s - clock.last_search_s,
        overload_s=by_name(problem, problem.load.overload_s if problem.load else {}),
        gain_percent=inf if outlooks.can_gain else 0.0,
        drifted=drifted,
        overload_gain_percent=-inf if aim.objective == TRAFFIC else OVERLOAD_GAIN_PERCENT,
        own_overload_s=by_name(problem, own_overload_s(problem)),
    )
    tried = clock.now_s - clock.last_idle_search_s < triggers.period_s and clock.last_alarm_s < clock.last_idle_search_s
    if (tried and not drifted) or should_reschedule(triggers, at_best, aim.adapts) is None:
        return NoPlan("no_trigger", "no trigger")

    def view(outlook: Outlook) -> TriggerView:
        return replace(at_best, gain_percent=outlook.gain_percent, gained=outlook.gained)

    unattended = Unattended(
        lambda outlook: should_reschedule(triggers, view(outlook), aim.adapts),
        lambda outlook: _because(triggers, view(outlook), aim.adapts),
        drifted,
    )
    inputs = _inputs(scheduler, budget, stay or {}, aim)
    return propose(problem, Improve((aim.objective,), unattended=unattended), inputs)


def try_out(
    problem: Problem,
    scheduler: Scheduler,
    budget: MoveBudget,
    stay: Mapping[str, str | Forbidden],
    aim: PlacementAim,
) -> Plan | NoPlan:
    """Decide about a trial: the move of one topology that the model expects much of, and is not sure of.

    Parameters
    ----------
    problem
        What runs now under the load measured last.
    scheduler
        Scheduler that subtracts no prediction error.
    budget
        Limits of one decision.
    stay
        Topologies that do not move, with the reason.
    aim
        Objective of placements, and which ones are refused.
    """

    def accepts(outlook: Outlook) -> str | None:
        worth = outlook.gain_percent >= TRIAL_GAIN_PERCENT and not outlook.has_room
        return f"worth a trial: {outlook.gained}, {outlook.interval}" if worth else None

    inputs = _inputs(scheduler, replace(budget, max_topologies=1), stay, aim)
    return propose(problem, Improve((aim.objective,), unattended=Unattended(accepts, is_trial=True)), inputs)


def with_possible_trial(
    nothing: NoPlan, problem: Problem, trial_scheduler: Scheduler, stay: Mapping[str, str | Forbidden]
) -> NoPlan:
    """Return the reason why nothing moves with the trial that is worth it all the same, if there is one.

    Parameters
    ----------
    nothing
        The reason: a gain that is small or unsure; any other is returned as it is.
    problem
        What runs now under the load measured last.
    trial_scheduler
        Scheduler that subtracts no prediction error.
    stay
        Topologies that do not move, with the reason.
    """
    if nothing.code != "small_gain":
        return nothing
    found = try_out(problem, trial_scheduler, UNLIMITED, stay, PlacementAim(THROUGHPUT))
    if isinstance(found, NoPlan):
        return nothing
    names = listed(sorted({move.name for move in found.moves}))
    reason = f"{nothing.reason}; {names}: {found.reason}"
    return replace(nothing, reason=reason, figures=nothing.figures.model_copy(update={"why": reason}))


def _inputs(
    scheduler: Scheduler, budget: MoveBudget, stay: Mapping[str, str | Forbidden], aim: PlacementAim
) -> PlanInputs:
    return PlanInputs(
        scheduler=scheduler,
        stay=stay,
        budget=budget,
        refuses=aim.refuses,
        assumptions=aim.assumptions,
        gains=aim.adapts.gains,
    )


def _because(triggers: TriggerParams, view: TriggerView, adapts: Adaptation) -> Because:
    """Return the anomaly without which no trigger would have fired."""
    calm = replace(view, overload_s={})
    if should_reschedule(triggers, calm, adapts) is None:
        return "overload"
    steady = replace(calm, drifted="")
    return "drift" if view.drifted and should_reschedule(triggers, steady, adapts) is None else ""
