"""What the service tells the outside: one kind of message for programs, functions and web hooks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

#: Kind of an event → what it is.
KINDS: Final = {
    "slow-node": "a node is slow",
    "node-lost": "a node is away",
    "overload": "a node is overloaded",
    "hold": "nothing moves any more",
    "plan": "a plan waits for a person, or has failed",
    "taken-back": "a move was taken back, as a topology did worse",
    "move-failed": "a move failed",
}


@dataclass(frozen=True)
class ServiceEvent:
    """Something that happened, or is over.

    Parameters
    ----------
    kind
        Of `KINDS`.
    subject
        What it is about: a node, a topology, a plan.
    text
        A sentence.
    over
        Whether it is so no longer.
    at_ms
        When.
    """

    kind: str
    subject: str
    text: str
    over: bool = False
    at_ms: int = field(default_factory=lambda: round(time.time() * 1000))

    @property
    def title(self) -> str:
        """A line."""
        return f"stormwright: {self.subject}: {KINDS[self.kind]}" + (", no longer" if self.over else "")
