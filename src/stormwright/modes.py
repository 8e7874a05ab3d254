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
