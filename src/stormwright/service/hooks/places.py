"""What ``--notify`` says: which events go where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from stormwright.errors import Fault, InputError
from stormwright.service.hooks.event import KINDS, ServiceEvent
from stormwright.service.hooks.hook_program import load_program
from stormwright.service.hooks.notifier import Target
from stormwright.service.hooks.webhook import FORMATS, WebHook

#: All kinds of events.
ALL = "all"

#: What runs a program, or a Python function in a process of its own.
_RUN = ("program", "python")

_SHAPE = f"should be EVENTS={'|'.join((*FORMATS, *_RUN))}:WHERE"


def places(told: Sequence[str]) -> tuple[Target, ...]:
    """Who is told of which events.

    Parameters
    ----------
    told
        As ``all=slack:https://…``, ``slow-node,plan=program:/opt/bin/page`` or ``hold=json:@FILE``, where FILE holds
        the address.

    Raises
    ------
    InputError
        What of it is wrong; all faults at once, by number: addresses are secrets.
    """
    found, faults = [], list[Fault]()
    for number, text in enumerate(told, start=1):
        try:
            found.append(_target(text))
        except InputError as error:
            faults += [Fault(fault.message, f"number {number}") for fault in error.faults]
    if faults:
        raise InputError("--notify", faults)
    return tuple(found)


def _target(text: str) -> Target:
    events, _, place = text.partition("=")
    form, _, where = place.partition(":")
    kinds = frozenset(KINDS) if events == ALL else frozenset(filter(None, map(str.strip, events.split(","))))
    wrong = []
    if form not in (*FORMATS, *_RUN) or not where:
        wrong.append(Fault(_SHAPE, text))
    elif unknown := sorted(kinds - KINDS.keys()):
        wrong.append(Fault(f"there is no event {', '.join(unknown)}: there is {ALL}, {', '.join(KINDS)}", text))
    elif not kinds:
        wrong.append(Fault(_SHAPE, text))
    if wrong:
        raise InputError("--notify", wrong)
    if form in _RUN:
        run = load_program(where, form == "python")
        return Target(kinds, f"{form} {where}", lambda event: run(_document(event)))
    hook = WebHook(form, _address(where))
    return Target(kinds, hook.shown, hook)


def _document(event: ServiceEvent) -> bytes:
    return orjson.dumps(asdict(event)) + b"\n"


def _address(where: str) -> str:
    """An address that is told, or the one that a file holds."""
    if where.startswith("@"):
        try:
            where = Path(where[1:]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "is no text in UTF-8"
            raise InputError("--notify", [Fault(f"{where[1:]} cannot be read: {why}", where)]) from None
    try:
        parts = urlsplit(where)
        right = parts.scheme in ("http", "https") and parts.hostname and where.isascii() and parts.port != 0
    except ValueError:
        right = False
    if not right or any(sign.isspace() or not sign.isprintable() for sign in where):
        raise InputError("--notify", [Fault("its address should begin with https:// or http://", "")])
    return where
