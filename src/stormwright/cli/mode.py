"""``stormwright mode``: show or set the automation mode."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.cli.responses import on_anomaly
from stormwright.errors import Fault, InputError
from stormwright.model.humanize import in_utc

if TYPE_CHECKING:
    from stormwright.plans.modes import KindRule

_MODES = ("observe", "suggest", "auto")

#: Key of the modes, as the service names it in a fault → the option that says it.
_OPTIONS = {
    "frozen": "--freeze",
    "frozen_until_ms": "--until",
    "windows": "--window",
    "time_zone": "--time-zone",
    "topologies": "--topology",
    "kinds": "--forbid",
    "responses": "--on",
    "reason": "--reason",
    "by": "--by",
}
_KEY = re.compile(r"\$\.(\w+)")

#: A time from now on, as in 8h.
_SPAN, _SECONDS = re.compile(r"(\d{1,6})([mhd])", re.ASCII), {"m": 60, "h": 3600, "d": 86_400}


@click.command()
@click.argument("default", type=click.Choice(_MODES), required=False, metavar="[observe|suggest|auto]")
@options.service
@options.reason("manual")
@click.option(
    "--topology",
    "topologies",
    multiple=True,
    metavar="PATTERN=MODE|default",
    help="Use another mode for matching topologies; a PATTERN alone for --forbid, --allow and --max-wait.",
)
@click.option(
    "--forbid",
    metavar="KINDS",
    help=f"Forbid kinds of moves of the topologies, separated by commas: {', '.join(options.MOVE_KINDS)}; or default.",
)
@click.option("--allow", metavar="KINDS", help="Allow kinds of moves of the topologies.")
@click.option(
    "--max-wait",
    "max_wait_s",
    type=options.FiniteRange(0, 3600),
    metavar="SECONDS",
    help="Maximum pause of the topologies until their windows are empty.  [initially 120]",
)
@click.option("--freeze", metavar="WHY", help="Stop all moves, also those that people ask for.")
@click.option(
    "--until",
    "until",
    metavar="WHEN",
    help="End of the freeze: 2026-12-31T06:00 (UTC, or with +01:00), or 90m, 8h, 2d from now.",
)
@click.option("--unfreeze", is_flag=True, help="Allow moves again.")
@click.option("--window", "windows", multiple=True, metavar="WINDOW", help="Maintenance window of automatic moves.")
@click.option("--time-zone", metavar="ZONE", help="Time zone of the windows, as in Europe/Berlin.  [initially UTC]")
@click.option("--any-time", is_flag=True, help="Remove the maintenance windows.")
@click.option(
    "--two-people/--one-person", default=None, help="Require that a plan is applied by another person than its author."
)
@on_anomaly
@options.as_json("Print it as JSON.")
def command(
    default: str | None,
    address: str,
    by: str,
    reason: str,
    topologies: tuple[str, ...],
    forbid: str | None,
    allow: str | None,
    max_wait_s: float | None,
    freeze: str | None,
    until: str | None,
    unfreeze: bool,
    windows: tuple[str, ...],
    time_zone: str | None,
    any_time: bool,
    two_people: bool | None,
    responses: dict[str, str],
    as_json: bool,
) -> None:
    """The mode of a running service is observe, suggest or auto. A WINDOW is as in 22:00-04:00 or Mon-Fri 22:00-04:00.
    Settings that are not given stay unchanged.
    """
    _check(freeze, until, unfreeze, windows, any_time)
    of_kinds = [text for text in topologies if "=" not in text]
    topologies = tuple(text for text in topologies if "=" in text)
    change = KindChange.read(of_kinds, forbid, allow, max_wait_s)
    until_ms = moment_ms(until) if until else None
    client = client_of(address, by)
    modes = client.modes()
    update: dict[str, Any] = {
        "default": default,
        "topologies": _topologies(topologies, modes.topologies) if topologies else None,
        "kinds": change.apply(modes.kinds) if change else None,
        "frozen": "" if unfreeze else freeze,
        "time_zone": time_zone,
        "responses": {**{str(kind): each for kind, each in modes.responses.items()}, **responses}
        if responses
        else None,
        "windows": () if any_time else windows or None,
        "two_people": two_people,
    }
    changed = {name: value for name, value in update.items() if value is not None}
    if "frozen" in changed:
        changed["frozen_until_ms"] = until_ms
    if changed:
        with _faults_by_option():
            modes = client.change_modes(modes.model_copy(update=changed), reason)
    if as_json:
        print_json(modes.model_dump(mode="json"))
        return
    ends = f" until {in_utc(modes.frozen_until_ms)}" if modes.frozen_until_ms is not None else ""
    say(f"mode {modes.default}" + (f"; frozen{ends}: {modes.frozen}" if modes.frozen else ""))
    for pattern, mode in modes.topologies.items():
        say(f"{pattern}: {mode}")
    for pattern, rule in modes.kinds.items():
        forbidden = ", ".join(rule.forbid) or "no kind of move"
        say(f"{pattern}: forbids {forbidden}; waits at most {rule.max_wait_s:g} s for windows")
    if modes.windows:
        say(f"moves automatically in {', '.join(modes.windows)} ({modes.time_zone})")
    for kind, response in modes.responses.items():
        say(f"on {kind}: {response}")
    if modes.two_people:
        say("a plan is applied by another person than the one who requested it")
    for warning in modes.warnings:
        say(f"warning: {warning}")


@dataclass(frozen=True)
class KindChange:
    """A change of the permission of kinds of moves.

    Parameters
    ----------
    patterns
        Names or patterns of topologies.
    forbid, allow
        Kinds to forbid and to allow.
    max_wait_s
        New maximum wait for windows; None for no change.
    resets
        Whether the default applies again.
    """

    patterns: tuple[str, ...]
    forbid: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    max_wait_s: float | None = None
    resets: bool = False

    @classmethod
    def read(
        cls, patterns: Sequence[str], forbid: str | None, allow: str | None, max_wait_s: float | None
    ) -> KindChange | None:
        """Return the change that options describe; None without one.

        Parameters
        ----------
        patterns, forbid, allow, max_wait_s
            Values of the options; kinds are separated by commas, and `forbid` may be ``default``.

        Raises
        ------
        InputError
            All faults of the options.
        """
        faults = list[Fault]()
        if (forbid, allow, max_wait_s) == (None, None, None):
            faults += [
                Fault("should be PATTERN=MODE, or be given with --forbid, --allow or --max-wait", p) for p in patterns
            ]
            if faults:
                raise InputError("--topology", faults)
            return None
        if not patterns:
            faults.append(Fault("names topologies, as in --topology 'pay-*'; '*' for all", "--topology"))
        resets = forbid == "default"
        if resets and (allow, max_wait_s) != (None, None):
            faults.append(Fault("contradicts --allow and --max-wait", "--forbid default"))
        lists = []
        for option, text in (("--forbid", None if resets else forbid), ("--allow", allow)):
            kinds = tuple(part.strip() for part in text.split(",")) if text is not None else ()
            wanted = f"should be some of {', '.join(options.MOVE_KINDS)}"
            faults += [Fault(f"{wanted}; got {kind}", option) for kind in kinds if kind not in options.MOVE_KINDS]
            lists.append(kinds)
        faults += [Fault("contradicts --forbid", f"--allow {kind}") for kind in lists[1] if kind in lists[0]]
        if faults:
            raise InputError("mode", faults)
        return cls(tuple(patterns), lists[0], lists[1], max_wait_s, resets)

    def apply(self, rules: Mapping[str, KindRule]) -> dict[str, KindRule]:
        """Return the rules after the change; the one for all topologies is the last, as the first match counts."""
        from stormwright.plans.modes import KindRule, MoveKind

        found = dict(rules)
        for pattern in self.patterns:
            rule = found.get(pattern, KindRule())
            forbidden = {*rule.forbid, *self.forbid} - set(self.allow)
            if self.resets:
                found.pop(pattern, None)
                continue
            found[pattern] = KindRule(
                forbid=tuple(kind for kind in get_args(MoveKind) if kind in forbidden),
                max_wait_s=rule.max_wait_s if self.max_wait_s is None else self.max_wait_s,
            )
        return dict(sorted(found.items(), key=lambda item: item[0] == "*"))


def _check(freeze: str | None, until: str | None, unfreeze: bool, windows: tuple[str, ...], any_time: bool) -> None:
    """Raise for contradictory options, and for a freeze without effect."""
    faults = []
    if freeze is not None and not freeze.strip():
        faults.append(Fault("should say why", "--freeze"))
    if freeze is not None and unfreeze:
        faults.append(Fault("contradicts --unfreeze", "--freeze"))
    if until is not None and freeze is None:
        faults.append(Fault("has no effect without --freeze", "--until"))
    if windows and any_time:
        faults.append(Fault("contradicts --any-time", "--window"))
    if faults:
        raise InputError("mode", faults)


@contextmanager
def _faults_by_option() -> Iterator[None]:
    """Replace field names by option names in faults raised in the block."""
    try:
        yield
    except InputError as error:
        raise InputError(error.source, [_with_option(fault) for fault in error.faults], error.more) from error


def _with_option(fault: Fault) -> Fault:
    key = _KEY.match(fault.path)
    return replace(fault, path=_OPTIONS.get(key[1], fault.path)) if key else fault


def _topologies(texts: tuple[str, ...], known: Mapping[str, str]) -> dict[str, str]:
    found, faults = dict(known), list[Fault]()
    for text in texts:
        pattern, _, mode = text.rpartition("=")
        if not pattern or mode not in (*_MODES, "default"):
            faults.append(Fault(f"should be PATTERN=MODE, MODE one of {', '.join(_MODES)} or default", text))
        elif mode == "default":
            found.pop(pattern, None)
        else:
            found[pattern] = mode
    if faults:
        raise InputError("--topology", faults)
    return found


def moment_ms(texts: str) -> int:
    """Return a future moment in ms since 1970; raise InputError if it is invalid or past."""
    now_s = time.time()
    if found := _SPAN.fullmatch(texts.strip()):
        return round((now_s + int(found[1]) * _SECONDS[found[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(texts.strip())
        at_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        wanted = f"should be as in 2026-12-31T06:00, 90m, 8h or 2d; got {texts}"
        raise InputError("mode", [Fault(wanted, "--until")]) from None
    if at_s <= now_s:
        raise InputError("mode", [Fault(f"is in the past: {texts}", "--until")])
    return round(at_s * 1000)
