"""Plans that parts of the service make and apply: trials of tunings, and other sizes of topologies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stormwright.controller.description import FigureSources
from stormwright.controller.requests import NoPlan, PlanInputs
from stormwright.model import Problem, Scheduler
from stormwright.plans.plan import SERVICE, Origin, Plan

#: Proposes a plan, by its id.
MakeOwnPlan = Callable[[str, Problem, FigureSources], Plan | NoPlan]


@dataclass(frozen=True)
class OwnPlan:
    """A plan that is yet to be made.

    Parameters
    ----------
    origin, goal, by, reason
        Origin, objective, author and reason, as in `PlanSummary`.
    request
        Its request, for people.
    auto_apply
        Whether it is applied as soon as it is made.
    """

    origin: Origin
    goal: str
    by: str
    reason: str
    request: Mapping[str, Any] = field(default_factory=dict)
    auto_apply: bool = True


def person(name: str) -> str:
    """Return the name of a person, whom nothing takes for the service."""
    return f"{name} (person)" if name == SERVICE else name


class Planner(Protocol):
    """The part of `PlanService` that makes and starts such plans."""

    def add_made(self, requested: OwnPlan, make: MakeOwnPlan) -> str:
        """Begin to make a plan; return its id. Raises ConflictError if nothing may be applied now."""

    def run_later(self, work: Callable[[], None]) -> None:
        """Run a function after the plans that are being made, on their thread."""

    def now(self) -> Problem:
        """Return the current problem; raises ConflictError before the first poll of Nimbus."""

    def plan_inputs(self, problem: Problem, sources: FigureSources) -> PlanInputs:
        """Return the schedulers and limits of plans."""

    def not_automatic(self, problem: Problem) -> Mapping[str, str]:
        """Return topologies (ids) that nothing may move automatically now, with the reason."""

    @property
    def tuning_scheduler(self) -> Scheduler:
        """Scheduler that places a topology for the highest rate, around all others."""

    @property
    def sizing_scheduler(self) -> Scheduler:
        """Scheduler that places a topology on as few nodes as sustain its load, around all others."""

    @property
    def waits_for_person(self) -> bool:
        """Whether another person has to apply plans."""
