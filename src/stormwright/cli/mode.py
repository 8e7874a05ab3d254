"""``stormwright mode``: what the service does by itself."""

from __future__ import annotations

from collections.abc import Mapping

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.errors import Fault, InputError

_MODES = ("observe", "suggest", "auto")


@click.command()
@click.argument("default", type=click.Choice(_MODES), required=False, metavar="[observe|suggest|auto]")
@options.service
@options.reason("said by hand")
@click.option("--topology", "topologies", multiple=True, metavar="PATTERN=MODE|default", help="Another one for some.")
@click.option("--freeze", metavar="WHY", help="Nothing moves at all, whoever asks.")
@click.option("--unfreeze", is_flag=True, help="Things may move again.")
@click.option("--window", "windows", multiple=True, metavar="WINDOW", help="When it moves things by itself, in UTC.")
@click.option("--any-time", is_flag=True, help="Without windows.")
@click.option("--two-people/--one-person", default=None, help="Who applies a plan is not who asked for it.")
@options.as_json("Print it as JSON.")
def command(
    default: str | None,
    address: str,
    by: str,
    reason: str,
    topologies: tuple[str, ...],
    freeze: str | None,
    unfreeze: bool,
    windows: tuple[str, ...],
    any_time: bool,
    two_people: bool | None,
    as_json: bool,
) -> None:
    """Show or say what a running service does by itself: tell what would move, make plans that a person applies, or
    move.

    A WINDOW is as in 22:00-04:00 or Mon-Fri 22:00-04:00. What is not named stays as it is.
    """
    _check(freeze, unfreeze, windows, any_time)
    client = client_of(address, by)
    modes = client.modes()
    update = {
        "default": default,
        "topologies": _topologies(topologies, modes.topologies) if topologies else None,
        "frozen": "" if unfreeze else freeze,
        "windows": () if any_time else windows or None,
        "two_people": two_people,
    }
    changed = {name: value for name, value in update.items() if value is not None}
    if changed:
        modes = client.change_modes(modes.model_copy(update=changed), reason)
    if as_json:
        print_json(modes.model_dump(mode="json"))
        return
    say(f"mode {modes.default}" + (f"; frozen: {modes.frozen}" if modes.frozen else ""))
    for pattern, mode in modes.topologies.items():
        say(f"{pattern}: {mode}")
    if modes.windows:
        say(f"moves things by itself in {', '.join(modes.windows)} (UTC)")
    if modes.two_people:
        say("who applies a plan is not who asked for it")


def _check(freeze: str | None, unfreeze: bool, windows: tuple[str, ...], any_time: bool) -> None:
    """Refuse what would not freeze although it says so, and what contradicts itself."""
    faults = []
    if freeze is not None and not freeze.strip():
        faults.append(Fault("should say why", "--freeze"))
    if freeze is not None and unfreeze:
        faults.append(Fault("has no effect: --unfreeze says the opposite", "--freeze"))
    if windows and any_time:
        faults.append(Fault("has no effect: --any-time says the opposite", "--window"))
    if faults:
        raise InputError("mode", faults)


def _topologies(told: tuple[str, ...], known: Mapping[str, str]) -> dict[str, str]:
    found, faults = dict(known), list[Fault]()
    for text in told:
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
