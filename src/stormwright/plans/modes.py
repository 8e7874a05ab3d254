"""Modes: permissions of the service to move topologies, their times, and responses to anomalies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field

from stormwright.errors import Fault, InputError, suggestion_for

#: Automation mode: ``observe`` (report what would move), ``suggest`` (propose plans that a person applies), ``auto``
#: (apply them).
Mode = Literal["observe", "suggest", "auto"]

#: Kind of an anomaly, and the response to it: ``fix`` (as far as the mode allows), ``check`` (report), ``ignore``.
AnomalyKind = Literal["slow-node", "node-lost", "overload", "drift", "capacity"]
Response = Literal["fix", "check", "ignore"]


#: How a topology is moved: ``drain`` (all tuple trees are acked first), ``checkpoint`` (stateful bolts: a checkpoint is
#: completed first), ``window`` (windows end first, or are replayed), ``batch`` (Trident: between two batches),
#: ``replay`` (tuples are replayed or lost), ``never`` (state would be lost).
MoveKind = Literal["drain", "checkpoint", "window", "batch", "replay", "never"]


class RequestShape(BaseModel):
    """Base of requests of the API: unknown keys are faults, and no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class KindRule(RequestShape):
    """Permission of kinds of moves.

    Parameters
    ----------
    forbid
        Kinds of moves that are forbidden. Without ``replay``, windows that do not end within `max_wait_s` are replayed.
    max_wait_s
        Maximum time for which spouts are paused until windows end, in seconds.
    """

    forbid: tuple[MoveKind, ...] = ("replay", "never")
    max_wait_s: Annotated[float, Field(ge=0, le=3600)] = 120.0


class Modes(RequestShape):
    """Permissions of the service: which topologies it moves, and which anomalies it fixes.

    Parameters
    ----------
    default
        Mode of topologies that `topologies` does not mention.
    topologies
        Mode by name of a topology, or by a pattern with ``*``; the first match counts.
    frozen
        Reason why nothing moves at all, also by people; empty if not frozen.
    frozen_until_ms
        End of the freeze in ms since 1970; None until a person ends it.
    windows, time_zone
        Maintenance windows for automatic moves, as ``Mon-Fri 22:00-04:00`` in a time zone such as ``Europe/Berlin``;
        at any time if empty.
    two_people
        Whether a plan must be applied by another person than its author.
    responses
        Response by kind of anomaly, if not the default one.
    kinds
        Permission of kinds of moves by name of a topology, or by a pattern with ``*``; the first match counts. It
        applies to all moves; topologies without a match have the default one, which a plan of a person may relax.
    version
        Increases with each change. A change with an outdated version is refused; one without a version overrides
        earlier changes.
    warnings
        Names and patterns that match no running topology, in responses. Ignored in requests, so that a response can be
        sent back.
    """

    default: Mode = "observe"
    topologies: dict[str, Mode] = Field(default_factory=dict)
    frozen: str = ""
    frozen_until_ms: Annotated[int, Field(ge=0, le=253_402_300_799_999)] | None = None
    windows: tuple[str, ...] = ()
    time_zone: Annotated[str, Field(max_length=100)] = "UTC"
    two_people: bool = False
    responses: dict[AnomalyKind, Response] = Field(default_factory=dict)
    kinds: dict[str, KindRule] = Field(default_factory=dict)
    version: int = 0
    warnings: tuple[str, ...] = ()


#: Modes from the most restrictive to the most permissive.
OBSERVE: Final = "observe"
SUGGEST: Final = "suggest"
AUTO: Final = "auto"
RANKS: Final[tuple[Mode, ...]] = (OBSERVE, SUGGEST, AUTO)

#: Responses to an anomaly: act as far as the mode allows, notify, ignore.
FIX: Final = "fix"
CHECK: Final = "check"
IGNORE: Final = "ignore"

#: Default response by kind of anomaly.
RESPONSES: Final[Mapping[AnomalyKind, Response]] = {
    "slow-node": CHECK,
    "node-lost": CHECK,
    "overload": FIX,
    "drift": FIX,
    "capacity": CHECK,
}

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))? +)?(?P<from>\d\d:\d\d)-(?P<to>\d\d:\d\d)", re.IGNORECASE
)

_MINUTES = 1440


@dataclass(frozen=True)
class _Window:
    """Minutes of a day on some weekdays; a window that ends before it begins ends on the next day."""

    days: frozenset[int]
    from_min: int
    to_min: int

    def holds(self, moment: datetime) -> bool:
        """Return whether a moment is in the window."""
        minute, day = moment.hour * 60 + moment.minute, moment.weekday()
        if self.from_min < self.to_min:
            return day in self.days and self.from_min <= minute < self.to_min
        began_today = day in self.days and minute >= self.from_min
        return began_today or ((day - 1) % 7 in self.days and minute < self.to_min)


def windows_of(modes: Modes) -> list[_Window]:
    """Return the maintenance windows.

    Raises
    ------
    InputError
        Invalid windows or time zone; all faults, each with its path.
    """
    faults: list[Fault] = []
    _zone(modes, faults)
    found = [_window(text, f"$.windows[{number}]", faults) for number, text in enumerate(modes.windows)]
    if faults:
        raise InputError("modes", faults)
    return [window for window in found if window]


def mode_of(modes: Modes, topology: str, name: str) -> Mode:
    """Return the mode of a topology by its id and name."""
    for pattern, mode in modes.topologies.items():
        if fnmatchcase(name, pattern) or fnmatchcase(topology, pattern):
            return mode
    return modes.default


def unmatched_patterns(modes: Modes, topologies: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return warnings about names and patterns that match no topology (of a future one no fault).

    Parameters
    ----------
    modes
        Modes whose names and patterns of topologies are checked.
    topologies
        Id and name of each existing topology.
    """
    names = [name for _, name in topologies]
    return tuple(
        f"{pattern} matches no running topology, so its mode has no effect yet{suggestion_for(pattern, names)}"
        for pattern in {**modes.topologies, **modes.kinds}
        if not any(fnmatchcase(each, pattern) for known in topologies for each in known)
    )


def response_to(modes: Modes, kind: AnomalyKind) -> Response:
    """Return the response to anomalies of a kind."""
    return modes.responses.get(kind, RESPONSES[kind])


def closed_reason(modes: Modes, now_s: float) -> str:
    """Return why the service may not move anything automatically now; empty if it may."""
    if modes.frozen:
        return f"frozen: {modes.frozen}"
    moment = datetime.fromtimestamp(now_s, _zone(modes, []))
    windows = windows_of(modes)
    if windows and not any(window.holds(moment) for window in windows):
        return f"outside of {', '.join(modes.windows)} ({modes.time_zone})"
    return ""


def strongest(modes: Modes, topologies: Iterable[tuple[str, str]]) -> Mode:
    """Return the most permissive mode of some topologies, given by id and name."""
    found = [mode_of(modes, *each) for each in topologies] or [modes.default]
    return max(found, key=RANKS.index)


def staying(modes: Modes, topologies: Iterable[tuple[str, str]], proposed: Mapping[str, str]) -> dict[str, str]:
    """Return topologies (ids) that the service does not decide about now, with the reason.

    If all are in observe mode, all are evaluated, and the moves are only reported.

    Parameters
    ----------
    modes
        Modes that determine which topologies are only observed.
    topologies
        Ids and names of the topologies.
    proposed
        Pending plan by topology (id).
    """
    known = list(topologies)
    if strongest(modes, known) == OBSERVE:
        return {}
    observed = {t: "its mode is observe" for t, name in known if mode_of(modes, t, name) == OBSERVE}
    return {**observed, **{topology: f"plan {plan} waits for a person" for topology, plan in proposed.items()}}


def without_expired_freeze(modes: Modes, now_s: float) -> Modes:
    """Return the modes without an expired freeze."""
    if modes.frozen_until_ms is None or 1000 * now_s < modes.frozen_until_ms:
        return modes
    return modes.model_copy(update={"frozen": "", "frozen_until_ms": None})


def _zone(modes: Modes, faults: list[Fault]) -> tzinfo:
    if modes.time_zone == "UTC":
        return UTC
    try:
        return ZoneInfo(modes.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        faults.append(Fault(f"should be a time zone as in Europe/Berlin; got {modes.time_zone}", "$.time_zone"))
        return UTC


def _window(text: str, path: str, faults: list[Fault]) -> _Window | None:
    match = _WINDOW.fullmatch(text.strip())
    first, last = (match["first"] or "mon", match["last"]) if match else ("", None)
    # Without days it is every day; a day alone is that day.
    last = (last or (first if match["first"] else "sun")) if match else ""
    begin, end = (_minute(match[side]) for side in ("from", "to")) if match else (None, None)
    if begin is None or end is None or {first.lower(), last.lower()} - set(_DAYS):
        faults.append(Fault(f"should be as in 22:00-04:00 or Mon-Fri 22:00-04:00; got {text}", path))
        return None
    one, other = _DAYS.index(first.lower()), _DAYS.index(last.lower())
    days = frozenset((one + day) % 7 for day in range((other - one) % 7 + 1))
    return _Window(days, begin % _MINUTES, end)


def _minute(text: str) -> int | None:
    hours, minutes = map(int, text.split(":"))
    total = 60 * hours + minutes
    return total if minutes < 60 and total <= _MINUTES else None
