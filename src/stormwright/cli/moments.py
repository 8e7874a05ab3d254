"""Parsing of moments and ranges of time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stormwright.errors import Fault, InputError

if TYPE_CHECKING:
    from stormwright.pipeline.streaming.backfill import TimeStretch

#: Format of `parse_stretch`, for help texts.
RANGE_HELP = "RANGE is a day (2026-11-21), or FROM..TO (2026-11-01..2026-11-30, 2026-11-21T10:00..; TO included)."

#: Years of supported moments.
_FIRST_YEAR, _LAST_YEAR = 1970, 2999

_DAY_LENGTH, _DAY_MS = len("2026-11-21"), 86_400_000


def parse_moment(text: str, source: str = "TIME") -> int:
    """Return a moment in ISO 8601 as ms since 1970, in UTC by default; for a day its beginning.

    Raises
    ------
    InputError
        The text is no such moment.
    """
    try:
        return to_ms(from_iso(text))
    except ValueError as error:
        raise InputError(source, [Fault("is not a day or time in ISO 8601, such as 2026-11-21T10:30", text)]) from error


def parse_stretch(text: str, source: str = "RANGE") -> TimeStretch:
    """Return the range of a day, or of ``FROM..TO`` with either end left out; a day TO is included.

    Raises
    ------
    InputError
        The text is no such range, or ends before it begins.
    """
    from stormwright.pipeline.streaming.backfill import TimeStretch

    begin, dots, end = text.partition("..")
    if not dots:
        begin = end = text
    start_ms = parse_moment(begin, source) if begin else None
    end_ms = parse_moment(end, source) + _DAY_MS * (len(end) <= _DAY_LENGTH) if end else None
    if start_ms is not None and end_ms is not None and start_ms >= end_ms:
        raise InputError(source, [Fault("ends before it begins", text)])
    return TimeStretch(start_ms, end_ms)


def from_iso(text: str) -> datetime:
    """Return a moment in ISO 8601, in UTC by default; ValueError if the text is none."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def to_ms(moment: datetime) -> int:
    """Return a moment in ms since 1970; ValueError outside of the supported years."""
    try:
        year = moment.astimezone(UTC).year
    except OverflowError:  # a moment at the end of all calendars, in another time zone
        year = moment.year
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        raise ValueError(f"not from {_FIRST_YEAR} to {_LAST_YEAR}")
    return round(moment.timestamp() * 1000)
