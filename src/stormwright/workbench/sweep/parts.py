"""Sweeps from Python values: problems, schedulers with the values of their parameters, and schedulers of one's own."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stormwright.errors import Fault, InputError, collected
from stormwright.formats.document.sweep import MAX_SECONDS
from stormwright.model import Problem
from stormwright.model.faults import is_integer, is_number
from stormwright.schedulers.toolkit.registry import scheduler_names
from stormwright.schedulers.toolkit.resolve import RESERVED, is_java
from stormwright.workbench.ready_problems import read_problem
from stormwright.workbench.sweep.cells import MakeScheduler, SimulatedRun, Sweep, SweepAxes, SweepProblem, sweep_of

#: Parameter → the value or the values to try.
GridInput: TypeAlias = Mapping[str, Any]

#: Problems, files with them, or problems by name.
ProblemsInput: TypeAlias = Problem | str | Path | Iterable[Problem | str | Path] | Mapping[str, Problem]

#: Names of schedulers; or grids by name; or makers of schedulers by name, alone or with grids.
SchedulersInput: TypeAlias = (
    str | Iterable[str] | Mapping[str, GridInput | MakeScheduler | tuple[MakeScheduler, GridInput]]
)

#: Most repeats of a cell.
_MAX_REPEATS = 1_000_000


class SweepExtent(NamedTuple):
    """Further dimensions of a sweep.

    Parameters
    ----------
    seeds, repeats
        Seeds, and number of repeats of a cell.
    time_limit_s, simulate_s
        Time limit of a cell, and virtual time in which a placement is simulated; None for none.
    from_scratch
        Whether the current placement is ignored.
    stored
        Whether cells are stored for later sweeps, for which each scheduler needs an identity.
    """

    seeds: Sequence[int] = ()
    repeats: int = 1
    time_limit_s: float | None = None
    simulate_s: float | None = None
    from_scratch: bool = False
    stored: bool = False


def sweep_of_parts(
    problems: ProblemsInput, schedulers: SchedulersInput, extent: SweepExtent, *, in_process: bool
) -> Sweep:
    """Return the cells of a sweep.

    Parameters
    ----------
    problems, schedulers, extent
        Problems, schedulers with parameters, and further dimensions, which are multiplied.
    in_process
        Whether it will run in this process, as schedulers that are not registered have to.

    Raises
    ------
    InputError
        A part is invalid; all faults at once.
    """
    faults: list[Fault] = []
    packed = _packed(problems, faults)
    grids, own = _rules(schedulers, faults)
    for name, seconds in (("simulate_s", extent.simulate_s), ("time_limit_s", extent.time_limit_s)):
        if seconds is not None and (not is_number(seconds) or not 0 < seconds <= MAX_SECONDS):
            faults.append(Fault(f"should be a time above 0, to {MAX_SECONDS:,.0f}, got {seconds!r}", name))
    for number, seed in enumerate(extent.seeds):
        if not is_integer(seed) or not -(2**63) <= int(seed) < 2**63:
            faults.append(Fault(f"should be a whole number of 64 bits, got {seed!r}", f"seeds[{number}]"))
    if not is_integer(extent.repeats) or not 1 <= extent.repeats <= _MAX_REPEATS:
        message = f"should be a whole number from 1 to {_MAX_REPEATS:,}, got {extent.repeats!r}"
        faults.append(Fault(message, "repeats"))
    if not in_process or extent.time_limit_s is not None:
        message = "runs in this process only, without a time limit: make a package (stormwright new-scheduler)"
        faults += [Fault(message, f"schedulers.{name}") for name in own]
    axes = SweepAxes(
        schedulers=grids,
        seeds=[] if faults else [int(seed) for seed in extent.seeds],
        repeats=1 if faults else extent.repeats,
        time_limit_s=extent.time_limit_s,
        runs=[None] if extent.simulate_s is None else [SimulatedRun(extent.simulate_s)],
        from_scratch=extent.from_scratch,
        own=own,
        sources=dict(_sources(own, faults)) if extent.stored else {},
    )
    return sweep_of(packed, axes, "sweep", faults)


def _sources(own: Mapping[str, MakeScheduler], faults: list[Fault]) -> Iterator[tuple[str, str]]:
    """Yield the digests of the sources of own schedulers and of their base classes, by name."""
    for name, make in own.items():
        at = f"schedulers.{name}"
        if isinstance(make, FunctionType) and (around := inspect.getclosurevars(make).nonlocals):
            message = f"depends on {', '.join(around)} of the function around it: make it a parameter, or omit table"
            faults.append(Fault(message, at))
            continue
        classes = inspect.getmro(make) if isinstance(make, type) else (make,)
        try:
            texts = [inspect.getsource(each) for each in classes if each.__module__ != "builtins"]
        except (AttributeError, OSError, TypeError):
            message = "has no source by which a table could identify it: define it in a file, or omit table"
            faults.append(Fault(message, at))
        else:
            yield name, hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _packed(problems: ProblemsInput, faults: list[Fault]) -> list[SweepProblem]:
    """Return the problems; those without a name are numbered."""
    if isinstance(problems, Mapping):
        named: list[tuple[str, Any]] = list(problems.items())
    else:
        several = [problems] if isinstance(problems, (Problem, str, Path)) else list(problems)
        named = [(str(each) if isinstance(each, (str, Path)) else "", each) for each in several]
    found: list[SweepProblem] = []
    for number, (name, each) in enumerate(named):
        with collected(faults, f"problems[{number}]"):
            problem = read_problem(Path(each)) if isinstance(each, (str, Path)) else each
            if not isinstance(problem, Problem):
                message = f"should be a Problem or a file, got {type(problem).__name__}"
                raise InputError("problem", [Fault(message, "$")])
            found.append(SweepProblem.of(name or f"{problem.name or 'problem'}-{number + 1}", problem))
    if not named:
        faults.append(Fault("names no problem", "problems"))
    return found


def _rules(schedulers: SchedulersInput, faults: list[Fault]) -> tuple[dict[str, Any], dict[str, MakeScheduler]]:
    """Return the values of the parameters of all schedulers, and the makers of own ones."""
    grids: dict[str, Any] = {}
    own: dict[str, MakeScheduler] = {}
    if isinstance(schedulers, str):
        schedulers = [name.strip() for name in schedulers.split(",")]
    given: dict[str, Any] = dict(schedulers if isinstance(schedulers, Mapping) else {key: {} for key in schedulers})
    for name, value in given.items():
        make, grid = value if isinstance(value, tuple) and len(value) == 2 else (value, {})
        if callable(make):
            own[name] = make
            if name in scheduler_names() or name in RESERVED or is_java(name):
                message = "is the name of a registered scheduler: choose another one for your own"
                faults.append(Fault(message, f"schedulers.{name}"))
        else:
            grid = value
        if not isinstance(grid, Mapping):
            message = "should be parameters with the values to try, or a class or function that makes a scheduler"
            faults.append(Fault(f"{message}, got {type(value).__name__}", f"schedulers.{name}"))
            continue
        grids[name] = {key: _values(each) for key, each in grid.items()}
    if not given:
        faults.append(Fault("names no scheduler", "schedulers"))
    return grids, own


def _values(given: Any) -> list[Any]:
    """Return the values of a parameter, as plain Python ones."""
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    return [each.item() if isinstance(each, np.generic) else each for each in several]
