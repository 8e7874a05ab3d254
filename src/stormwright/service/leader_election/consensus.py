"""Interface of the consensus store: leader, and ordered log of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Leader:
    """The current leader.

    Parameters
    ----------
    address
        Address of its HTTP server, as in ``http://10.0.0.5:7070``.
    since_ms
        Start of its term.
    epoch
        Number of its term; later terms have higher numbers.
    """

    address: str
    since_ms: int
    epoch: int


@dataclass(frozen=True)
class StateSnapshot:
    """Identity of a snapshot of all decisions up to some entry.

    Parameters
    ----------
    pair
        Random name of this group of services; other groups that used the same store have others.
    position
        Number of the last entry in it.
    """

    pair: str
    position: int


class ConsensusStore(Protocol):
    """A store in which services elect a leader and share its decisions; its content survives all of them.

    Only the leader changes it: once another service leads, changes of the former leader are refused. Every call raises
    `NotLeadingError` if a change is refused, and `ClusterError` if the store does not answer.
    """

    #: Seconds from the request of a renewal for which no other service becomes leader.
    lease_s: float

    def leader(self) -> Leader | None:
        """Return the current leader."""

    def acquire(self, address: str, now_ms: int) -> Leader | None:
        """Become leader; None if another service leads. From then on changes of former leaders are refused."""

    def renew(self) -> None:
        """Renew the lease."""

    def release(self) -> None:
        """Give up leadership, or the wait for it."""

    def append(self, number: int, entry: bytes) -> None:
        """Append an entry with the number that follows the last one.

        When this raises, the entry may have been appended all the same.
        """

    def entries(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield entries with their numbers, from the one after `after` up to the first gap."""

    def latest_snapshot(self) -> StateSnapshot | None:
        """Return the latest snapshot; None if no service has ever led."""

    def load_snapshot(self, snapshot: StateSnapshot) -> bytes:
        """Return the content of a snapshot."""

    def save_snapshot(self, snapshot: StateSnapshot, content: bytes) -> None:
        """Save a snapshot; entries that the previous snapshot contains may then be deleted."""
