"""What ZooKeeper has of a virtual cluster, and what Nimbus says to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from stormwright.model import Problem, Topology, TopologyAssignment

#: Storm's words for what a topology does.
ACTIVE, INACTIVE, REBALANCING, KILLED = "ACTIVE", "INACTIVE", "REBALANCING", "KILLED"


class Answer(Protocol):
    """What a scheduler says: topology (id) → where it goes, and what Storm's UI shows of it."""

    @property
    def assignments(self) -> Mapping[str, TopologyAssignment]: ...

    @property
    def status(self) -> Mapping[str, str]: ...


#: The cluster as Nimbus sees it → what becomes of it. It raises ConnectionError where nobody answers.
Ask = Callable[[Problem], Answer]


@dataclass
class Entry:
    """What ZooKeeper has of a topology, whatever becomes of Nimbus.

    Parameters
    ----------
    topology
        With the workers that it was given last.
    since_s
        When it was submitted.
    status, before
        What it does, and what it did before it was rebalanced.
    assignment
        Where it runs; None for nowhere.
    told
        What its scheduler says of it.
    rebalance
        Workers that it gets by the rebalance under way; None for as many as it has.
    """

    topology: Topology
    since_s: float
    status: str = ACTIVE
    before: str = ACTIVE
    assignment: TopologyAssignment | None = None
    told: str = ""
    rebalance: int | None = None


class Hears(Protocol):
    """Who is told what Nimbus has decided."""

    def assigned(self, supervisor: str) -> None: ...

    def status(self, topology: str) -> None: ...

    def gone(self, topology: str) -> None: ...
