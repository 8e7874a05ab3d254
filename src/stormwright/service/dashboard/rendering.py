"""Rendering of pages: templates, number formats, HTTP headers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import TYPE_CHECKING
from urllib.parse import quote

from stormwright import __version__
from stormwright.base.clock import WALL
from stormwright.errors import MissingDependencyError
from stormwright.model.humanize import counted, duration, in_utc, readable
from stormwright.service.auth.roles import Visitor, allowed
from stormwright.service.dashboard.node_cells import meter
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.views.page import Page

if TYPE_CHECKING:
    from jinja2 import Environment

#: Path → what the navigation calls it.
NAVIGATION = {
    "/": "Overview",
    "/cluster": "Cluster",
    "/topologies": "Topologies",
    "/traffic": "Traffic",
    "/timeline": "Timeline",
    "/plans": "Plans",
    "/history": "History",
    "/try": "Try",
}

#: Nothing comes from elsewhere, nothing is written into a page that runs or styles, and no other page frames this one.
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}

#: Name of an asset → its type.
ASSETS = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}


@cache
def asset(name: str) -> bytes:
    """The content of an asset."""
    return (files("stormwright.service.dashboard") / "assets" / name).read_bytes()


@cache
def asset_path(name: str) -> str:
    """Where a page finds it: another content has another path, so browsers may keep it."""
    return f"/assets/{name}?{hashlib.sha256(asset(name)).hexdigest()[:12]}"


def written(page: Page, known: DashboardState, visitor: Visitor | None = None) -> str:
    """A page as HTML, for a visitor."""
    modes, status, scene = known.modes(), known.status(), known.scene()
    facts = {
        "mode": modes.default if modes and status else None,
        "scheduler": status.scheduler if status else None,
        "nimbus_age_s": known.sources.age_s() if status and scene else None,
        "load_age_s": status.pipeline.get("profile_age_s") if status else None,
        "name": scene.problem.name if scene and not status else None,
        "served": status is not None,
        "virtual_ms": None if known.sources.clock is WALL else round(known.sources.clock.time() * 1000),
    }
    return _rendered(page, facts, NAVIGATION, visitor)


def written_outside(page: Page) -> str:
    """Return a page as HTML for an unauthenticated visitor, without any data."""
    unknown = dict.fromkeys(("mode", "scheduler", "nimbus_age_s", "load_age_s", "name", "virtual_ms"))
    return _rendered(page, unknown | {"served": False}, {}, None)


def _rendered(page: Page, facts: Mapping[str, object], navigation: Mapping[str, str], visitor: Visitor | None) -> str:
    template = _environment().get_template(f"{page.template}.html.j2")
    content = {"page": page, "facts": facts, "navigation": navigation, "visitor": visitor, "version": __version__}
    return template.render(may=lambda path: may(visitor, path), **content, **page.shows)


def may(visitor: Visitor | None, path: str) -> bool:
    """Return whether a visitor may submit a form to a path."""
    roles = allowed("POST", path)
    return visitor is None or roles is None or visitor.role in roles


#: Kind of an entry of the history → for people.
_KINDS = {"person": "plan", "service": "automatic", "rollback": "moved back"}


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingDependencyError("the dashboard needs jinja2: pip install 'stormwright[service]'") from error
    loader = PackageLoader("stormwright.service.dashboard", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "number": number,
        "percent": percent,
        "factor": factor,
        "span": span,
        "moment": in_utc,
        "clock": _clock,
        "counted": counted,
        "kind": lambda kind: _KINDS.get(kind, kind),
        "quoted": lambda text: quote(text, safe=""),
        "cores": lambda value, core_hz: readable(value / core_hz),
        "mb": lambda value: f"{value:,.0f} MB",
    }
    made.globals |= {"asset": asset_path, "meter": meter}
    return made


def number(value: float | None) -> str:
    """With separators, and as many digits as matter."""
    if value is None or not isfinite(value):
        return "–"
    return readable(value)


def percent(part: float | None) -> str:
    """A part in percent."""
    return "–" if part is None or not isfinite(part) else f"{100 * part:.0f} %"


def factor(value: float | None) -> str:
    """A multiple."""
    return "–" if value is None or not isfinite(value) else f"× {value:.2f}"


def span(seconds: float | None) -> str:
    """A time in the unit that people would say it in."""
    if seconds is None or not isfinite(seconds):
        return "–"
    return duration(seconds)


def _clock(at_ms: int) -> str:
    """The day only where it is not today, as `in_utc` else has it."""
    moment, now = datetime.fromtimestamp(at_ms / 1000, UTC), datetime.now(UTC)
    return moment.strftime("%H:%M UTC" if moment.date() == now.date() else "%Y-%m-%d %H:%M UTC")
