"""What a tuple takes in each component on each node, window by window, from the performance log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from statistics import median
from typing import Any, NamedTuple

#: Length of a window in seconds, and how many windows later records of it still count.
WINDOW_S, LATE_WINDOWS = 5, 1

#: Workers that are younger, in seconds, are warming up; fewer tuples than this in a window tell nothing.
WARM_S, LEAST_TUPLES = 120.0, 20

#: Components of a node that are looked at, those with most work: so what is kept grows with the nodes alone.
MOST_COMPONENTS = 8

#: Nodes of a component from which on one more or less changes nothing in the median.
_MANY = 16

#: Topology (id) and component.
ComponentKey = tuple[str, str]

#: What is measured of a tuple: CPU time, and time in `execute` without what its thread waited for a core.
CPU, TIME = 0, 1


class WorkSample(NamedTuple):
    """What a tuple of a component took on a node in a window.

    Parameters
    ----------
    component
        Which one.
    tasks
        First tasks of its executors there: of others it would be another figure.
    own
        Log of ns a tuple, by `CPU` and `TIME`.
    peers
        The same in the median over all other nodes.
    work_ns
        What it weighs by: CPU time of all its tuples there.
    """

    component: ComponentKey
    tasks: frozenset[int]
    own: tuple[float, float]
    peers: tuple[float, float]
    work_ns: int


@dataclass
class _Sum:
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
        """By `CPU` and `TIME`; None where too little was done."""
        if self.tuples < LEAST_TUPLES or not self.cpu_ns:
            return None
        return log(self.cpu_ns / self.tuples), log(self.time_ns / self.tuples)


class WorkWindows:
    """Adds records up, and gives each window out once it is over.

    Bolts count, not spouts: those are not told how long a tuple takes. A component that runs on one node only has no
    peers, and tells nothing of it.
    """

    def __init__(self) -> None:
        self._windows: dict[int, defaultdict[tuple[ComponentKey, str], _Sum]] = {}
        self._newest = self._given = -1

    def count(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records; those of windows that were given out are too late."""
        for record in records:
            worker, window = record["worker"], record["start_ms"] // (1000 * WINDOW_S)
            if window <= self._given or record["start_ms"] - worker["start_ms"] < 1000 * WARM_S:
                continue
            self._newest = max(self._newest, window)
            sums = self._windows.setdefault(window, defaultdict(_Sum))
            for executor in record["executors"]:
                if executor["received"] and executor.get("type") != "spout":
                    sums[(worker["topology"], executor["component"]), worker["supervisor"]].add(executor)

    def over(self) -> Iterator[Mapping[str, list[WorkSample]]]:
        """Node → its samples, of each window that is over and was not given out, the oldest first."""
        for window in sorted(self._windows):
            if window < self._newest - LATE_WINDOWS:
                self._given = window
                yield _samples(self._windows.pop(window))


def _samples(sums: Mapping[tuple[ComponentKey, str], _Sum]) -> dict[str, list[WorkSample]]:
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
        node: sorted(samples, key=lambda each: (-each.work_ns, each.component))[:MOST_COMPONENTS]
        for node, samples in found.items()
    }


def _of_others(by_node: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The median over all others than each node; of many nodes that over all is as good, and costs less."""
    if len(by_node) > _MANY:
        whole = median(logs[CPU] for logs in by_node.values()), median(logs[TIME] for logs in by_node.values())
        return dict.fromkeys(by_node, whole)
    found = {}
    for node in by_node:
        others = [logs for other, logs in by_node.items() if other != node]
        found[node] = median(logs[CPU] for logs in others), median(logs[TIME] for logs in others)
    return found
