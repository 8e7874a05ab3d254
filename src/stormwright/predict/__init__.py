"""Steady-state prediction of a placement: sustainable rates, utilisation and latency.

The package is callable: ``stormwright.predict(problem)``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from stormwright.model import Assignment, Problem
    from stormwright.predict.calibration.document import StoredCosts
    from stormwright.predict.prediction import Prediction


class CallablePredict(ModuleType):
    """Type of this package; a function `stormwright.predict` would hide the package."""

    def __call__(
        self,
        problem: Problem,
        assignment: Assignment | None = None,
        *,
        rates: Mapping[str, float] | None = None,
        costs: str | Path | Mapping[str, Any] | StoredCosts | None = None,
    ) -> Prediction:
        """Predict the rates, latencies, utilisation and bottleneck of a placement.

        Parameters
        ----------
        problem
            A problem with a load, measured under its current placement.
        assignment
            Result of a scheduler; the current placement by default.
        rates
            Topology id → trees/s at which utilisation and latency are predicted; the measured rate for others.
        costs
            Costs of messages and workers: a file that `stormwright calibrate` wrote, or its content; by default those
            of the problem's load, else those measured elsewhere.

        Raises
        ------
        InputError
            `problem` is not a problem, the assignment belongs to another one, nothing runs and no assignment is given,
            a topology or rate is invalid, or `costs` are no costs.
        """
        from dataclasses import replace

        from stormwright.model.answer import slots_in
        from stormwright.model.problem import require_problem
        from stormwright.predict.answer import Assumptions, predict
        from stormwright.predict.calibration.document import stored_costs

        require_problem(problem)
        slots = None if assignment is None else slots_in(problem, assignment)
        assumed = Assumptions.of(problem) if costs is None else Assumptions(*stored_costs(costs))
        return predict(problem, slots, replace(assumed, rate_tps=rates or {}))


sys.modules[__name__].__class__ = CallablePredict
