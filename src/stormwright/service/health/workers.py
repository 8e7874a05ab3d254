"""Health of workers, their nodes and links, from the arrival of their records.

Every worker of the current placement of Nimbus is expected to report. For each slot there is a small state of the
newest worker that has reported from it; findings are made in one pass over the expected workers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from stormwright.base.clock import Clock
from stormwright.controller.tally import CRASHES, CRASHES_S
from stormwright.history.evaluation.window import is_warm
from stormwright.model import Problem, TopologyAssignment, WorkerSlot
from stormwright.model.requests import CHECKPOINT_SPOUT
from stormwright.perflog.records import LogRecord

#: Seconds and intervals without a record from which a worker is silent.
SILENT_S, SILENT_INTERVALS = 5.0, 3.0

#: Seconds without a first record from which a worker is named, how many times the usual time to it at least, and
#: seconds while that is unknown.
STARTING_S, STARTING_TIMES, FIRST_STARTING_S = 10.0, 2.0, 20.0

#: Seconds by which records have to be late, for how long, and from which a clock was changed instead.
LATE_S, LATE_FOR_S, CHANGED_S = 1.0, 3.0, 600.0

#: Seconds beyond its interval without a record from which a worker no longer reports in time.
OVERDUE_S = 2.0

#: Seconds after which the shortest delay of a worker no longer counts: clocks drift.
_DELAY_S = 300.0

#: Part of its usual cores from which a worker has too few, and seconds after which a lower number is the usual one.
FEW_CORES, USUAL_CORES_S = 0.75, 600.0

#: Seconds after which a worker that is not expected is forgotten, and seconds between checks for that.
FORGOTTEN_S, _SWEEP_S = 3600.0, 60.0

#: Seconds in which ended trees are counted, the part of them that fails from which a topology is named, and their
#: minimum number, or that where most fail: single failures are an application's own.
FAILING_FOR_S, FAILING, MIN_FAILED, MIN_MOST_FAILED = 60.0, 0.05, 20, 5

#: Length in seconds of the parts in which they are counted.
_PART_S = 5.0

#: Number of starts of which the median is the usual one.
_STARTS = 20

#: Statuses of topologies whose workers run.
_RUNNING = ("ACTIVE", "INACTIVE")

#: Keys of a topology's configuration: its hooks, one of which is the probe, and the interval of the probe in ms.
_HOOKS, _INTERVAL, _PROBE, _DEFAULT_MS = (
    "topology.auto.task.hooks",
    "stormwright.probe.interval.ms",
    "stormwright.ExecutorProbe",
    1000.0,
)


@dataclass(slots=True)
class _Reports:
    """Records of the newest worker in a slot; all times are monotonic.

    `late_s` is the delay of the newest record beyond the shortest one lately, so that the difference of the clocks does
    not count; `on_time_s` is when one last was not late. `ends` has when workers in this slot ended unasked, and their
    age.
    """

    topology: str
    start_ms: int
    heard_s: float
    seq: int = -1
    interval_s: float = 0.0
    ended: bool = False
    late_s: float = 0.0
    on_time_s: float = 0.0
    shortest_s: float = float("inf")
    shortest_before_s: float = float("inf")
    shortest_since_s: float = 0.0
    millicores: int = 0
    usual_millicores: int = 0
    lowered_s: float = 0.0
    age_s: float = 0.0
    warm: bool = False
    ends: tuple[tuple[float, float], ...] = ()

    def take(self, record: LogRecord, now_s: float) -> None:
        """Take the next record."""
        self.seq, self.heard_s = record["seq"], now_s
        self.interval_s = record["length_ns"] / 1e9
        self.ended = bool(record["worker"].get("last"))
        self.age_s = (record["start_ms"] - record["worker"]["start_ms"]) / 1000 + self.interval_s
        threads, cpu_ns = record.get("threads"), record["process_cpu_ns"]
        compiling = threads["compiler_ns"] / cpu_ns if threads and cpu_ns else None
        self.warm = self.warm or is_warm(self.age_s, compiling)
        self._take_delay(now_s - record["written_ms"] / 1000, now_s)
        node = record.get("node")
        if node and (millicores := node.get("millicores")):
            self._take_cores(millicores, now_s)

    def _take_delay(self, delay_s: float, now_s: float) -> None:
        if now_s - self.shortest_since_s > _DELAY_S:
            self.shortest_before_s, self.shortest_s, self.shortest_since_s = self.shortest_s, delay_s, now_s
        self.shortest_s = min(self.shortest_s, delay_s)
        self.late_s = delay_s - min(self.shortest_s, self.shortest_before_s)
        if self.late_s > CHANGED_S:
            self.shortest_before_s = self.shortest_s = delay_s
            self.late_s = 0.0
        if self.late_s < LATE_S:
            self.on_time_s = now_s

    def _take_cores(self, millicores: int, now_s: float) -> None:
        if millicores >= FEW_CORES * self.usual_millicores:
            self.usual_millicores = max(millicores, self.usual_millicores)
            self.lowered_s = now_s
        elif now_s - self.lowered_s > USUAL_CORES_S:
            self.usual_millicores, self.lowered_s = millicores, now_s
        self.millicores = millicores

    def has_few_cores(self) -> bool:
        """Return whether the worker has fewer cores than usual."""
        return self.millicores < FEW_CORES * self.usual_millicores


class _Expected(NamedTuple):
    """A worker of the current placement: its topology, since when it is expected, and whether its start was observed.

    `executors` are those of the slot; with other ones Storm starts another worker there, and `replaces_ms` is the start
    of the one before, 0 for none.
    """

    topology: str
    since_s: float
    started: bool
    executors: tuple[int, ...]
    replaces_ms: int


class WorkerFault(NamedTuple):
    """A worker with a fault: the number of seconds or cores of it, and the usual number or that of times."""

    topology: str
    slot: WorkerSlot
    number: float
    usual: float = 0.0


class FailingTrees(NamedTuple):
    """A topology (id) of whose ended trees many fail or time out: the number that did, and that of all."""

    topology: str
    failed: int
    ended: int


@dataclass
class WorkerFaults:
    """Faults of workers at one moment.

    Parameters
    ----------
    silent, starting, late, slow, warming
        Workers that no longer report, have not reported yet, whose records arrive late, with few cores, and that warm
        up, with their age.
    crashing
        Workers that end again and again, with their age then, and how often.
    reporting
        Number of workers on each node (supervisor) that report.
    in_time
        Nodes with a worker whose records arrive in time.
    """

    silent: list[WorkerFault] = field(default_factory=list)
    starting: list[WorkerFault] = field(default_factory=list)
    late: list[WorkerFault] = field(default_factory=list)
    slow: list[WorkerFault] = field(default_factory=list)
    warming: list[WorkerFault] = field(default_factory=list)
    crashing: list[WorkerFault] = field(default_factory=list)
    reporting: dict[str, int] = field(default_factory=dict)
    in_time: set[str] = field(default_factory=set)

    @property
    def all_silent(self) -> bool:
        """Whether none of several workers reports."""
        return len(self.silent) > 1 and not self.reporting

    @property
    def all_late(self) -> bool:
        """Whether records arrive late or not at all from every one of several nodes."""
        nodes = self.reporting.keys() | {each.slot.supervisor for each in self.silent}
        return bool(self.late) and len(nodes) > 1 and not self.in_time


class WorkerReports:
    """Arrival of records by slot, and faults of expected workers; thread-safe.

    Parameters
    ----------
    clock
        Clock of the service.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._reports: dict[tuple[str, int], _Reports] = {}
        self._expected: dict[tuple[str, int], _Expected] = {}
        self._assigned: Mapping[str, TopologyAssignment] | None = None
        self._intervals: dict[str, float] = {}
        self._with_probe: set[str] = set()
        self._starts_s: deque[float] = deque(maxlen=_STARTS)
        #: Begin of each part, and trees acked and failed in it, by topology.
        self._ended: dict[str, deque[tuple[float, int, int]]] = {}
        self._next_sweep_s = 0.0
        #: When the newest record arrived, and the seconds that it covers.
        self.heard_s, self.interval_s = float("-inf"), 0.0

    def count(self, records: Iterable[LogRecord]) -> None:
        """Take new records."""
        now_s = self._clock.monotonic()
        with self._lock:
            for record in records:
                self.heard_s, self.interval_s = now_s, record["length_ns"] / 1e9
                worker = record["worker"]
                slot, topology, start_ms = (
                    (worker["supervisor"], worker["port"]),
                    worker["topology"],
                    worker["start_ms"],
                )
                self._count_trees(topology, record, now_s)
                known = self._reports.get(slot)
                if known is None or known.start_ms < start_ms:
                    self._note_start(slot, topology, known, now_s)
                    ends = self._ends(slot, topology, known, now_s)
                    known = self._reports[slot] = _Reports(topology, start_ms, now_s, ends=ends)
                if known.start_ms == start_ms and known.seq < record["seq"]:
                    known.take(record, now_s)
            if now_s >= self._next_sweep_s:
                self._next_sweep_s = now_s + _SWEEP_S
                self._reports = {
                    slot: each
                    for slot, each in self._reports.items()
                    if slot in self._expected or now_s - each.heard_s <= FORGOTTEN_S
                }

    def _count_trees(self, topology: str, record: LogRecord, now_s: float) -> None:
        every = (executor for executor in record["executors"] if executor["type"] == "spout")
        spouts = [executor for executor in every if executor["component"] != CHECKPOINT_SPOUT]
        acked, failed = (sum(spout[name] for spout in spouts) for name in ("acked", "failed"))
        if not acked and not failed:
            return
        parts, begin_s = self._ended.setdefault(topology, deque()), now_s // _PART_S * _PART_S
        if parts and parts[-1][0] == begin_s:
            _, acked_so_far, failed_so_far = parts.pop()
            acked, failed = acked + acked_so_far, failed + failed_so_far
        parts.append((begin_s, acked, failed))
        while parts[0][0] < now_s - FAILING_FOR_S - _PART_S:
            parts.popleft()

    def failing(self) -> list[FailingTrees]:
        """Return the topologies of whose trees many failed or timed out lately, the worst first."""
        since_s, found = self._clock.monotonic() - FAILING_FOR_S, []
        with self._lock:
            self._ended = {topology: parts for topology, parts in self._ended.items() if parts[-1][0] >= since_s}
            for topology, parts in self._ended.items():
                recent = [(acked, failed) for begin_s, acked, failed in parts if begin_s >= since_s]
                acked, failed = (sum(counts) for counts in zip(*recent, strict=True))
                least = MIN_MOST_FAILED if failed > acked else MIN_FAILED
                if failed >= max(least, FAILING * (acked + failed)):
                    found.append(FailingTrees(topology, failed, acked + failed))
        return sorted(found, key=lambda each: -each.failed / each.ended)

    def _note_start(self, slot: tuple[str, int], topology: str, before: _Reports | None, now_s: float) -> None:
        """Note the time from the placement of a worker to its first record."""
        self._with_probe.add(topology)
        expected = self._expected.get(slot)
        if expected is None or expected.topology != topology or not expected.started:
            return
        if before is None or before.heard_s < expected.since_s or before.start_ms == expected.replaces_ms:
            self._starts_s.append(now_s - expected.since_s)

    def _ends(
        self, slot: tuple[str, int], topology: str, before: _Reports | None, now_s: float
    ) -> tuple[tuple[float, float], ...]:
        """Return when workers in a slot ended lately although the placement stayed, and their age."""
        expected = self._expected.get(slot)
        if before is None or expected is None or not before.topology == expected.topology == topology:
            return ()
        if before.heard_s < expected.since_s or before.start_ms == expected.replaces_ms:
            return ()  # it was replaced
        lately = tuple(end for end in before.ends if now_s - end[0] <= CRASHES_S)
        return (*lately, (now_s, before.age_s)) if before.age_s <= CRASHES_S else lately

    def expect(self, problem: Problem) -> None:
        """Expect the workers of a placement; cheap if it is the same as before."""
        if problem.current is self._assigned:
            return
        now_s, before = self._clock.monotonic(), self._assigned
        expected: dict[tuple[str, int], _Expected] = {}
        intervals: dict[str, float] = {}
        with_probe = {each.id for each in problem.topologies if _has_probe(each.conf)}
        for topology in problem.topologies:
            intervals[topology.id] = _interval_s(topology.conf)
            assignment = problem.current.get(topology.id)
            if assignment is None:
                continue
            known = before is not None and before.get(topology.id) == assignment
            executors = {} if known else _executors(assignment)
            for number, slot in enumerate(assignment.slots):
                old = self._expected.get(slot)
                same = old is not None and old.topology == topology.id
                if old and same and (known or old.executors == executors.get(number, ())):
                    expected[slot] = old
                else:
                    reports = self._reports.get(slot) if before is not None else None
                    replaces_ms = reports.start_ms if reports and reports.topology == topology.id else 0
                    own = executors.get(number, ())
                    expected[slot] = _Expected(topology.id, now_s, before is not None, own, replaces_ms)
        with self._lock:
            self._assigned, self._expected, self._intervals = problem.current, expected, intervals
            self._with_probe = with_probe | (self._with_probe & intervals.keys())

    @property
    def _longest_start_s(self) -> float:
        """Seconds without a first record from which a worker is named."""
        if not self._starts_s:
            return FIRST_STARTING_S
        return max(STARTING_S, STARTING_TIMES * median(self._starts_s))

    def faults(self, since_s: float, statuses: Mapping[str, str] | None) -> WorkerFaults:
        """Return the faults of all expected workers.

        Parameters
        ----------
        since_s
            When the service started to receive records; silence before does not count.
        statuses
            Status of each topology (id); None if unknown. Workers of one that is killed or rebalanced are not expected.
        """
        now_s, found = self._clock.monotonic(), WorkerFaults()
        with self._lock:
            start_s, reporting = self._longest_start_s, found.reporting
            ending = {t for t in self._intervals if statuses is not None and statuses.get(t) not in _RUNNING}
            for slot, expected in self._expected.items():
                topology = expected.topology
                if topology in ending or topology not in self._with_probe:
                    continue
                reports, interval_s = self._reports.get(slot), self._intervals[topology]
                reports = reports if reports and reports.topology == topology else None
                ends = [age_s for end_s, age_s in reports.ends if now_s - end_s <= CRASHES_S] if reports else []
                if len(ends) >= CRASHES:
                    found.crashing.append(WorkerFault(topology, WorkerSlot(*slot), median(ends), len(ends)))
                    continue
                if reports and not reports.ended:
                    silent_s = now_s - max(reports.heard_s, since_s)
                    if silent_s <= max(SILENT_S, SILENT_INTERVALS * max(interval_s, reports.interval_s)):
                        reporting[slot[0]] = reporting.get(slot[0], 0) + 1
                        if not reports.warm:
                            found.warming.append(WorkerFault(topology, WorkerSlot(*slot), reports.age_s))
                        in_time = silent_s <= max(interval_s, reports.interval_s) + OVERDUE_S
                        _add_slowness(found, WorkerSlot(*slot), reports, in_time=in_time)
                        continue
                    if reports.heard_s >= expected.since_s and reports.start_ms != expected.replaces_ms:
                        found.silent.append(WorkerFault(topology, WorkerSlot(*slot), silent_s))
                        continue
                silent_s = now_s - max(expected.since_s, reports.heard_s if reports else since_s, since_s)
                if silent_s >= max(start_s, SILENT_S + SILENT_INTERVALS * interval_s):
                    found.starting.append(WorkerFault(topology, WorkerSlot(*slot), silent_s))
        return found


def _add_slowness(found: WorkerFaults, slot: WorkerSlot, reports: _Reports, *, in_time: bool) -> None:
    if reports.late_s < LATE_S and in_time:
        found.in_time.add(slot.supervisor)
    if reports.late_s >= LATE_S and reports.heard_s - reports.on_time_s >= LATE_FOR_S:
        found.late.append(WorkerFault(reports.topology, slot, reports.late_s))
    if reports.has_few_cores():
        cores, usual = reports.millicores / 1000, reports.usual_millicores / 1000
        found.slow.append(WorkerFault(reports.topology, slot, cores, usual))


def _has_probe(conf: Mapping[str, object]) -> bool:
    hooks = conf.get(_HOOKS)
    return isinstance(hooks, Sequence) and _PROBE in hooks


def _interval_s(conf: Mapping[str, object]) -> float:
    try:
        return float(str(conf.get(_INTERVAL, _DEFAULT_MS))) / 1000
    except ValueError:
        return _DEFAULT_MS / 1000


def _executors(assignment: TopologyAssignment) -> dict[int, tuple[int, ...]]:
    """Return the executors in each slot (numbers)."""
    found: dict[int, list[int]] = {}
    for executor, slot in enumerate(assignment.slot_of_executor):
        found.setdefault(slot, []).append(executor)
    return {slot: tuple(executors) for slot, executors in found.items()}
