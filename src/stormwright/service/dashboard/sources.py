"""Data sources of the pages: a running service, or a problem file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stormwright.base.clock import WALL, Clock
from stormwright.client.shapes import Concern
from stormwright.model import Problem
from stormwright.service.dashboard.trials import Trials
from stormwright.service.status import ServiceStatus

if TYPE_CHECKING:
    from stormwright.service.plans.plan_service import PlanService


@dataclass(frozen=True)
class Sources:
    """Functions that provide the pages' data; each may be called from any thread.

    Parameters
    ----------
    problem
        What runs now, under the load measured last; None while that is not known.
    status
        What the service does; None where there is no service, only a problem.
    age_s
        Seconds since the last request of Nimbus; None where there is no Nimbus.
    unfit
        Topology → why Nimbus's description of it cannot be used.
    plan_service
        Plans, history and modes; None where there are none.
    trials
        Service that compares schedulers and predicts changes; None without one.
    clock
        Clock of the cluster, virtual for a simulated one.
    health
        Faults of the cluster, worst first.
    watched
        Called every few seconds while a page is open.
    """

    problem: Callable[[], Problem | None]
    status: Callable[[], ServiceStatus | None] = lambda: None
    age_s: Callable[[], float | None] = lambda: None
    unfit: Callable[[], Mapping[str, str]] = field(default=dict)
    plan_service: PlanService | None = None
    trials: Trials | None = None
    clock: Clock = WALL
    health: Callable[[], Sequence[Concern]] = tuple
    watched: Callable[[], None] = lambda: None
