"""Triggers of a service from options and from ``--set``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from stormwright.errors import Fault

if TYPE_CHECKING:
    from stormwright.model import Scheduler
    from stormwright.schedulers.toolkit.triggers import TriggerParams

#: Trigger → its option.
_OPTIONS = {
    "overload_s": "--overload",
    "period_s": "--period",
    "min_gain_percent": "--gain",
    "cool_down_s": "--cool-down",
}


def triggers_from_options(
    scheduler: Scheduler, settings: Sequence[str], objective: str, min_gain_percent: float | None, **seconds: Any
) -> TriggerParams:
    """Return the triggers from options; ``--set`` takes precedence.

    Parameters
    ----------
    scheduler, settings
        The scheduler, and its ``key=value`` texts.
    objective
        Objective of moves, which determines the default of their minimum gain.
    min_gain_percent, seconds
        Values of the options.
    """
    from stormwright.controller.objectives.outlook import least_gain_percent
    from stormwright.schedulers.toolkit.triggers import TriggerParams

    gain = least_gain_percent(objective) if min_gain_percent is None else min_gain_percent
    return TriggerParams(**{"min_gain_percent": gain, **seconds, **_set(scheduler, settings)})


def overridden_triggers(scheduler: Scheduler, settings: Sequence[str]) -> list[Fault]:
    """Return faults for triggers that an option and ``--set`` give different values."""
    context, faults = click.get_current_context(), []
    for trigger, value in _set(scheduler, settings).items():
        by_option = context.params.get(trigger, value)
        if context.get_parameter_source(trigger) is not ParameterSource.DEFAULT and by_option != value:
            given = f"says {value:g}, and {_OPTIONS[trigger]} says {by_option:g}: name one of them"
            faults.append(Fault(given, f"--set {trigger}"))
    return faults


def _set(scheduler: Scheduler, settings: Sequence[str]) -> dict[str, float]:
    """Return the triggers given by ``--set``, if the scheduler has any."""
    from stormwright.schedulers.toolkit.registry import parse_settings
    from stormwright.schedulers.toolkit.triggers import TriggerParams

    params = getattr(scheduler, "params", None)
    named = parse_settings(settings) if isinstance(params, TriggerParams) else ()
    return {name: getattr(params, name) for name in named if name in _OPTIONS}


def by_goal(name: str, settings: Sequence[str], from_scratch: bool | None) -> Callable[[str], Scheduler]:
    """Return objective → scheduler of a plan: the service's own, with that objective.

    A scheduler with a time budget gets the time that people wait for a plan, unless its settings have more.
    """
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, only_adaptive
    from stormwright.schedulers.toolkit.registry import parse_settings
    from stormwright.schedulers.toolkit.resolve import SEARCHING, has_search_budget
    from stormwright.service.plans.scheduler_wrappers import TimeBoundedScheduler

    own = [each for each in settings if not each.startswith("objective=")]

    def made(goal: str, *more: str) -> Scheduler:
        return apply_from_scratch(
            name, make_scheduler(name, [*own, *more], objective=goal), from_scratch, only_adaptive
        )

    def in_time(goal: str) -> Scheduler:
        made(goal)  # raises if the parameters are invalid
        return TimeBoundedScheduler(lambda seconds: made(goal, f"time_budget_s={seconds:g}"))

    is_given = bool(SEARCHING & parse_settings(own).keys())
    return in_time if has_search_budget(name) and not is_given else made
