"""Plans of moves: steps in order, and topologies that stay with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from stormwright.model import Supervisor, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.humanize import amount, counted


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


@dataclass(frozen=True)
class Hop:
    """Workers of one topology that are exchanged together; `vacated` are the nodes that it leaves entirely."""

    after: TopologyAssignment
    stopped_workers: tuple[WorkerSlot, ...]
    started_workers: tuple[WorkerSlot, ...]
    unchanged_workers: tuple[WorkerSlot, ...]
    vacated: tuple[Supervisor, ...]


@dataclass(frozen=True)
class TopologyMove:
    """A move of one topology, in one leg or, by way of free slots, in two.

    `arrives` is False where it only makes room for others, in a place of which it goes on to its own later.
    `num_workers` is the new number of workers for Nimbus; None if it is unchanged.
    """

    topology: Topology
    before: TopologyAssignment
    after: TopologyAssignment
    moved_executors: int
    stopped_workers: tuple[WorkerSlot, ...]
    started_workers: tuple[WorkerSlot, ...]
    unchanged_workers: tuple[WorkerSlot, ...]
    legs: tuple[Hop, ...]
    arrives: bool = True
    num_workers: int | None = None


@dataclass(frozen=True)
class Step:
    """Topologies that move together: a single one, or several that exchange slots.

    `after` are the topologies (ids) that must have moved before, because they make room for it. `starts_per_core` are,
    for each leg, the workers that start on a node per core of it, of the node with the most.
    """

    moves: tuple[TopologyMove, ...]
    after: frozenset[str] = frozenset()
    starts_per_core: tuple[float, ...] = ()

    def with_workers(self, chosen: Mapping[str, int]) -> Step:
        """Return the step with the given numbers of workers (by id) for topologies that arrive."""
        moves = (replace(m, num_workers=chosen.get(m.topology.id)) if m.arrives else m for m in self.moves)
        return replace(self, moves=tuple(moves)) if chosen else self


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
        return f"no slot for {counted(self.executors, 'executor')} in the wished placement"


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
class MovePlan:
    """Steps in order, and topologies (ids) that stay where they are with the reason."""

    steps: tuple[Step, ...] = ()
    blocked: Mapping[str, StayReason] = field(default_factory=dict)

    @cached_property
    def moves(self) -> tuple[TopologyMove, ...]:
        """The moves of all steps; a topology that takes a detour has two."""
        return tuple(move for step in self.steps for move in step.moves)

    def blocked_lines(self, most: int = 10) -> list[str]:
        """Return lines about topologies that stay although they should move, at most `most` lines."""
        lines = [f"{topology} stays: {why}" for topology, why in self.blocked.items() if not isinstance(why, Excluded)]
        return lines if len(lines) <= most else [*lines[:most], f"{len(lines) - most:,} more stay"]
