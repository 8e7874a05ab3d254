"""The steady state of a placement: what rate it sustains, how full everything is, and how long a tuple tree takes.

Called, the package predicts: ``stormwright.predict(problem)``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from stormwright.errors import Fault, InputError

if TYPE_CHECKING:
    from stormwright.model import Assignment, Problem
    from stormwright.predict.prediction import Prediction


class _Predict(ModuleType):
    """A package that answers when it is called: at a prompt `predict` is a question, in code it is a room."""

    def __call__(
        self, problem: Problem, assignment: Assignment | None = None, *, rates: Mapping[str, float] | None = None
    ) -> Prediction:
        """What rate, latency and use of nodes and links a placement will have, and what its bottleneck is.

        Parameters
        ----------
        problem
            With a load, measured under its current placement.
        assignment
            As a scheduler gives it; by default what runs now.
        rates
            Topology id → trees/s at which use and latency are wanted; others have the rate that was measured.

        Raises
        ------
        InputError
            It is no problem, the assignment is of another one, nothing runs and no assignment is given, or a topology
            or rate is wrong.
        """
        from dataclasses import replace

        from stormwright.model import Problem
        from stormwright.model.problem import slots_in
        from stormwright.predict.answer import Assumptions, predict

        if not isinstance(problem, Problem):
            message = f"should be a Problem, as read_problem(FILE) and sketch give it, got {type(problem).__name__}"
            raise InputError("problem", [Fault(message, "$")])
        slots = None if assignment is None else slots_in(problem, assignment)
        return predict(problem, slots, replace(Assumptions.of(problem), rate_tps=rates or {}))


sys.modules[__name__].__class__ = _Predict
