"""The scheduler, thresholds and triggers of a service, from names and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from stormwright.cli import options
from stormwright.cli.triggers import overridden_triggers
from stormwright.errors import Fault

if TYPE_CHECKING:
    from stormwright.model import Scheduler
    from stormwright.schedulers.toolkit.triggers import Adaptation

#: The scheduler, the thresholds of moves, and the triggers of decisions.
Deciding: TypeAlias = "tuple[Scheduler, str, Adaptation]"


def decided_by(
    name: str, settings: Sequence[str], objective: str | None, from_scratch: bool | None, faults: list[Fault]
) -> Deciding:
    """Return the scheduler of a service, its objective and its triggers.

    Parameters
    ----------
    name, settings
        Name of the scheduler, and its parameters as ``key=value`` texts.
    objective
        Objective of moves; None for the scheduler's own.
    from_scratch
        Whether to ignore the current placement; None for the scheduler's default.
    faults
        List to which faults of name, settings and objective are appended.
    """
    from stormwright.controller.objectives.outlook import THROUGHPUT, TRAFFIC
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, only_adaptive
    from stormwright.schedulers.toolkit.traits import declared
    from stormwright.schedulers.toolkit.triggers import ONLINE

    scheduler = make_scheduler(name, settings, objective=objective or THROUGHPUT)
    adapts = declared(scheduler).adapts if from_scratch is not False and only_adaptive(scheduler) else ONLINE
    objective = objective or (THROUGHPUT if adapts == ONLINE else TRAFFIC)
    faults += _unfit(scheduler, name, settings, objective)
    return apply_from_scratch(name, scheduler, from_scratch, only_adaptive), objective, adapts


def _unfit(scheduler: Scheduler, name: str, settings: Sequence[str], objective: str) -> list[Fault]:
    """Return the options that a scheduler cannot be combined with, as faults."""
    from stormwright.controller.objectives.outlook import OBJECTIVES

    forecasts = getattr(scheduler, "uses_forecast", False)
    faults = [] if forecasts else options.idle({"forecast_min": f"{name} uses no forecast"})
    searched = getattr(getattr(scheduler, "params", None), "objective", objective)
    if searched in OBJECTIVES and searched != objective:
        given = f"says {searched}, and --objective says {objective}: name one of them"
        faults.append(Fault(given, "--set objective"))
    return faults + overridden_triggers(scheduler, settings)
