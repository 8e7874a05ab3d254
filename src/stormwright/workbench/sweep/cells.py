"""Cells of a sweep: one decision each, identified by all its inputs."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from glob import glob
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from stormwright import __version__
from stormwright.errors import Fault, InputError, MissingDependencyError
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.formats.document.faults import join_path
from stormwright.formats.document.sweep import Grid, SweepDocument, read_sweep
from stormwright.formats.files.json_files import opened
from stormwright.model import Problem, Scheduler
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, never
from stormwright.schedulers.toolkit.resolve import resolve_scheduler, takes_seed
from stormwright.workbench.ready_problems import READY_PREFIX, read_problem
from stormwright.workbench.simulated.simulation import parse_trace

# Specification ------------------------------------------------------------------------------------
# Cells from a sweep's file; all its faults are reported before any cell runs.

#: Makes a scheduler from parameters by name, and ``seed`` where the sweep names seeds.
MakeScheduler = Callable[..., Scheduler]

_WILD = frozenset("*?[")

#: Cells of a sweep.
MAX_CELLS = 1_000_000


class SweepAxes(NamedTuple):
    """Schedulers, seeds and other dimensions of a sweep besides its problems.

    Parameters
    ----------
    schedulers
        Scheduler → parameter → the values to try.
    seeds
        Seeds of schedulers that draw random numbers; of all, if placements are simulated.
    repeats
        Number of repeats of each cell.
    time_limit_s
        Time limit of a cell; None for no limit.
    runs
        Simulated runs of every placement; None for none.
    from_scratch
        Whether the current placement is ignored.
    own, sources
        Makers of schedulers that are not registered, by name; and digests of their sources, if these cells are stored.
    """

    schedulers: Mapping[str, Grid]
    seeds: Sequence[int] = ()
    repeats: int = 1
    time_limit_s: float | None = None
    runs: Sequence[SimulatedRun | None] = (None,)
    from_scratch: bool = False
    own: Mapping[str, MakeScheduler] = {}
    sources: Mapping[str, str] = {}


def read_cells(path: Path, from_scratch: bool = False) -> Sweep:
    """Return the sweep in the file at `path`, with its problems read and its schedulers validated.

    Parameters
    ----------
    path
        Path of the sweep's file.
    from_scratch
        Whether the current placement is ignored, in all cells.

    Raises
    ------
    InputError
        The file, a problem, a scheduler's name or a parameter is wrong; all faults at once. A scheduler whose engine is
        not installed here is no fault: the workers may have it.
    """
    document = read_sweep(path)
    faults: list[Fault] = []
    problems = list(_problems(document.problems, path.parent, faults))
    runs = _runs(document, path.parent, problems, faults)
    axes = SweepAxes(document.schedulers, document.seeds, document.repeats, document.time_limit_s, runs, from_scratch)
    return sweep_of(problems, axes, str(path), faults)


def sweep_of(problems: Sequence[SweepProblem], axes: SweepAxes, source: str, faults: Sequence[Fault] = ()) -> Sweep:
    """Return the cells of problems and axes, with the schedulers validated.

    Parameters
    ----------
    problems
        Problems, some of which may be the same.
    axes
        Schedulers, parameters, seeds, repeats and runs to vary.
    source
        Name of the sweep in errors.
    faults
        Faults found before; they are raised together with new ones.

    Raises
    ------
    InputError
        There are faults, a scheduler's name or a parameter is wrong, or there are too many cells.
    """
    distinct_problems = {problem.digest: problem for problem in problems}
    _require_countable(source, axes, len(distinct_problems))
    found = list(faults)
    rules = [rule for name in axes.schedulers for rule in _combinations(name, axes, found)]
    if found:
        # Combinations share values, and so do their faults.
        raise InputError(source, list(dict.fromkeys(found)))
    simulates = any(run is not None for run in axes.runs)
    drawing = {name for name in axes.schedulers if simulates or name in axes.own or takes_seed(name)}
    seeds: list[int | None] = [*axes.seeds] or [None]
    cells = (
        SweepCell(digest, name, parameters, seed, repeat, axes.from_scratch, run, axes.sources.get(name, ""))
        for digest in distinct_problems
        for name, parameters in rules
        for seed in (seeds if name in drawing else [None])
        for repeat in range(axes.repeats)
        for run in axes.runs
    )
    # In order of their keys, which is as good as shuffled: all tasks get slow schedulers and fast ones.
    order = {digest: position for position, digest in enumerate(distinct_problems)}
    distinct = sorted({cell.key: cell for cell in cells}.values(), key=lambda cell: (order[cell.problem], cell.key))
    return Sweep(distinct_problems, tuple(distinct), axes.time_limit_s, axes.own)


def _require_countable(source: str, axes: SweepAxes, problems: int) -> None:
    """Raise if there are more cells than fit in memory, as all keys are known before the first runs."""
    combinations = sum(prod(map(len, grid.values())) for grid in axes.schedulers.values())
    cells = problems * combinations * max(len(axes.seeds), 1) * axes.repeats * len(axes.runs)
    if cells > MAX_CELLS:
        raise InputError(source, [Fault(f"asks for {cells:,} cells; a sweep has at most {MAX_CELLS:,}", "$")])


def _runs(
    document: SweepDocument, base: Path, problems: Sequence[SweepProblem], faults: list[Fault]
) -> list[SimulatedRun | None]:
    """Return the simulated runs of placements: without a trace and under each; none if not requested."""
    if document.simulate is None:
        return [None]
    runs: list[SimulatedRun | None] = [SimulatedRun(document.simulate.seconds)]
    for position, name in enumerate(document.simulate.traces):
        try:
            with opened(base / name) as file:
                text = file.read().decode("utf-8", errors="replace")
            for problem in problems:
                parse_trace(text, problem.unpacked(), f"{name} for {problem.name}")
        except InputError as error:
            at = join_path("$", "simulate", "traces", position)
            faults += [Fault(f"{error.source}: {fault}", at) for fault in error.faults]
        else:
            runs.append(SimulatedRun(document.simulate.seconds, name, text))
    return runs


def _problems(texts: Sequence[str], base: Path, faults: list[Fault]) -> Iterator[SweepProblem]:
    for position, text in enumerate(texts):
        at = join_path("$", "problems", position)
        files = _files(text, base)
        if not files:
            faults.append(Fault(f"no file fits {text}", at))
        for name, file in files.items():
            try:
                yield SweepProblem.of(name, read_problem(file))
            except InputError as error:
                faults += [Fault(f"{name}: {fault}", at) for fault in error.faults]


def _files(text: str, base: Path) -> dict[str, Path]:
    """Return the files that a text refers to, by their names in results."""
    if text.startswith(READY_PREFIX):
        return {text: Path(text)}
    if not _WILD & set(text):
        return {text: base / text}
    found = sorted(glob(text, root_dir=base, recursive=True))  # noqa: PTH207 - Path.glob knows no absolute patterns
    return {name: base / name for name in found if (base / name).is_file()}


def _combinations(name: str, axes: SweepAxes, faults: list[Fault]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scheduler with every combination of its parameters."""
    at, grid = join_path("$", "schedulers", name), axes.schedulers[name]
    for values in product(*grid.values()):
        parameters = dict(zip(grid, values, strict=True))
        if name not in axes.own:
            try:
                apply_from_scratch(name, resolve_scheduler(name, parameters), axes.from_scratch, never)
            except MissingDependencyError:
                pass
            except InputError as error:
                faults += [_placed(fault, at, parameters) for fault in error.faults]
        yield name, parameters


def _placed(fault: Fault, at: str, parameters: dict[str, Any]) -> Fault:
    """Return a scheduler's fault with its position in the sweep's file."""
    return Fault(fault.message, join_path(at, fault.path) if fault.path in parameters else at)


# Cells --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepProblem:
    """A problem in the form sent to workers.

    Parameters
    ----------
    name
        Name in the sweep's file.
    digest
        Digest of its content, independent of the file.
    content
        Problem document, as gzipped JSON.
    """

    name: str
    digest: str
    content: bytes

    @staticmethod
    def of(name: str, problem: Problem) -> SweepProblem:
        """Pack a problem."""
        text = orjson.dumps(problem_to_dict(problem), option=orjson.OPT_SORT_KEYS)
        return SweepProblem(name, hashlib.sha256(text).hexdigest()[:16], gzip.compress(text, 6, mtime=0))

    def unpacked(self) -> Problem:
        """Return the problem."""
        return problem_from_dict(orjson.loads(gzip.decompress(self.content)), self.name)


@dataclass(frozen=True)
class SimulatedRun:
    """A simulated run of a placement.

    Parameters
    ----------
    seconds
        Duration in virtual seconds.
    trace, text
        Name of the trace of rates in the sweep's file, and its text; empty for constant rates.
    """

    seconds: float
    trace: str = ""
    text: str = ""


@dataclass(frozen=True)
class SweepCell:
    """A decision and, if requested, its simulation.

    Parameters
    ----------
    problem
        Digest of the problem.
    parameters
        Parameters as in the sweep's file; the scheduler's defaults for others.
    seed
        None where the sweep names no seeds, and for a scheduler that uses no random numbers if nothing is simulated.
    repeat
        Number of the repeat, from 0, which distinguishes otherwise equal cells.
    from_scratch
        Whether the current placement is ignored.
    simulated
        Simulated run of the placement; None without simulation.
    source
        Digest of the source of a scheduler that is not registered; empty for others.
    """

    problem: str
    scheduler: str
    parameters: Mapping[str, Any]
    seed: int | None
    repeat: int
    from_scratch: bool = False
    simulated: SimulatedRun | None = None
    source: str = ""

    @property
    def settings_text(self) -> str:
        """The parameters as JSON with sorted keys."""
        return orjson.dumps(dict(self.parameters), option=orjson.OPT_SORT_KEYS).decode()

    @property
    def parameters_text(self) -> str:
        """The parameters for results, including ``from_scratch`` if it is set."""
        shown_parameters = {**self.parameters, **({"from_scratch": True} if self.from_scratch else {})}
        return orjson.dumps(shown_parameters, option=orjson.OPT_SORT_KEYS).decode()

    @cached_property
    def key(self) -> str:
        """Key of a decision: equal decisions of the same package version have equal keys in all sweeps."""
        parts: list[object] = [self.problem, self.scheduler, self.parameters_text, self.seed, self.repeat, __version__]
        if self.simulated:
            parts += [self.simulated.seconds, self.simulated.text]
        if self.source:
            parts += ["source", self.source]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


@dataclass(frozen=True)
class Sweep:
    """Problems by digest; distinct cells, those of a problem adjacent; makers of schedulers that are not registered."""

    problems: Mapping[str, SweepProblem]
    cells: tuple[SweepCell, ...]
    time_limit_s: float | None = None
    own: Mapping[str, MakeScheduler] = field(default_factory=dict)
