"""A problem as a search sees it: with fixed or placement-dependent traffic."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.model import UNPLACED, Problem, Traffic, measured_traffic, traffic_under
from stormwright.model.arrays import IntArray
from stormwright.optimize.layout.links import Links
from stormwright.optimize.search.dense import MAX_DENSE


@dataclass(frozen=True)
class Task:
    """A problem with its traffic: `fixed`, or dependent on the placement."""

    problem: Problem
    links: Links
    fixed: Traffic | None

    @classmethod
    def of(cls, problem: Problem, follow_flows: bool) -> Task:
        if follow_flows and any(len(load.flow_source) for load in problem.loads):
            return cls(problem, Links.following(problem), None)
        fixed = measured_traffic(problem)
        return cls(problem, Links.fixed(problem, fixed), fixed)

    @property
    def runs(self) -> bool:
        """Whether anything runs now."""
        return bool(np.any(self.problem.current_slot != UNPLACED))

    @property
    def runs_whole(self) -> bool:
        """Whether every executor has a slot."""
        return bool(np.all(self.problem.current_slot != UNPLACED))

    @property
    def begins_small(self) -> bool:
        """Whether nothing runs yet, and the problem is small enough to feed the answer back."""
        return not self.runs and self.problem.num_executors <= MAX_DENSE

    def traffic(self, slots: IntArray) -> Traffic:
        """Return the traffic of a placement; cached for the last few."""
        if self.fixed is not None:
            return self.fixed
        for known, traffic in self._known:
            if np.array_equal(known, slots):
                return traffic
        self._known.append((slots, traffic_under(self.problem, slots)))
        return self._known[-1][1]

    @cached_property
    def _known(self) -> deque[tuple[IntArray, Traffic]]:
        return deque(maxlen=3)
