"""Simulation of a placement, tuple by tuple: rates, latency, CPU and queues, second by second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.base.tables import Tabular, TextTable, bar_chart, paragraph
from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.formats.files.json_files import opened
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.humanize import counted
from stormwright.model.requests import ACKER
from stormwright.predict.workers import nodes_of
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.counting import EngineTotals, quantile_s
from stormwright.simulator.storm.engine import Events

#: Number of time steps.
STEPS = 60

#: Longest virtual time, and most tuples per event.
MAX_SECONDS, MAX_AT_ONCE = 1e7, 1_000_000

#: Reported quantiles of latency; those below 1 ms are counted together, and shown so.
QUANTILES, MIN_MS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}, 1.0

#: Topologies, and nodes, that are shown in a notebook.
_MAX_BARS = 20


class RateChange(NamedTuple):
    """A factor on the offered trees of a topology (None: of all) from an instant on."""

    at_s: float
    factor: float
    topology: int | None


class _Step(NamedTuple):
    """A part of time: its end, and its counts."""

    until_s: float
    counts: EngineTotals


@dataclass(frozen=True, slots=True)
class SimulatedTopology:
    """Result of one topology.

    Parameters
    ----------
    topology
        Id of the topology in the problem.
    acked
        Whether it has ackers; without them completed trees and latencies are unknown.
    trees_per_s
        Completed tuple trees per virtual second, over the simulated time.
    begun, completed, timed_out, replayed, lost
        Numbers of trees; a lost one lost a tuple.
    pending
        Pending trees at the end.
    mean_ms, p50_ms, p95_ms, p99_ms
        Complete latency; None without a completed tree. Below `MIN_MS` quantiles are that.
    """

    topology: str
    acked: bool
    trees_per_s: float
    begun: int
    completed: int
    timed_out: int
    replayed: int
    lost: int
    pending: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Tabular):
    """Result of a simulation; a sequence of the results of its topologies.

    Parameters
    ----------
    problem, slots
        Problem and slot of every executor.
    steps
        Parts of time, one after the other.
    whole
        All of them together.
    pending
        Pending trees of every topology at the end, shape (T,).
    queue_peak, queue_limit
        Peak length and limit of the receive queue of every executor, shape (E,).
    hops
        Tuples that executors handled.
    took_s
        Seconds of real time.
    at_once
        Number of tuples per event.
    """

    problem: Problem
    slots: IntArray
    steps: Sequence[_Step]
    whole: EngineTotals
    pending: NDArray[np.int64]
    queue_peak: NDArray[np.int64]
    queue_limit: NDArray[np.int64]
    hops: int
    took_s: float
    at_once: int = 1

    empty_columns: ClassVar[Mapping[str, Sequence[str]]] = {
        "timeline": ("topology", "until_s", "trees_per_s", "p95_ms")
    }

    def __iter__(self) -> Iterator[SimulatedTopology]:
        return iter(self.topologies)

    def __len__(self) -> int:
        return len(self.problem.topologies)

    @cached_property
    def topologies(self) -> tuple[SimulatedTopology, ...]:
        """Result of every topology."""
        return tuple(self._topology(number) for number in range(len(self)))

    @property
    def seconds(self) -> float:
        """Duration in virtual time."""
        return self.whole.now_s

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return topologies, nodes, and rates and latencies over time as tables."""
        timeline = [
            dict(zip(self.empty_columns["timeline"], (one.topology, *figures), strict=True))
            for number, one in enumerate(self.topologies)
            for figures in zip(*self._timeline(number).values(), strict=True)
        ]
        return {"topologies": [asdict(one) for one in self.topologies], "nodes": self._nodes(), "timeline": timeline}

    def headline(self) -> str:
        """Return the first line of the text."""
        name = self.problem.name or "problem"
        return f"{name}: {self.seconds:,.6g} s of virtual time, {counted(self.hops, 'tuple')} handled"

    def _repr_html_(self) -> str:
        """Return topologies and the CPU of nodes for a notebook."""
        cpu = {row["node"]: row["cpu"] for row in self._nodes() if row["cpu"] > 0}
        most = sorted(cpu, key=lambda node: -cpu[node])[:_MAX_BARS]
        table = TextTable.of([asdict(one) for one in self.topologies], _MAX_BARS).as_html() if len(self) else ""
        return paragraph(self.headline()) + table + bar_chart("mean CPU in use", {node: cpu[node] for node in most})

    def rates(self, topology: int) -> FloatArray:
        """Return the completed trees/s in every step."""
        return np.array([step.counts.topologies["completed"][topology] / step.counts.now_s for step in self.steps])

    def latencies_ms(self, topology: int, part: float) -> FloatArray:
        """Return a quantile of the latency in every step, in ms; nan without a completed tree."""
        return np.array([quantile_ms(step.counts.latency[topology], part) for step in self.steps])

    def cpu(self) -> FloatArray:
        """Return the used part of every node's CPU in every step, shape (steps, N)."""
        cores = np.maximum(nodes_of(self.problem).cores, 1e-9)
        return np.array([step.counts.busy_s / step.counts.now_s / cores for step in self.steps])

    def acked(self, topology: int) -> bool:
        """Return whether a topology has ackers; without them completed trees are unknown."""
        components = self.problem.topologies[topology].components
        return any(component.id == ACKER and component.parallelism for component in components)

    def mean_ms(self, topology: int) -> float | None:
        """Return the mean complete latency of a topology; None if no tree was completed."""
        done = int(self.whole.topologies["completed"][topology])
        return 1e3 * float(self.whole.topologies["latency_s"][topology]) / done if done else None

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "seconds": self.seconds,
            "tuples_handled": self.hops,
            "took_s": round(self.took_s, 3),
            "tuples_at_once": self.at_once,
            "topologies": [
                {**asdict(one), "timeline": self._timeline(number)} for number, one in enumerate(self.topologies)
            ],
            "nodes": self._nodes(),
            "queue_peaks": self.queue_peak.tolist(),
        }

    def _nodes(self) -> list[dict[str, Any]]:
        cpu = self.cpu()
        return [
            {
                "node": node.id,
                "cpu": round(float(cpu[:, number].mean()), 4),
                "cpu_peak": round(float(cpu[:, number].max()), 4),
                "sent_bytes_per_s": round(float(self.whole.link_bytes[0, number] / self.seconds), 1),
                "received_bytes_per_s": round(float(self.whole.link_bytes[1, number] / self.seconds), 1),
            }
            for number, node in enumerate(self.problem.supervisors)
        ]

    def _topology(self, number: int) -> SimulatedTopology:
        events, latency = self.whole.topologies, self.whole.latency[number]
        counts = {name: int(events[name][number]) for name in ("begun", "completed", "timed_out", "replayed", "lost")}
        return SimulatedTopology(
            topology=self.problem.topologies[number].id,
            acked=self.acked(number),
            trees_per_s=round(counts["completed"] / self.seconds, 3),
            **counts,
            pending=int(self.pending[number]),
            mean_ms=self.mean_ms(number),
            p50_ms=_finite_or_none(quantile_ms(latency, QUANTILES["p50"])),
            p95_ms=_finite_or_none(quantile_ms(latency, QUANTILES["p95"])),
            p99_ms=_finite_or_none(quantile_ms(latency, QUANTILES["p99"])),
        )

    def _timeline(self, number: int) -> dict[str, list[Any]]:
        return {
            "until_s": [round(step.until_s, 6) for step in self.steps],
            "trees_per_s": self.rates(number).round(2).tolist(),
            "p95_ms": [_finite_or_none(value) for value in self.latencies_ms(number, QUANTILES["p95"])],
        }


def simulate(
    problem: Problem,
    slots: IntArray,
    seconds: float,
    settings: SimulatorSettings,
    trace: Sequence[RateChange] = (),
    progress: Callable[[float, int], None] | None = None,
) -> Simulation:
    """Simulate a placement in virtual time, with all its workers up.

    Parameters
    ----------
    problem
        Problem with nodes and a load.
    slots
        Slot of every executor, -1 for none, shape (E,).
    seconds
        Duration in virtual seconds.
    settings
        Costs, seed and other settings.
    trace
        Changes of the rates of spouts.
    progress
        Called every some 100,000 events with the virtual time reached, in seconds, and the number of tuples handled.

    Raises
    ------
    InputError
        An executor sends too many tuples for one that it handles.
    """
    begun_s = time.perf_counter()
    events = Events(problem, slots, settings)
    turn = None if progress is None else lambda: progress(events.now_s, events.hops)
    instants = sorted(
        {*np.linspace(0.0, seconds, STEPS + 1)[1:].tolist(), *(c.at_s for c in trace if c.at_s < seconds)}
    )
    ends = set(np.linspace(0.0, seconds, STEPS + 1)[1:].tolist())
    first = before = events.counts
    _change(events, trace, 0.0)
    steps = []
    for instant in instants:
        events.until(instant, turn)
        if instant in ends:
            now = events.counts
            steps.append(_Step(instant, now.since(before)))
            before = now
        _change(events, trace, instant)
    return Simulation(
        problem=problem,
        slots=slots,
        steps=steps,
        whole=before.since(first),
        pending=events.pending,
        queue_peak=events.queue_peaks,
        queue_limit=events.queue_limits,
        hops=events.hops,
        took_s=time.perf_counter() - begun_s,
        at_once=events.at_once,
    )


def quantile_ms(latency: NDArray[np.int64], part: float) -> float:
    """Return a quantile of the latency in ms, at least `MIN_MS`; nan without trees.

    Parameters
    ----------
    latency
        Trees by bucket, the first of which has all below `MIN_MS`, shape (258,).
    part
        Quantile, from 0 to 1.
    """
    return float(np.maximum(1e3 * quantile_s(latency, part), MIN_MS))


def running(problem: Problem) -> IntArray:
    """Return where executors run now.

    Raises
    ------
    InputError
        Nothing runs.
    """
    if np.all(problem.current_slot == UNPLACED):
        message = (
            "the problem has no current placement: pass a scheduler, as in --scheduler even, or an assignment "
            "with --assignment, as `stormwright schedule FILE --output ASSIGNMENT` writes it"
        )
        raise InputError("simulate", [Fault(message, "$")])
    return problem.current_slot


def read_trace(path: Path, problem: Problem) -> list[RateChange]:
    """Return rate changes from a file with lines ``SECONDS,FACTOR`` or ``SECONDS,FACTOR,TOPOLOGY``.

    Raises
    ------
    InputError
        The file cannot be read, or lines are something else; all of them.
    """
    with opened(path) as file:
        return parse_trace(file.read().decode("utf-8", errors="replace"), problem, f"trace {path}")


def parse_trace(text: str, problem: Problem, source: str) -> list[RateChange]:
    """Return the rate changes in a text; errors in lines name `source`, as in `read_trace`."""
    numbers = {name: n for n, topology in enumerate(problem.topologies) for name in (topology.id, topology.name)}
    found: list[RateChange] = []
    faults: list[Fault] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        change = _change_of(line, numbers)
        if isinstance(change, str):
            faults.append(Fault(change, f"line {number}"))
        else:
            found.append(change)
    if faults:
        raise InputError(source, faults)
    return sorted(found, key=lambda change: change.at_s)


def changes_of(changes: Iterable[Sequence[Any]], problem: Problem) -> list[RateChange]:
    """Return rate changes from tuples of seconds, factor, and maybe a topology (id or name).

    Raises
    ------
    InputError
        Some are something else; all of them.
    """
    lines = (",".join(map(str, each)) for each in changes)
    return parse_trace("\n".join(lines), problem, "rate changes")


def _change_of(line: str, topologies: dict[str, int]) -> RateChange | str:
    """Return the rate change of a line, or its fault."""
    parts = [part.strip() for part in line.split(",")]
    wanted = "should be SECONDS,FACTOR or SECONDS,FACTOR,TOPOLOGY with numbers from 0 on, as in 30,1.5"
    try:
        at_s, factor = float(parts[0]), float(parts[1])
    except (ValueError, IndexError):
        return f"{wanted}; got {line[:60]}"
    if len(parts) > 3 or not 0 <= at_s < 1e12 or not 0 <= factor <= 1e6:
        return f"{wanted}; got {line[:60]}"
    if len(parts) < 3:
        return RateChange(at_s, factor, None)
    if parts[2] not in topologies:
        return f"no such topology: {parts[2]}{suggestion_for(parts[2], topologies)}"
    return RateChange(at_s, factor, topologies[parts[2]])


def _change(events: Events, trace: Sequence[RateChange], at_s: float) -> None:
    for change in trace:
        if change.at_s == at_s:
            every = range(len(events.problem.topologies)) if change.topology is None else [change.topology]
            for topology in every:
                events.rate(topology, change.factor)


def _finite_or_none(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 3)
