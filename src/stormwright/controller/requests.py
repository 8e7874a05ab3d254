"""Requests for plans, the means to propose one, and the answer that there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from stormwright.controller.description import FigureSources
from stormwright.controller.objectives.objective import Refuses
from stormwright.controller.objectives.outlook import TRAFFIC, Outlook
from stormwright.controller.planning.order import UNLIMITED, Forbidden, MoveBudget
from stormwright.controller.safety.holds import HOLD_CODES, HoldCode
from stormwright.model import Scheduler, TopologyAssignment, WorkerSlot
from stormwright.plans.plan import Because, Origin, Plan, Search, TopologyMove
from stormwright.predict.answer import Assumptions


@dataclass(frozen=True)
class Unattended:
    """Requirements of the service for a plan that no person reads before it is applied.

    Parameters
    ----------
    accepts
        Returns why a placement with an outlook is worth the moves; None if it is not.
    because
        Returns the anomaly without which it would not be.
    drifted
        Drift of the load that is stated where nothing is worth it; empty without drift.
    is_trial
        Whether the gain may be unsure, as its measurement decides whether the topology stays.
    """

    accepts: Callable[[Outlook], str | None]
    because: Callable[[Outlook], Because] = lambda _: ""
    drifted: str = ""
    is_trial: bool = False


@dataclass(frozen=True)
class Improve:
    """Move towards a better placement.

    Parameters
    ----------
    goals
        Of `stormwright.controller.objectives.outlook.OBJECTIVES`, the most important first; at least one.
    topologies, nodes
        Patterns with ``*`` of ids or names, and of ids or hosts: only such topologies move, and only such that run on
        such a node; all where there are none.
    min_gain_percent
        Minimum gain in one of the goals; None for the default.
    unattended
        Further requirements of the service; None where a person decides.
    """

    goals: tuple[str, ...] = (TRAFFIC,)
    topologies: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    min_gain_percent: float | None = None
    unattended: Unattended | None = None


@dataclass(frozen=True)
class Repair:
    """End all violations with the fewest moves; `goals` are those of the predictions, patterns as in `Improve`."""

    goals: tuple[str, ...] = (TRAFFIC,)
    topologies: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evacuate:
    """Empty some hosts, which are unschedulable, and do nothing else; `goals` are those of the predictions."""

    hosts: frozenset[str]
    goals: tuple[str, ...] = (TRAFFIC,)


@dataclass(frozen=True)
class Place:
    """Bring topologies (ids) to given placements, whatever the gain: to those of before, or as a person wants them.

    Nodes and workers are as given, and so are the ports, unless another topology holds one: any of the node will do.

    Parameters
    ----------
    placements
        Placement by topology id. One without that only changes; where its executors do, they are placed around all
        others.
    executors
        Topology (id) → component (id) → executors, for topologies that get other numbers of them.
    conf
        Topology (id) → key → value of its configuration, where it changes.
    reason
        Why, for the history and Storm's UI.
    goals
        Those of the predictions.
    origin
        ``rollback`` where topologies return.
    refuses_cordoned
        Whether a placement on a cordoned host is refused; else topologies return there, too.
    """

    placements: Mapping[str, TopologyAssignment]
    executors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    conf: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reason: str = ""
    goals: tuple[str, ...] = (TRAFFIC,)
    origin: Origin = "rollback"
    refuses_cordoned: bool = False


Request: TypeAlias = Improve | Repair | Evacuate | Place


@dataclass(frozen=True)
class PlanInputs:
    """Means and limits of a proposal.

    Parameters
    ----------
    scheduler
        Scheduler for `Improve`, run once.
    repair_scheduler
        Scheduler for `Repair`, `Evacuate`, and other numbers of executors without a placement: it places executors
        without slots and leaves running ones alone.
    stay
        Topologies (ids) that do not move, with the reason.
    budget
        Limits of the moves.
    refuses
        Returns which placements are refused.
    assumptions, gains
        Assumptions of predictions (None for defaults), and alternative quantities to gain, as in `Outlooks`.
    slot_name
        Returns the name of a slot that is gone.
    sources
        Sources of figures for people; None for none.
    predicts
        Whether a placement that is given is predicted; where it is not, there are no promises.
    changes_executors
        Whether the cluster can change the numbers of executors of a running topology.
    """

    scheduler: Scheduler | None = None
    repair_scheduler: Scheduler | None = None
    stay: Mapping[str, str | Forbidden] = field(default_factory=dict)
    budget: MoveBudget = UNLIMITED
    refuses: Refuses = lambda *_: {}
    assumptions: Assumptions | None = None
    gains: tuple[str, ...] = (TRAFFIC,)
    slot_name: Callable[[WorkerSlot], str] = str
    sources: FigureSources | None = None
    predicts: bool = True
    changes_executors: bool = True


#: Why there is no plan: a hold; no trigger fires; nothing runs, or what runs would lose its slots; the gain is small or
#: unsure, or that of the part that can move now; all moves are blocked; or everything is where it should be.
NoPlanCode: TypeAlias = (
    HoldCode
    | Literal[
        "no_trigger", "nothing_runs", "no_slots", "small_gain", "part_loses", "blocked", "nothing_to_do", "impossible"
    ]
)


@dataclass(frozen=True)
class NoPlan:
    """The reason why there is no plan.

    Parameters
    ----------
    code, reason
        The reason, as a code and for people.
    search
        What a scheduler has answered; None if none was run.
    blocked
        Topologies (names) that stay although they should move, each with the reason.
    figures
        Figures of what runs, if they were requested: a plan without steps.
    """

    code: NoPlanCode
    reason: str
    search: Search | None = None
    blocked: Mapping[str, str] = field(default_factory=dict)
    figures: Plan = field(default_factory=Plan)

    @property
    def moves(self) -> tuple[TopologyMove, ...]:
        """No moves."""
        return ()

    @property
    def searched(self) -> bool:
        """Whether a better placement was looked for."""
        return self.code not in ("no_trigger", *HOLD_CODES)
