"""Modes: permissions of the service, by topology and kind of anomaly."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

#: Automation mode: ``observe`` (report what would move), ``suggest`` (propose plans that a person applies), ``auto``
#: (apply them).
Mode = Literal["observe", "suggest", "auto"]

#: Kind of an anomaly, and the response to it: ``fix`` (as far as the mode allows), ``check`` (report), ``ignore``.
AnomalyKind = Literal["slow-node", "node-lost", "overload", "drift"]
Response = Literal["fix", "check", "ignore"]


class RequestShape(BaseModel):
    """Base of requests of the API: unknown keys are faults, and no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


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
    version: int = 0
    warnings: tuple[str, ...] = ()
