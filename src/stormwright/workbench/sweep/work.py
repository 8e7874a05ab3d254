"""Work of a Spark worker on cells: reads a problem once, decides, and measures the decision."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stormwright import __version__
from stormwright.errors import StormwrightError
from stormwright.model import Problem, Scheduler
from stormwright.model.arrays import IntArray
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, never
from stormwright.schedulers.toolkit.resolve import resolve_scheduler
from stormwright.schedulers.toolkit.traits import declared, warm_up
from stormwright.workbench.comparison import ComparedRow, PlacementFigures, evaluate, measure
from stormwright.workbench.sweep.cells import MakeScheduler, SweepCell, SweepProblem

#: A row a cell; what a failed one has no figure for is null. Traffic in tuples/s.
ROW = pa.schema(
    [
        ("key", pa.string()),
        ("problem", pa.string()),
        ("problem_digest", pa.string()),
        ("scheduler", pa.string()),
        # JSON with sorted keys.
        ("parameters", pa.string()),
        ("seed", pa.int64()),
        ("repeat", pa.int64()),
        ("version", pa.string()),
        ("error", pa.string()),
        ("seconds", pa.float64()),
        ("cost", pa.float64()),
        ("same_executor", pa.float64()),
        ("same_worker", pa.float64()),
        ("inter_worker", pa.float64()),
        ("inter_node", pa.float64()),
        ("inter_rack", pa.float64()),
        ("to_unplaced", pa.float64()),
        # No executor without a slot, no limit broken, every topology in as many workers as it wants.
        ("valid", pa.bool_()),
        ("limits_broken", pa.int64()),
        ("other_worker_counts", pa.int64()),
        ("unplaced", pa.int64()),
        ("nodes", pa.int64()),
        ("workers", pa.int64()),
        ("cpu_max_over_mean", pa.float64()),
        ("moved_executors", pa.int64()),
        # Simulated results over all topologies with ackers; null without simulation or ackers.
        ("simulated_s", pa.float64()),
        # How long that took here.
        ("simulating_s", pa.float64()),
        ("trace", pa.string()),
        ("trees_per_s", pa.float64()),
        ("mean_ms", pa.float64()),
        ("p95_ms", pa.float64()),
        ("p99_ms", pa.float64()),
        ("timed_out", pa.int64()),
        # Where it ran, and how busy that was: what `seconds` may be compared with.
        ("host", pa.string()),
        ("cores", pa.int64()),
        ("load_1min", pa.float64()),
        ("ended_ms", pa.int64()),
    ]
)


@dataclass(frozen=True)
class SweepPart:
    """Cells that one task decides, with their problems.

    Parameters
    ----------
    problems, cells
        The cells, and their problems by digest.
    time_limit_s
        Time limit of a cell; None for no limit.
    seconds
        No cell but the first begins later than that after the first one; None for no limit.
    version
        Version of this package on the driver.
    own
        Makers of schedulers that are not registered, by name; only in the process that made the sweep.
    """

    problems: Mapping[str, SweepProblem]
    cells: Sequence[SweepCell]
    time_limit_s: float | None
    seconds: float | None = None
    version: str = __version__
    own: Mapping[str, MakeScheduler] = field(default_factory=dict)


def decide(part: SweepPart) -> pa.RecordBatch:
    """Return the rows (`ROW`) of a part's cells, without those that it has no time for.

    Raises
    ------
    StormwrightError
        This machine has another version of this package than the driver.
    """
    if part.version != __version__:
        raise StormwrightError(f"stormwright is {__version__} on {socket.gethostname()}, {part.version} on the driver")
    end_s = math.inf if part.seconds is None else time.monotonic() + part.seconds
    rows: list[dict[str, Any]] = []
    for cell in part.cells:
        if rows and time.monotonic() >= end_s:
            break
        packed, make = part.problems[cell.problem], part.own.get(cell.scheduler)
        rows.append(_decided_by_own(cell, packed, make) if make else _decided(cell, packed, part.time_limit_s))
    return pa.RecordBatch.from_pylist(rows, ROW)


def row(cell: SweepCell, problem: SweepProblem, **figures: Any) -> dict[str, Any]:
    """Return the row of a cell that ended now on this machine; missing figures are null."""
    return {
        "key": cell.key,
        "problem": problem.name,
        "problem_digest": problem.digest,
        "scheduler": cell.scheduler,
        "parameters": cell.parameters_text,
        "seed": cell.seed,
        "repeat": cell.repeat,
        "version": __version__,
        "host": socket.gethostname(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": os.getloadavg()[0],
        "ended_ms": time.time_ns() // 1_000_000,
        **figures,
    }


def _decided(cell: SweepCell, packed: SweepProblem, time_limit_s: float | None) -> dict[str, Any]:
    try:
        if time_limit_s is not None and not declared(_cold(cell, time_limit_s)).keeps_time_limit:
            return row(cell, packed, **_within(time_limit_s, cell, packed))
        scheduler = _scheduler(cell, time_limit_s)
    except (StormwrightError, ImportError) as error:
        return row(cell, packed, error=str(error))
    answer = _evaluated(cell, packed, scheduler)
    return row(cell, packed, **_figures(answer), **_came(cell, packed, answer))


def _decided_by_own(cell: SweepCell, packed: SweepProblem, make: MakeScheduler) -> dict[str, Any]:
    """Return the row of a cell with a scheduler that is not registered; an error in making it is that of the cell."""
    try:
        seed = {} if cell.seed is None else {"seed": cell.seed}
        found = apply_from_scratch(cell.scheduler, make(**cell.parameters, **seed), cell.from_scratch, never)
    except Exception as error:  # of a user's code
        return row(cell, packed, error=f"{type(error).__name__}: {error}")
    answer = _evaluated(cell, packed, found)
    return row(cell, packed, **_figures(answer), **_came(cell, packed, answer))


@lru_cache(maxsize=4)
def _unpacked(packed: SweepProblem) -> Problem:
    problem = packed.unpacked()
    # Derives the problem's arrays, so that the first scheduler is not charged for what all of them use.
    measure(problem, problem.current_slot)
    return problem


def _evaluated(cell: SweepCell, packed: SweepProblem, scheduler: Scheduler) -> ComparedRow:
    def figures_of(_: Problem, slot_of_executor: IntArray) -> PlacementFigures:
        return _placement_figures(packed, slot_of_executor.tobytes())

    return evaluate(_unpacked(packed), cell.scheduler, scheduler, figures_of)


@lru_cache(maxsize=64)
def _placement_figures(packed: SweepProblem, slots: bytes) -> PlacementFigures:
    """Return the figures of a placement; repeats and seeds of simulations often have the same one."""
    return measure(_unpacked(packed), np.frombuffer(slots, np.int32))


def _scheduler(cell: SweepCell, time_limit_s: float | None) -> Scheduler:
    """Return the cell's scheduler, warmed up."""
    _warm_up_once(cell.scheduler, cell.settings_text)
    return _cold(cell, time_limit_s)


def _cold(cell: SweepCell, time_limit_s: float | None) -> Scheduler:
    found = resolve_scheduler(cell.scheduler, dict(cell.parameters), cell.seed, time_limit_s=time_limit_s)
    return apply_from_scratch(cell.scheduler, found, cell.from_scratch, never)


@lru_cache(maxsize=1024)
def _warm_up_once(name: str, parameters: str) -> None:
    """Warm up a scheduler once; its machine code does not depend on the seed."""
    warm_up(resolve_scheduler(name, orjson.loads(parameters)))


def _figures(answer: ComparedRow) -> dict[str, Any]:
    """Return the columns of an answer."""
    figures: dict[str, Any] = {"seconds": answer.seconds, "error": answer.error or None}
    if answer.figures is not None:
        known = answer.figures.as_dict()
        cost = known.pop("cost")
        figures |= {name: cost[name] for name in _TRAFFIC} | {name: known[name] for name in _COUNTS}
        figures |= {
            "cost": answer.figures.total,
            "to_unplaced": cost["unplaced"],
            "limits_broken": len(known["limits_broken"]),
            "other_worker_counts": len(known["other_worker_counts"]),
            "nodes": known["nodes_used"],
        }
    return figures


def _came(cell: SweepCell, packed: SweepProblem, answer: ComparedRow) -> dict[str, Any]:
    """Return the columns of the simulated outcome of an answer."""
    run = cell.simulated
    if run is None or answer.assignment is None:
        return {}
    from stormwright.simulator.settings import SimulatorSettings
    from stormwright.workbench.simulated.simulation import parse_trace, quantile_ms, simulate

    problem = _unpacked(packed)
    settings = replace(SimulatorSettings.of(problem), seed=(cell.seed or 0) % 2**63)
    changes = parse_trace(run.text, problem, run.trace)
    found = simulate(problem, answer.assignment.slot_of_executor, run.seconds, settings, changes)
    whole, acked = found.whole, any(map(found.acked, range(len(problem.topologies))))
    done = int(whole.topologies["completed"].sum())
    latency = whole.latency.sum(axis=0)
    return {
        "simulated_s": run.seconds,
        "simulating_s": found.took_s,
        "trace": run.trace,
        "trees_per_s": done / run.seconds if acked else None,
        "mean_ms": 1e3 * float(whole.topologies["latency_s"].sum()) / done if done else None,
        "p95_ms": quantile_ms(latency, 0.95) if done else None,
        "p99_ms": quantile_ms(latency, 0.99) if done else None,
        "timed_out": int(whole.topologies["timed_out"].sum()),
    }


class _CellProcess:
    """A separate process for cells, one after the other, which a time limit can kill.

    It may be killed in the middle of compiled code, and is started again then. It is no fork of this one: whatever
    locks this one's threads hold at that moment a fork would wait for, for ever.
    """

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        # It ends with this process, when the pipe closes.
        self.process = spawn.Process(target=_decide_in_process, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def figures(self, cell: SweepCell, packed: SweepProblem, time_limit_s: float) -> dict[str, Any]:
        """Return the columns of a cell; raises EOFError or OSError if the process has ended."""
        self._connection.send((cell, packed, time_limit_s))
        figures: dict[str, Any] = self._connection.recv()
        return figures

    def end_code(self) -> int | None:
        """Return the exit code."""
        self._connection.close()
        self.process.join()
        return self.process.exitcode


_apart: list[_CellProcess] = []


def _within(time_limit_s: float, cell: SweepCell, packed: SweepProblem) -> dict[str, Any]:
    """Return the figures of an answer decided in another process, which is killed at the time limit."""
    if not _apart:
        _apart.append(_CellProcess())
    try:
        return _apart[0].figures(cell, packed, time_limit_s)
    except (EOFError, OSError):
        code = _apart.pop().end_code()
    if code == -signal.SIGALRM:
        return {"seconds": time_limit_s, "error": f"took longer than the limit of {time_limit_s:g} s"}
    return {"error": f"its process ended with exit code {code}"}


def _decide_in_process(asking: Connection) -> None:
    # The kernel kills the process at the limit; Ctrl-C is handled by the parent.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            cell, packed, time_limit_s = asking.recv()
        except EOFError:
            return
        try:
            scheduler = _scheduler(cell, time_limit_s)
        except (StormwrightError, ImportError) as error:
            asking.send({"error": str(error)})
            continue
        _unpacked(packed)
        signal.setitimer(signal.ITIMER_REAL, time_limit_s)
        answer = _evaluated(cell, packed, scheduler)
        signal.setitimer(signal.ITIMER_REAL, 0)
        asking.send(_figures(answer) | _came(cell, packed, answer))


#: Columns that have the names of `Cost` and of `Figures.as_dict`.
_TRAFFIC = ("same_executor", "same_worker", "inter_worker", "inter_node", "inter_rack")
_COUNTS = ("valid", "unplaced", "workers", "cpu_max_over_mean", "moved_executors")
