"""Which limits, besides those that hold for every placement, a scheduler heeds: as its traits declare them."""

from __future__ import annotations

from stormwright.errors import Fault, InputError
from stormwright.escaping import shown
from stormwright.model import Assignment, Scheduler
from stormwright.model.constraints.optional import CpuShare, ExtraLimit, Tags
from stormwright.schedulers.kit.registry import traits_of


def extra_limits(assignment: Assignment) -> tuple[ExtraLimit, ...]:
    """The limits that the scheduler of an assignment heeded besides all others.

    Raises
    ------
    InputError
        The assignment's parameters, which may come from a file, say no part of the CPU.
    """
    traits = traits_of(assignment.scheduler)
    found: list[ExtraLimit] = []
    if name := traits.cpu_percent_parameter:
        percent = assignment.parameters.get(name, 100.0)
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            fault = Fault(f"should be a number from 0 to 100, got {shown(percent)}", f"$.parameters.{name}")
            raise InputError("assignment", [fault])
        found.append(CpuShare(percent / 100))
    if traits.heeds_tags:
        found.append(Tags(traits.keeps_untagged_apart))
    return tuple(found)


def cpu_percent(name: str, scheduler: Scheduler) -> float:
    """How much of a node's CPU, in percent, the executors that a scheduler places may use.

    Parameters
    ----------
    name
        Of the scheduler, whose traits say which of its parameters that is.
    scheduler
        As it is set.
    """
    parameter = traits_of(name).cpu_percent_parameter
    return float(getattr(getattr(scheduler, "params", None), parameter, 100.0)) if parameter else 100.0
