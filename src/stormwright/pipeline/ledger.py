"""Where every line went: nothing is lost without being counted."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Ledger:
    """Counts of lines; ``read = used + duplicate + quarantined + late``.

    Parameters
    ----------
    read
        All lines of the landed files that are not blank.
    used
        Records that are in the loads of their time.
    duplicate
        Records delivered again.
    quarantined
        Lines that are no records; kept with the reason.
    late
        Records that came when the loads of their time were closed.
    """

    read: int = 0
    used: int = 0
    duplicate: int = 0
    quarantined: int = 0
    late: int = 0

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))
