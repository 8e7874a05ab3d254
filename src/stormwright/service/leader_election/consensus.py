"""The interface to the consensus store: leader, and ordered log of decisions."""

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
        Where it is reached, as in ``http://10.0.0.5:7070``.
    since_ms
        When it began to lead.
    epoch
        Its number: who leads later has a higher one.
    """

    address: str
    since_ms: int
    epoch: int


@dataclass(frozen=True)
class Base:
    """A snapshot of all decisions up to some entry.

    Parameters
    ----------
    pair
        Tells these services from others that once agreed at the same place.
    position
        Number of the last entry that is in it.
    """

    pair: str
    position: int


class ConsensusStore(Protocol):
    """A place where services agree; what is there survives all of them.

    Whatever is changed there is changed by who leads: once another one does, changes of the one before are refused.
    Every call raises `NotLeadingError` where a change is refused, and `ClusterError` where the place does not answer.
    """

    #: Seconds for which nobody else leads after a renewal was asked for.
    lease_s: float

    def leader(self) -> Leader | None:
        """Return the current leader."""

    def claim(self, address: str, now_ms: int) -> Leader | None:
        """Lead from now on; None where somebody does. What the one before changes is refused from then on."""

    def renew(self) -> None:
        """Go on leading."""

    def resign(self) -> None:
        """Lead no more, or come no more to claim it."""

    def append(self, number: int, entry: bytes) -> None:
        """Append an entry with the number that follows the last one.

        When this raises it may have been added all the same.
        """

    def entries(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Entries with their numbers, from the one after `after` on, as far as there is no gap."""

    def base(self) -> Base | None:
        """Return the snapshot; None if no service has ever led."""

    def load(self, base: Base) -> bytes:
        """The content of it."""

    def keep(self, base: Base, content: bytes) -> None:
        """Keep all up to an entry whole; entries that the base before has, too, may be forgotten then."""
