"""Count of tuples that cross between nodes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Crossing(NamedTuple):
    """Tuples of one record, or of several.

    Parameters
    ----------
    crossing
        Tuples from one node to another.
    unknown
        Tuples to a task whose node no record reports.
    """

    crossing: int
    unknown: int


class TaskNodes:
    """Node of each task of a topology, by executors: the memory does not depend on the number of tasks in a record."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._of_first: dict[int, tuple[int, str]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the executors of a record's worker."""
        for executor in record["executors"]:
            self.put(executor["first_task"], executor["last_task"], record["worker"]["supervisor"])

    def put(self, first: int, last: int, node: str) -> None:
        """Set the node of an executor of the tasks from `first` to `last`; earlier information on these is dropped."""
        known = self._of_first.get(first)
        if known is None or known[0] != last:
            begin = bisect_left(self._firsts, first)
            end = bisect_right(self._firsts, last)
            for gone in self._firsts[begin:end]:
                del self._of_first[gone]
            self._firsts[begin:end] = [first]
        self._of_first[first] = (last, node)

    def of(self, task: int) -> str | None:
        """Return the node of a task, None while unknown."""
        position = bisect_right(self._firsts, task) - 1
        if position < 0:
            return None
        last, node = self._of_first[self._firsts[position]]
        return node if task <= last else None


def tasks_on_nodes(records: Iterable[Mapping[str, Any]]) -> TaskNodes:
    """Return the nodes of tasks by the records of one topology; the last record counts if they differ."""
    found = TaskNodes()
    for record in records:
        found.add(record)
    return found


def crossing(record: Mapping[str, Any], node_of: TaskNodes) -> Crossing:
    """Count the tuples that a worker's executors sent, each once; tuples to the system's own task count for neither."""
    here, crossed, unknown = record["worker"]["supervisor"], 0, 0
    for _, target, _, tuples, _ in record["pairs"]:
        there = node_of.of(target)
        if there is None and target > 0:
            unknown += tuples
        elif there is not None and there != here:
            crossed += tuples
    return Crossing(crossed, unknown)
