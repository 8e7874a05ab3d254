"""The interface of schedulers."""

from __future__ import annotations

from typing import Protocol

from stormwright.model.answer import Assignment
from stormwright.model.problem import Problem


class Scheduler(Protocol):
    """A placement policy: pure, deterministic for its parameters, without I/O or clock."""

    def schedule(self, problem: Problem) -> Assignment:
        """Place every executor of `problem`, or give the reasons why not."""
        ...
