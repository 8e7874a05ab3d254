"""What placements of one problem cost, break and are predicted to do: each found once, whoever asks for it."""

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
    """Remembers what was found of each placement (slot of every executor, -1 for none, shape (E,)).

    Parameters
    ----------
    problem
        What runs now, under the load measured last.
    assumptions
        What predictions take for given; None for their own defaults.
    """

    def __init__(self, problem: Problem, assumptions: Assumptions | None = None) -> None:
        self.problem, self.assumptions = problem, assumptions
        self._costs: dict[bytes, Cost] = {}
        self._broken: dict[bytes, list[Violation]] = {}
        self._predicted: dict[bytes, Prediction] = {}

    @cached_property
    def profile(self) -> Profile | None:
        """Of what runs; None where nothing does."""
        return Profile.of(self.problem) if (self.problem.current_slot != UNPLACED).any() else None

    @property
    def rate_tps(self) -> dict[str, float]:
        """Topology id → trees/s as measured; of none where nothing runs."""
        if self.profile is None:
            return {}
        return {t.id: rate for t, rate in zip(self.problem.topologies, self.profile.rate_tps.tolist(), strict=True)}

    def cost(self, slots: IntArray) -> Cost:
        """What a placement costs in traffic."""
        return _once(self._costs, slots, lambda: cost_of(self.problem, slots))

    def broken(self, slots: IntArray) -> list[Violation]:
        """Limits that a placement breaks."""
        return _once(self._broken, slots, lambda: broken_limits(self.problem, slots))

    def predicted(self, slots: IntArray) -> Prediction:
        """What is predicted of a placement; it raises what `predict` raises."""
        return _once(self._predicted, slots, lambda: predict(self.problem, slots, self.assumptions, self.profile))


def _once(known: dict[bytes, _T], slots: IntArray, find: Callable[[], _T]) -> _T:
    key = slots.tobytes()
    if key not in known:
        known[key] = find()
    return known[key]
