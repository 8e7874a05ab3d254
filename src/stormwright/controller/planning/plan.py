"""From a wished placement to moves in an order in which Storm can make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from stormwright.model import Supervisor, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.humanize import amount, counted


@dataclass(frozen=True)
class MoveBudget:
    """How much may move in one decision.

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
    """Workers of one topology exchanged at one go; `vacated` are the nodes that it leaves altogether."""

    after: TopologyAssignment
    stopped_workers: tuple[WorkerSlot, ...]
    started_workers: tuple[WorkerSlot, ...]
    kept_workers: tuple[WorkerSlot, ...]
    vacated: tuple[Supervisor, ...]


@dataclass(frozen=True)
class TopologyMove:
    """One topology from where it runs to where it shall run, in one leg or, by way of free slots, in two.

    `arrives` is False where it only makes room for others, in a place of which it goes on to its own later.
    `num_workers` is what Nimbus is told of how many workers it has from now on; None for what it has been.
    """

    topology: Topology
    before: TopologyAssignment
    after: TopologyAssignment
    moved_executors: int
    stopped_workers: tuple[WorkerSlot, ...]
    started_workers: tuple[WorkerSlot, ...]
    kept_workers: tuple[WorkerSlot, ...]
    legs: tuple[Hop, ...]
    arrives: bool = True
    num_workers: int | None = None


@dataclass(frozen=True)
class Step:
    """Topologies that move at one go: one alone, or several that change places with each other.

    `after` are the topologies (ids) that must have moved before, because they make room for it.
    """

    moves: tuple[TopologyMove, ...]
    after: frozenset[str] = frozenset()

    def with_workers(self, chosen: Mapping[str, int]) -> Step:
        """The same, by which topologies that arrive get as many workers as were chosen for them (by id)."""
        moves = (replace(m, num_workers=chosen.get(m.topology.id)) if m.arrives else m for m in self.moves)
        return replace(self, moves=tuple(moves)) if chosen else self


@dataclass(frozen=True)
class Missing:
    """What a node lacks for a topology to move there."""

    node: str
    resource: str
    amount: float
    unit: str

    def __str__(self) -> str:
        return f"{self.node}: {self.resource} short by {amount(self.amount, self.unit)}"


@dataclass(frozen=True)
class NoRoom:
    """A topology stays because nothing that moves makes the room that it needs; at least one thing is missing."""

    missing: tuple[Missing, ...]

    def __str__(self) -> str:
        return "no room where it should move to: " + "; ".join(map(str, self.missing))


@dataclass(frozen=True)
class OverBudget:
    """A topology stays because it, with those that must move with it, is more than what is left of the budget."""

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
    """A topology stays because the wished placement has no slot for some of its executors."""

    executors: int

    def __str__(self) -> str:
        return f"no slot for {counted(self.executors, 'executor')} in the wished placement"


@dataclass(frozen=True)
class Blocked:
    """A topology shall stay."""

    why: str

    def __str__(self) -> str:
        return self.why


Left = NoRoom | OverBudget | NotWanted | Blocked


@dataclass(frozen=True)
class MovePlan:
    """Steps in the order to make them, and topologies (ids) left where they are with the reason."""

    steps: tuple[Step, ...] = ()
    left: Mapping[str, Left] = field(default_factory=dict)

    @cached_property
    def moves(self) -> tuple[TopologyMove, ...]:
        """The moves of all steps; a topology that makes room for others first has two."""
        return tuple(move for step in self.steps for move in step.moves)

    def told(self, most: int = 10) -> list[str]:
        """What stays although it was to move, in lines; so many of them at most."""
        lines = [f"{topology} stays: {why}" for topology, why in self.left.items() if not isinstance(why, Blocked)]
        return lines if len(lines) <= most else [*lines[:most], f"{len(lines) - most:,} more stay"]
