"""Proven bounds: the distance of a placement from the optimum."""

from __future__ import annotations

from typing import Any

from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.arrays import IntArray

#: Objectives with provable bounds. There is no useful bound for latency: a tuple without waiting takes as long as its
#: work under any placement.
OBJECTIVES = ("traffic", "throughput", "nodes")

#: As for the scheduler `optimizer`: throughput, or traffic of a problem without any.
AUTO = "auto"


def proven_objective(problem: Problem, objective: str) -> str:
    """Return the objective to prove: `objective`, one of `OBJECTIVES`, or the one that `AUTO` selects.

    Raises
    ------
    InputError
        There is no such objective.
    """
    if objective not in (*OBJECTIVES, AUTO):
        message = f"should be one of {', '.join((*OBJECTIVES, AUTO))}, got {objective!r}"
        raise InputError("bound", [Fault(message, "objective")])
    if objective != AUTO:
        return objective
    from stormwright.schedulers.templates.by_rates import wanted_of  # brings Numba, which takes a while

    return wanted_of(problem)


def bound_of(
    problem: Problem, slots: IntArray, objective: str, seconds: float, headroom_percent: float
) -> dict[str, Any]:
    """Return the value of a placement, a bound for all placements, and the gap between them, as JSON.

    Parameters
    ----------
    problem
        Problem of any size.
    slots
        A good placement, shape (E,): the better it is, the sooner it is proven optimal.
    objective
        One of `OBJECTIVES`, or `AUTO`.
    seconds
        Time limit of the proof in seconds.
    headroom_percent
        Percent of all nodes and links to keep free, for objective nodes.

    Raises
    ------
    InputError
        There is no such objective or headroom, or a topology's configuration has a wrong weight.
    """
    objective = proven_objective(problem, objective)
    if objective == "traffic":
        from stormwright.optimize.bounds.prove import bound_cost  # brings solvers of SciPy, which takes a while

        return {"objective": objective, **bound_cost(problem, slots, seconds).figures(problem, slots)}
    if not 0 <= headroom_percent <= 99:
        message = f"should be a number from 0 to 99, got {headroom_percent!r}"
        raise InputError("bound", [Fault(message, "headroom_percent")])
    from stormwright.optimize.throughput.start import MeasuredLoad
    from stormwright.schedulers.templates.by_rates import RateGoal, RateSearch
    from stormwright.schedulers.templates.proof_by_rates import proof_by_rates

    load = MeasuredLoad.of(problem)
    search = RateSearch(problem, load, RateGoal(objective, "free", headroom_percent / 100, 0))
    return proof_by_rates(search, slots, seconds)
