"""Views of plans, the history, and what-if questions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import get_args

from stormwright.errors import NotFoundError
from stormwright.model.humanize import listed, time_range
from stormwright.plans.plan import Goal, Plan
from stormwright.plans.states import HALTED_STATES, IN_PROGRESS_STATES, OPEN_STATES
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.views.page import Page, Query

#: Steps and entries that a page shows.
_STEPS, _ENTRIES = 100, 25


def trying(known: DashboardState) -> Page:
    """Return the page with the forms, and earlier questions."""
    trials = known.sources.trials
    shows = {
        "schedulers": trials.schedulers() if trials else {},
        "can": trials is not None,
        "trials": known.trials.trials(),
        "scene": known.scene(),
    }
    return Page("trying", "Try", "stormwright compare problem.json", shows, "/try")


def tried(known: DashboardState, name: str) -> Page:
    """A question and its answer."""
    trial = known.trials.trial(name)
    return Page("tried", trial.title, trial.command, {"trial": trial}, "/try")


def plans(known: DashboardState) -> Page:
    """All plans, and a form that asks for one."""
    shows = {
        "can_plan": known.sources.plan_service is not None,
        "plans": known.plans().plans,
        "goals": get_args(Goal),
        "modes": known.modes(),
    }
    return Page("plans", "Plans", "stormwright plan --list", shows, "/plans")


def plan(known: DashboardState, name: str) -> Page:
    """Return the page of one plan, with its actions."""
    if known.sources.plan_service is None:
        raise NotFoundError("no cluster is connected: there are no plans")
    found = known.sources.plan_service.plan(name, _STEPS)
    can = []
    if found.state in OPEN_STATES and found.step_count:
        can.append("apply")
    if found.state in ("applying", "evaluating"):
        can.append("stop")
    if found.state in HALTED_STATES:
        can.append("resume")
    if found.state in (*OPEN_STATES, *HALTED_STATES, "planning"):
        can.append("discard")
    applies = known.sources.status() is not None
    shows = {
        "plan": found,
        "can": can if applies else [each for each in can if each == "discard"],
        "applies": applies,
        "runs": known.runs(),
        "steps": found.steps,
        "heaps": [(each.name, heap) for each in found.predictions for heap in each.heaps],
        "more_steps": max(found.step_count - _STEPS, 0),
        "moving": found.state in IN_PROGRESS_STATES,
        "halted": found.state in HALTED_STATES,
        "stages": _stages(found),
        "names": {each.topology: each.name for each in found.predictions},
        "paused": listed([each.name for each in found.predictions]),
        "pause": time_range(found.pauses_s),
    }
    return Page("plan", f"Plan {found.id}", f"stormwright plan --show {found.id}", shows, "/plans")


@dataclass(frozen=True)
class _Stage:
    """A stage of a plan: its topologies as text, and ``done``, ``now``, ``next`` or ``back``."""

    text: str
    state: str


def _stages(plan: Plan) -> list[_Stage]:
    """Return the stages of a plan, as far as its steps are shown."""
    found = []
    for number in range(plan.stages):
        steps = [step for step in plan.steps if step.stage == number]
        names = list(dict.fromkeys(move.name for step in steps for move in step.moves))
        is_done = plan.state == "done" or (bool(steps) and all(step.state == "moved" for step in steps))
        is_now = number == plan.stage and plan.state in (*IN_PROGRESS_STATES, *HALTED_STATES)
        is_back = bool(steps) and all(step.state == "rolled_back" for step in steps)
        state = "back" if is_back else "now" if is_now else "done" if is_done else "next"
        found.append(_Stage(listed(names), state))
    return found


def history(known: DashboardState, query: Query) -> Page:
    """Return the page of past changes."""
    given = query.get("before", "")
    before = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
    found = known.history(_ENTRIES, before)
    shows = {
        "can_plan": known.sources.plan_service is not None,
        "applies": known.sources.status() is not None,
        "history": found,
        "runs_of_entries": [
            (is_moved, list(entries)) for is_moved, entries in groupby(found.entries, key=lambda each: bool(each.moves))
        ],
        "before": before,
        "runs": known.runs(),
    }
    return Page("history", "History", "stormwright history", shows, "/history")
