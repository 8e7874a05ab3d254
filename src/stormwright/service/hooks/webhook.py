"""Web hooks: an event in the form that Slack, Teams or Alertmanager takes, or as it is.

Addresses are secrets, as whoever knows one may write there: nothing here, and nothing that it raises, tells more of one
than its host.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from stormwright.errors import HookError
from stormwright.service.hooks.event import ServiceEvent

#: Seconds that a call may take.
LIMIT_S = 10.0

#: Answers after which the same would be refused again.
_FOR_GOOD = range(400, 500)
_TRY_AGAIN = (408, 425, 429)


class RefusedError(HookError):
    """It would be refused again."""


def as_json(event: ServiceEvent) -> Any:
    """As it is."""
    return asdict(event) | {"title": event.title}


def for_slack(event: ServiceEvent) -> Any:
    """An incoming web hook's payload (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks)."""
    told = f"*{event.title}*\n{event.text}"
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        told = told.replace(sign, name)
    return {"text": told}


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
        Of `FORMATS`.
    url
        With ``http`` or ``https``; of an Alertmanager also without its path.
    """

    form: str
    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        """What may be told of it."""
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
