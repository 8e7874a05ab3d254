"""Roles, and the requests that each may make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

#: A viewer reads. An operator also makes, applies and reverts plans, and says modes; an approver reads, and applies,
#: stops, resumes or discards what others have planned. A bridge asks for placements as Nimbus does, and delivers; a
#: probe delivers and nothing else: workers run what users of the cluster wrote.
Role = Literal["viewer", "operator", "approver", "bridge", "probe"]
Roles = frozenset[Role]

_READ: Roles = frozenset({"viewer", "operator", "approver"})
_APPROVE: Roles = frozenset({"operator", "approver"})
_CHANGE: Roles = frozenset({"operator"})

#: Who may deliver.
DELIVER: Roles = frozenset({"bridge", "probe"})

#: Where Nimbus asks and probes deliver → who may.
BRIDGE_PATHS: Mapping[str, Roles] = {"/v1/schedule": frozenset({"bridge"}), "/v1/perflog": DELIVER}

#: What anybody may see: whether somebody is there at all, and the page that asks for a token with what it looks like.
LOGIN, HEALTH, LOGOUT = "/login", "/v1/health", "/logout"
_OPEN = frozenset({LOGIN, HEALTH})
_ASSETS = re.compile(r"/assets/[^/]+")

#: What is done with a plan that there is already. Modes are here as an approver ends the rule of two people.
_APPROVED = re.compile(r"(/v1)?/plans/[^/]+/(apply|stop|resume|discard)|/v1/modes")


@dataclass(frozen=True)
class Visitor:
    """An authenticated user.

    Parameters
    ----------
    name, role
        Of the token, or of the certificate.
    form_key
        What forms of this visitor's pages have to send back; empty for programs.
    """

    name: str
    role: Role
    form_key: str = ""


def allowed(method: str, path: str) -> Roles | None:
    """Return the roles that may make a request; None if it needs no authentication.

    What is not listed is a reading where nothing is sent, and else a change: a new path is never open by mistake.
    """
    if path in BRIDGE_PATHS:
        return BRIDGE_PATHS[path]
    if path in _OPEN or (method in ("GET", "HEAD") and _ASSETS.fullmatch(path)):
        return None
    if method in ("GET", "HEAD") or path == LOGOUT:
        return _READ
    return _APPROVE if _APPROVED.fullmatch(path) else _CHANGE


def role_of(text: str) -> Role:
    """A role by its name.

    Raises
    ------
    ValueError
        There is none of that name.
    """
    for role in get_args(Role):
        if role == text:
            found: Role = role
            return found
    raise ValueError(f"should be one of {', '.join(get_args(Role))}; got {text!r}")
