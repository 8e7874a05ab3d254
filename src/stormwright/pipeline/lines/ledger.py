"""Where every line went: nothing is lost without being counted."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Counts of lines; ``read = used + duplicate + quarantined``.

    Parameters
    ----------
    read
        All lines of the landed files that are not blank.
    used
        Records that are in the loads of their time.
    duplicate
        Records delivered again.
    quarantined
        Lines that are no records or came too late; kept with the reason.
    """

    read: int = 0
    used: int = 0
    duplicate: int = 0
    quarantined: int = 0

    @staticmethod
    def of(accepted: int, used: int, quarantined: int) -> LineCounts:
        """From how many lines are records that count, how many of them were used, and how many lines do not count."""
        return LineCounts(accepted + quarantined, used, accepted - used, quarantined)

    def __add__(self, other: LineCounts) -> LineCounts:
        return LineCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))
