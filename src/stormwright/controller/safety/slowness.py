"""Detection of nodes that became slow, compared with their own past and with their peers.

A node's change is what its components take for a tuple beyond what they used to take there, and beyond that part of it
which those on other nodes take more, too: of the two logarithms the smaller. So neither a load that becomes harder
everywhere, nor peers that become faster, make a node slow. The change of a node is the median over its components by
their work, and is added up by a one-sided CUSUM (Page, "Continuous inspection schemes", Biometrika 41, 1954,
https://doi.org/10.1093/biomet/41.1-2.100) with a threshold that follows from how rare a false alarm shall be
(`stormwright.pipeline.monitoring.cusum`). It is made robust as in Hampel et al., "Robust Statistics", 1986,
https://doi.org/10.1002/9781118186435: no single window, however long a pause it has, counts for more than a fourth of
what an alarm takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import expm1, log, log1p, sqrt
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from stormwright.pipeline.monitoring.cusum import cusum_threshold

# Work per tuple -----------------------------------------------------------------------------------
# Time per tuple of each component on each node, window by window, from the performance log.

#: Length of a window in seconds, and how many windows later records of it still count.
WINDOW_S, LATE_WINDOWS = 5, 1

#: Age in seconds below which workers are warming up; and the minimum number of tuples in a window.
WARM_S, MIN_TUPLES = 120.0, 20

#: Maximum number of components per node, those with most work, which bounds the memory per node.
MAX_COMPONENTS = 8

#: Number of nodes from which excluding one does not change the median noticeably.
_MANY = 16

#: Topology (id) and component.
ComponentKey = tuple[str, str]

#: Measures per tuple: CPU time, and time in `execute` without waiting for a core.
CPU, TIME = 0, 1


class WorkSample(NamedTuple):
    """Time per tuple of a component on a node in a window.

    Parameters
    ----------
    component
        Ids of the topology and of the component.
    tasks
        First tasks of its executors there; other executors have other figures.
    own
        Log of ns a tuple, by `CPU` and `TIME`.
    peers
        The same in the median over all other nodes.
    work_ns
        Weight: CPU time of all its tuples there.
    """

    component: ComponentKey
    tasks: frozenset[int]
    own: tuple[float, float]
    peers: tuple[float, float]
    work_ns: int


@dataclass
class _WorkSum:
    cpu_ns: int = 0
    time_ns: int = 0
    tuples: int = 0
    tasks: set[int] = field(default_factory=set)

    def add(self, executor: Mapping[str, Any]) -> None:
        cpu_ns = executor["cpu_ns"]
        self.cpu_ns += cpu_ns
        self.time_ns += max(executor["execute_ns"] - (executor.get("waited_ns") or 0), cpu_ns)
        self.tuples += executor["received"]
        self.tasks.add(executor["first_task"])

    def logs(self) -> tuple[float, float] | None:
        """Return logs of time per tuple by `CPU` and `TIME`; None if too little was executed."""
        if self.tuples < MIN_TUPLES or not self.cpu_ns:
            return None
        return log(self.cpu_ns / self.tuples), log(self.time_ns / self.tuples)


class WorkWindows:
    """Windows of summed records, each emitted once it is complete.

    Only bolts count: spouts have no time per tuple. A component on a single node has no peers and is ignored.
    """

    def __init__(self) -> None:
        self._windows: dict[int, defaultdict[tuple[ComponentKey, str], _WorkSum]] = {}
        self._newest = self._given = -1

    def count(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records; records of emitted windows are dropped."""
        for record in records:
            worker, window = record["worker"], record["start_ms"] // (1000 * WINDOW_S)
            if window <= self._given or record["start_ms"] - worker["start_ms"] < 1000 * WARM_S:
                continue
            self._newest = max(self._newest, window)
            sums = self._windows.setdefault(window, defaultdict(_WorkSum))
            for executor in record["executors"]:
                if executor["received"] and executor.get("type") != "spout":
                    sums[(worker["topology"], executor["component"]), worker["supervisor"]].add(executor)

    def over(self) -> Iterator[Mapping[str, list[WorkSample]]]:
        """Yield samples per node of each complete window not yet emitted, the oldest first."""
        for window in sorted(self._windows):
            if window < self._newest - LATE_WINDOWS:
                self._given = window
                yield _samples(self._windows.pop(window))


def _samples(sums: Mapping[tuple[ComponentKey, str], _WorkSum]) -> dict[str, list[WorkSample]]:
    known: defaultdict[ComponentKey, dict[str, tuple[float, float]]] = defaultdict(dict)
    for (component, node), total in sums.items():
        if logs := total.logs():
            known[component][node] = logs
    found: defaultdict[str, list[WorkSample]] = defaultdict(list)
    for component, by_node in known.items():
        if len(by_node) > 1:
            others = _of_others(by_node)
            for node, logs in by_node.items():
                total = sums[component, node]
                found[node].append(WorkSample(component, frozenset(total.tasks), logs, others[node], total.cpu_ns))
    return {
        node: sorted(samples, key=lambda each: (-each.work_ns, each.component))[:MAX_COMPONENTS]
        for node, samples in found.items()
    }


def _of_others(by_node: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return the median over all other nodes per node; with many nodes, the median over all."""
    if len(by_node) > _MANY:
        whole = median(logs[CPU] for logs in by_node.values()), median(logs[TIME] for logs in by_node.values())
        return dict.fromkeys(by_node, whole)
    found = {}
    for node in by_node:
        others = [logs for other, logs in by_node.items() if other != node]
        found[node] = median(logs[CPU] for logs in others), median(logs[TIME] for logs in others)
    return found


# Slowness -----------------------------------------------------------------------------------------

#: Display names of the measures of a slow node.
MEASURES = {CPU: "CPU per tuple", TIME: "time per tuple"}

#: Minimum windows of a reference, and the maximum weight: older ones fade.
MIN_WINDOWS, MAX_WINDOWS = 6, 120

#: Deviations assumed until they are known, by `CPU` and `TIME` (docs/results/slow-nodes.md), and the windows
#: that the assumption counts for; older windows lose weight.
_ASSUMED, _ASSUMED_WINDOWS, _DECAY = (0.1, 0.5), 10.0, 0.99

#: Error of the reference in deviations, and the deviations by which noise stays below its allowance.
_REFERENCE_OFF, _MIN_DRIFT = 3.0, 0.75

#: Cap of successive differences in deviations; and of one window as a part of the alarm threshold.
_OUTLIER, _OF_ALARM = 3.0, 1 / 4


@dataclass(frozen=True)
class SlownessSettings:
    """Settings of the detection of slow nodes.

    Parameters
    ----------
    least_change
        Relative slowdown to detect; changes below about half of it are never detected, which tolerates variations
        within minutes.
    false_alarm_h
        Node-hours from one false alarm to the next, where noise is independent from window to window.
    """

    least_change: float = 0.5
    false_alarm_h: float = 1_000_000.0


@dataclass(frozen=True)
class SlowNode:
    """A node that became slow.

    Parameters
    ----------
    node
        Id of its supervisor.
    by
        Rise of `measure` beyond past and peers, as a fraction; 0.5 is 50 %.
    measure
        Quantity that rose, one of the texts in `MEASURES`.
    for_s
        Time in seconds since the slowdown began.
    """

    node: str
    by: float
    measure: str
    for_s: float

    def __str__(self) -> str:
        return f"{self.measure} is up by {self.by:.0%} for {self.for_s:.0f} s, beyond its past and its peers"


@dataclass
class _Reference:
    """Reference of a component on a node: mean logs, absolute and relative to peers, by `CPU` and `TIME`."""

    tasks: frozenset[int]
    own: list[float]
    beyond: list[float]
    windows: int = 1

    def change(self, sample: WorkSample, of: int) -> float:
        own = sample.own[of] - self.own[of]
        return min(own, sample.own[of] - sample.peers[of] - self.beyond[of])

    def learn(self, sample: WorkSample) -> None:
        self.windows = min(self.windows + 1, MAX_WINDOWS)
        for of in MEASURES:
            self.own[of] += (sample.own[of] - self.own[of]) / self.windows
            self.beyond[of] += (sample.own[of] - sample.peers[of] - self.beyond[of]) / self.windows


@dataclass
class _Sum:
    """The CUSUM of one measure of a node; `changes` are those of the windows since it is above 0."""

    total: float = 0.0
    windows: int = 0
    changes: float = 0.0
    last: float | None = None
    squares: float = 0.0
    weight: float = 0.0
    suspect: bool = False
    slow: bool = False

    def noise(self, assumed: float) -> float:
        return sqrt((_ASSUMED_WINDOWS * assumed**2 + self.squares) / (_ASSUMED_WINDOWS + self.weight))


@dataclass
class _Node:
    references: dict[ComponentKey, _Reference] = field(default_factory=dict)
    sums: tuple[_Sum, _Sum] = field(default_factory=lambda: (_Sum(), _Sum()))


class SlowNodes:
    """Detector of slow nodes, with bounded memory per node.

    Parameters
    ----------
    settings
        Settings of the detection.
    """

    def __init__(self, settings: SlownessSettings | None = None) -> None:
        self._settings = settings or SlownessSettings()
        self._alarm_windows = self._settings.false_alarm_h * 3600 / WINDOW_S * len(MEASURES)
        self._nodes: dict[str, _Node] = {}
        self._thresholds: dict[int, float] = {}
        self.slow: dict[str, SlowNode] = {}

    def take(self, window: Mapping[str, Sequence[WorkSample]]) -> list[SlowNode]:
        """Process the samples of a window and return nodes that are slow from now on.

        Parameters
        ----------
        window
            Node → samples of its components; nodes that did nothing are left out.
        """
        found = []
        for name, samples in window.items():
            node = self._nodes.setdefault(name, _Node())
            before, slow_node = name in self.slow, self._judge(node, name, samples)
            if slow_node is None:
                self.slow.pop(name, None)
            else:
                self.slow[name] = slow_node
                found += [] if before else [slow_node]
            self._learn(node, samples)
        return found

    def forget(self, nodes: Sequence[str]) -> None:
        """Drop the references of nodes that are gone or were repaired."""
        for name in nodes:
            self._nodes.pop(name, None)
            self.slow.pop(name, None)

    def _judge(self, node: _Node, name: str, samples: Sequence[WorkSample]) -> SlowNode | None:
        """Return the node if it is slow now, by its worst measure."""
        known = [
            (sample, reference)
            for sample in samples
            if (reference := node.references.get(sample.component))
            and reference.tasks == sample.tasks
            and reference.windows >= MIN_WINDOWS
        ]
        for of, total in enumerate(node.sums):
            if known:
                changes = [(reference.change(sample, of), sample.work_ns) for sample, reference in known]
                self._add(total, of, _middle(changes), min(reference.windows for _, reference in known))
        slow = [of for of, total in enumerate(node.sums) if total.slow]
        if not slow:
            return None
        of = slow[0]
        total = node.sums[of]
        return SlowNode(name, expm1(total.changes / total.windows), MEASURES[of], total.windows * float(WINDOW_S))

    def _add(self, total: _Sum, of: int, change: float, windows: int) -> None:
        noise = total.noise(_ASSUMED[of])
        if total.last is not None and not total.suspect:
            # Successive differences show noise alone; during a change they may be a part of it.
            step = min(abs(change - total.last), _OUTLIER * sqrt(2) * noise)
            total.squares = _DECAY * total.squares + step**2 / 2
            total.weight = _DECAY * total.weight + 1
        total.last = change
        allowance, behind = self._allowance(noise, windows)
        alarm = max(noise * self._threshold(behind), allowance)
        total.total = min(max(total.total + min(change, allowance + _OF_ALARM * alarm) - allowance, 0.0), 2 * alarm)
        total.windows, total.changes = (total.windows + 1, total.changes + change) if total.total else (0, 0.0)
        total.suspect = total.total > alarm / 2
        total.slow = total.total > alarm or (total.slow and total.total > 0)

    def _allowance(self, noise: float, windows: int) -> tuple[float, float]:
        """Return the allowance of the CUSUM, and the deviations by which noise stays below it."""
        off = _REFERENCE_OFF / sqrt(windows) * noise
        allowance = max(log1p(self._settings.least_change) / 2, off + _MIN_DRIFT * noise)
        return allowance, (allowance - off) / noise

    def _threshold(self, behind: float) -> float:
        """Return the alarm threshold in deviations, cached by `behind` in hundredths."""
        key = int(100 * behind)
        if key not in self._thresholds:
            self._thresholds[key] = float(cusum_threshold(np.array([key / 100]), self._alarm_windows)[0])
        return self._thresholds[key]

    def _learn(self, node: _Node, samples: Sequence[WorkSample]) -> None:
        suspect = any(total.suspect for total in node.sums)
        # New executors on a suspected node do not prove that it is healthy.
        by = [total.changes / total.windows if total.suspect else 0.0 for total in node.sums]
        current = {}
        for sample in samples:
            reference = node.references.get(sample.component)
            if reference is None or reference.tasks != sample.tasks:
                own = [now - up for now, up in zip(sample.own, by, strict=True)]
                beyond = [now - peers for now, peers in zip(own, sample.peers, strict=True)]
                reference = _Reference(sample.tasks, own, beyond)
            elif not suspect or reference.windows < MIN_WINDOWS:
                reference.learn(sample)
            current[sample.component] = reference
        # Components with too little work now may do more soon.
        rest = {name: each for name, each in node.references.items() if name not in current}
        node.references = current | dict(list(rest.items())[:MAX_COMPONENTS])


def _middle(values: Sequence[tuple[float, int]]) -> float:
    """Return the weighted median of values, the lower of two."""
    ranked, half = sorted(values), sum(weight for _, weight in values) / 2
    total = 0.0
    for value, weight in ranked:
        total += weight
        if total >= half:
            return value
    return ranked[-1][0]
