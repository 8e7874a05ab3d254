"""Questions in one call, for people at a prompt or in a notebook: `import stormwright as sw`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stormwright.defaults import SEARCHING
from stormwright.experiments import ready
from stormwright.experiments.compare import run as comparing
from stormwright.experiments.compare.run import Comparison
from stormwright.experiments.tradeoff import run as tradeoffs
from stormwright.explain.placement import Placement
from stormwright.model import Problem
from stormwright.schedulers import Scheduler
from stormwright.schedulers.kit.checked import checked
from stormwright.schedulers.kit.resolve import choose_schedulers, resolve_scheduler
from stormwright.schedulers.kit.warm_up import warm_up


def read_problem(path: str | Path) -> Problem:
    """The problem in a file: JSON, gzipped or not, or a NumPy archive; or a paper's, as ``ready:NAME``.

    Raises
    ------
    InputError
        It cannot be read or is not a problem; all its faults.
    """
    return ready.read_problem(Path(path))


def place(
    problem: Problem, scheduler: str | Scheduler = SEARCHING, *, seed: int | None = None, **settings: Any
) -> Placement:
    """Where a scheduler puts every executor.

    Parameters
    ----------
    problem
        As `read_problem` and `sketch` give it, or one with a load or a placement of your own.
    scheduler
        A name, as `stormwright.schedulers()` lists them, or ``java:CLASS``; or anything with a method
        ``schedule(problem)``.
    seed
        For those that draw random numbers; None for their own.
    **settings
        Parameters of the scheduler by name, such as ``time_budget_s=2``.

    Raises
    ------
    InputError
        There is no such scheduler, or a parameter is unknown or out of range.
    SchedulerError
        What the scheduler answers is no assignment of the problem.
    """
    asked = resolve_scheduler(scheduler, _texts(settings), seed) if isinstance(scheduler, str) else scheduler
    warm_up(asked)
    begin = time.perf_counter()
    answer = checked(
        problem, asked.schedule(problem), scheduler if isinstance(scheduler, str) else type(scheduler).__name__
    )
    if not answer.seconds:
        answer = replace(answer, seconds=time.perf_counter() - begin)
    return Placement.of(problem, answer)


def compare(problem: Problem, schedulers: str | Iterable[str] | Mapping[str, Scheduler] = "all") -> Comparison:
    """What several schedulers' placements cost, use and move, best first; it prints and draws as a table.

    Parameters
    ----------
    schedulers
        Names, several in one text separated by commas, or ``all``; or schedulers by any name.

    Raises
    ------
    InputError
        There is no scheduler of a name.
    """
    if isinstance(schedulers, Mapping):
        return comparing.compare(problem, schedulers)
    names = schedulers if isinstance(schedulers, str) else ",".join(schedulers)
    return comparing.compare(problem, choose_schedulers(names))


def bound(problem: Problem, placement: Placement | None = None, *, seconds: float = 10.0) -> dict[str, Any]:
    """How little any valid placement can cost.

    Parameters
    ----------
    placement
        A good one, which the bound is compared with; by default `optimizer`'s after two seconds.
    seconds
        For the proof.

    Returns
    -------
    dict
        ``cost`` of the placement, ``bound`` (no valid placement costs less), ``gap`` between them in parts of the cost
        (None where executors are left out), ``optimal``.
    """
    from stormwright.optimize.bound.prove import bound_cost

    placement = placement or place(problem, SEARCHING, time_budget_s=2.0)
    return bound_cost(problem, placement.slot_of_executor, seconds).figures(problem, placement.slot_of_executor)


def tradeoff(problem: Problem, *, seconds: float = 1.0, seed: int = 0) -> tradeoffs.Tradeoff:
    """What it gains to move 1, 2, 5, 10 … executors of what runs, and to restart as many workers.

    Parameters
    ----------
    seconds
        Of each search.

    Raises
    ------
    InputError
        Nothing runs.
    """
    return tradeoffs.tradeoff(problem, seconds=seconds, seed=seed)


def _texts(settings: Mapping[str, Any]) -> list[str]:
    """Parameters as a command line has them, which Java classes take too."""
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
