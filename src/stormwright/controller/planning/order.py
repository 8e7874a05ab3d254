"""The order of moves: steps, topologies that stay with the reason, and the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from stormwright.model.humanize import amount, counted
from stormwright.plans.plan import Move, TopologyMove


@dataclass(frozen=True)
class MoveBudget:
    """Limits on the moves of one decision.

    Parameters
    ----------
    max_topologies
        Topologies that may be paused.
    max_executors
        Executors that may change their slot, over all topologies.
    """

    max_topologies: int = 10
    max_executors: int = 10_000


#: A budget without limits, for a plan that is applied completely.
UNLIMITED = MoveBudget(max_topologies=2**31, max_executors=2**31)


@dataclass(frozen=True)
class Missing:
    """A resource that a node lacks for a topology."""

    node: str
    resource: str
    amount: float
    unit: str

    def __str__(self) -> str:
        return f"{self.node}: {self.resource} short by {amount(self.amount, self.unit)}"


@dataclass(frozen=True)
class NoRoom:
    """A topology stays because no move frees the capacity that it needs; at least one resource is missing."""

    missing: tuple[Missing, ...]

    def __str__(self) -> str:
        return "no room where it should move to: " + "; ".join(map(str, self.missing))


@dataclass(frozen=True)
class OverBudget:
    """A topology stays because its group exceeds the remaining budget."""

    topologies: int
    executors: int
    topologies_left: int
    executors_left: int

    def __str__(self) -> str:
        if self.topologies > self.topologies_left:
            needed, left = counted(self.topologies, "topology"), self.topologies_left
        else:
            needed, left = counted(self.executors, "executor"), self.executors_left
        return f"move budget: {needed}, {left:,} left"


@dataclass(frozen=True)
class NotWanted:
    """A topology stays because the wanted placement has no slot for some of its executors."""

    executors: int

    def __str__(self) -> str:
        return f"no slot for {counted(self.executors, 'executor')} in the target placement"


@dataclass(frozen=True)
class Excluded:
    """A topology stays by request."""

    why: str

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True)
class Forbidden:
    """A topology stays because moves of its kind are forbidden, or it should move where it lacks heap."""

    why: str

    def __str__(self) -> str:
        return self.why


StayReason = NoRoom | OverBudget | NotWanted | Excluded | Forbidden


@dataclass(frozen=True)
class MoveOrder:
    """Steps in the order in which they can be made, and topologies (ids) that stay where they are with the reason."""

    steps: tuple[Move, ...] = ()
    blocked: Mapping[str, StayReason] = field(default_factory=dict)

    @cached_property
    def moves(self) -> tuple[TopologyMove, ...]:
        """The moves of all steps; a topology that takes a detour has two."""
        return tuple(move for step in self.steps for move in step.moves)
