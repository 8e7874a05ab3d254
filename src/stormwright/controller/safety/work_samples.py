"""Time per tuple of each component on each node, window by window, from the performance log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from statistics import median
from typing import Any, NamedTuple

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
