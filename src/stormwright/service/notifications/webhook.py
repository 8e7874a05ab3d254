"""Web hooks in the formats of Slack, Teams and Alertmanager, or plain JSON.

Addresses are secrets, as anyone who knows one may write there: nothing here, and nothing that it raises, shows more of
one than its host.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from stormwright.errors import Fault, HookError, InputError
from stormwright.service.notifications.hook_program import load_program
from stormwright.service.notifications.notifier import KINDS, RefusedError, ServiceEvent, Target

# Webhook ------------------------------------------------------------------------------------------

#: Seconds that a call may take.
LIMIT_S = 10.0

#: Answers after which the same would be refused again.
_FOR_GOOD = range(400, 500)
_TRY_AGAIN = (408, 425, 429)


def as_json(event: ServiceEvent) -> Any:
    """Return the event as plain JSON."""
    return asdict(event) | {"title": event.title}


def for_slack(event: ServiceEvent) -> Any:
    """An incoming web hook's payload (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks)."""
    message = f"*{event.title}*\n{event.text}"
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        message = message.replace(sign, name)
    return {"text": message}


def for_teams(event: ServiceEvent) -> Any:
    """A message with an adaptive card (https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors)."""
    blocks = [{"type": "TextBlock", "text": event.title, "weight": "Bolder", "wrap": True}]
    blocks.append({"type": "TextBlock", "text": event.text, "wrap": True})
    card = {"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4"}
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card | {"body": blocks}}
    return {"type": "message", "attachments": [content]}


def for_alertmanager(event: ServiceEvent) -> Any:
    """Alerts of its API (https://prometheus.io/docs/alerting/latest/clients/); one that is over is resolved."""
    name = "Stormwright" + "".join(part.capitalize() for part in event.kind.split("-"))
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat()
    labels = {"alertname": name, "kind": event.kind, "subject": event.subject, "severity": "warning"}
    alert = {"labels": labels, "annotations": {"summary": event.title, "description": event.text}}
    # Without the end of what goes on it resolves itself after its resolve_timeout.
    return [alert | ({"endsAt": at} if event.over else {"startsAt": at})]


#: Format → what makes the body.
FORMATS: Final[Mapping[str, Callable[[ServiceEvent], Any]]] = {
    "slack": for_slack,
    "teams": for_teams,
    "alertmanager": for_alertmanager,
    "json": as_json,
}

_ALERTS = "/api/v2/alerts"


@dataclass(frozen=True)
class WebHook:
    """Sends events to an address.

    Parameters
    ----------
    form
        Message format of the receiver, a key of `FORMATS`.
    url
        With ``http`` or ``https``; of an Alertmanager also without its path.
    """

    form: str
    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        """Return the address without secrets."""
        return f"{self.form} at {urlsplit(self.url).hostname}"

    def __call__(self, event: ServiceEvent) -> None:
        """Send one; HookError where that fails, RefusedError where it would again."""
        parts = urlsplit(self.url)
        path = parts.path or "/"
        if self.form == "alertmanager" and not path.endswith(_ALERTS):
            path = path.rstrip("/") + _ALERTS
        connection: HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=LIMIT_S, context=context)
        else:
            connection = HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT_S)
        body = orjson.dumps(FORMATS[self.form](event))
        try:
            where = f"{path}?{parts.query}" if parts.query else path
            connection.request("POST", where, body, {"Content-Type": "application/json"})
            status = connection.getresponse().status
        except (OSError, HTTPException) as error:
            raise HookError(f"cannot be reached: {getattr(error, 'strerror', None) or type(error).__name__}") from None
        finally:
            connection.close()
        if status in _FOR_GOOD and status not in _TRY_AGAIN:
            raise RefusedError(f"answers {status}: is the address right?")
        if not 200 <= status < 300:
            raise HookError(f"answers {status}")


# Targets ------------------------------------------------------------------------------------------
# What ``--notify`` says: which events go where.

#: All kinds of events.
ALL = "all"

#: What runs a program, or a Python function in a process of its own.
_RUN = ("program", "python")

_SHAPE = f"should be EVENTS={'|'.join((*FORMATS, *_RUN))}:WHERE"


def places(message: Sequence[str]) -> tuple[Target, ...]:
    """Return the notification targets of ``--notify``.

    Parameters
    ----------
    message
        As ``all=slack:https://…``, ``slow-node,plan=program:/opt/bin/page`` or ``hold=json:@FILE``, where FILE holds
        the address.

    Raises
    ------
    InputError
        What of it is wrong; all faults at once, by number: addresses are secrets.
    """
    found, faults = [], list[Fault]()
    for number, text in enumerate(message, start=1):
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
    """Return an address, or the one in a file."""
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
