"""Moves that are not judged yet, with what was seen before them: written down, so that a restart forgets none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import orjson

from stormwright.history.judged.promise import Promise
from stormwright.history.judged.window import Sample
from stormwright.model import TopologyAssignment, WorkerSlot


@dataclass(frozen=True)
class Moved:
    """One topology that was moved.

    Parameters
    ----------
    decision_ms
        When it was decided, in ms since 1970: the key of the decision in the history.
    topology
        Its id.
    promise
        What was predicted.
    started_ms, ended_ms
        Of the move, in ms since 1970. What was before the one and well after the other is compared.
    before, after
        Where it was and is; None where that is not known, so that it stays there.
    takes_back
        Whether it went back to where it had been: there it stays, whatever comes of it.
    """

    decision_ms: int
    topology: str
    promise: Promise
    started_ms: int
    ended_ms: int
    before: TopologyAssignment | None = None
    after: TopologyAssignment | None = None
    takes_back: bool = False


@dataclass(frozen=True)
class Pending:
    """A move that is not judged yet.

    Parameters
    ----------
    moved
        What was moved.
    before, young
        Windows right before it, and those from when the workers that it stopped were young; oldest first.
    worse
        Why the topology does worse since; None as long as nobody can say so.
    """

    moved: Moved
    before: tuple[Sample, ...]
    young: tuple[Sample, ...]
    worse: str | None = None

    @cached_property
    def encoded(self) -> bytes:
        """As JSON: it never changes, and all that is pending is written down with each move."""
        return orjson.dumps(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which knows no names of parts of a slot."""
        found = asdict(self)
        for name in ("before", "after"):
            placement = getattr(self.moved, name)
            if placement is not None:
                found["moved"][name]["slots"] = [[*slot] for slot in placement.slots]
        return found

    @classmethod
    def of_dict(cls, raw: Mapping[str, Any]) -> Pending:
        """As `as_dict` and JSON leave it.

        Raises
        ------
        KeyError, TypeError
            It is none.
        """
        moved = dict(raw["moved"])
        moved["promise"] = Promise(**moved["promise"])
        for name in ("before", "after"):
            moved[name] = _placement(moved[name])
        before, young = (tuple(Sample(**sample) for sample in raw[name]) for name in ("before", "young"))
        return cls(Moved(**moved), before, young, raw["worse"])


def _placement(raw: Mapping[str, Any] | None) -> TopologyAssignment | None:
    if raw is None:
        return None
    return TopologyAssignment(tuple(WorkerSlot(*slot) for slot in raw["slots"]), tuple(raw["slot_of_executor"]))
