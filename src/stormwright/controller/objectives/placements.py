"""Cached costs, violations and predictions of placements of one problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from stormwright.model import UNPLACED, Cost, Problem, cost_of
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import Violation
from stormwright.model.constraints.violations import broken_limits
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.flow.profile import Profile
from stormwright.predict.prediction import Prediction

_T = TypeVar("_T")


class Placements:
    """Cache of results per placement (slot of every executor, -1 for none, shape (E,)).

    Parameters
    ----------
    problem
        Current problem with the newest load.
    assumptions
        Assumptions of predictions; None for defaults.
    """

    def __init__(self, problem: Problem, assumptions: Assumptions | None = None) -> None:
        self.problem, self.assumptions = problem, assumptions
        self._costs: dict[bytes, Cost] = {}
        self._broken: dict[bytes, list[Violation]] = {}
        self._predicted: dict[bytes, Prediction] = {}

    @cached_property
    def profile(self) -> Profile | None:
        """Profile of the running topologies; None if nothing runs."""
        return Profile.of(self.problem) if (self.problem.current_slot != UNPLACED).any() else None

    @property
    def rate_tps(self) -> dict[str, float]:
        """Measured trees/s per topology id; empty if nothing runs."""
        if self.profile is None:
            return {}
        return {t.id: rate for t, rate in zip(self.problem.topologies, self.profile.rate_tps.tolist(), strict=True)}

    def cost(self, slots: IntArray) -> Cost:
        """Return the traffic cost of a placement."""
        return _once(self._costs, slots, lambda: cost_of(self.problem, slots))

    def broken(self, slots: IntArray) -> list[Violation]:
        """Return the constraints that a placement violates."""
        return _once(self._broken, slots, lambda: broken_limits(self.problem, slots))

    def predicted(self, slots: IntArray) -> Prediction:
        """Return the prediction of a placement; errors of `predict` are passed on."""
        return _once(self._predicted, slots, lambda: predict(self.problem, slots, self.assumptions, self.profile))


def _once(known: dict[bytes, _T], slots: IntArray, find: Callable[[], _T]) -> _T:
    key = slots.tobytes()
    if key not in known:
        known[key] = find()
    return known[key]
