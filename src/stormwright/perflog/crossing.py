"""What crosses a node: the one count of tuples that went from a node to another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Crossing(NamedTuple):
    """Tuples of one record, or of several.

    Parameters
    ----------
    crossing
        Those that went from one node to another.
    unknown
        Those to a task of which no record told where it runs.
    """

    crossing: int
    unknown: int


class TaskNodes:
    """Which node each task of a topology runs on, by executors: a record may tell of as many tasks as it likes."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._of_first: dict[int, tuple[int, str]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Take note of what a record tells of its worker's executors."""
        for executor in record["executors"]:
            self.put(executor["first_task"], executor["last_task"], record["worker"]["supervisor"])

    def put(self, first: int, last: int, node: str) -> None:
        """An executor of the tasks from `first` to `last` runs on a node; what was told of these before is over."""
        known = self._of_first.get(first)
        if known is None or known[0] != last:
            begin = bisect_left(self._firsts, first)
            end = bisect_right(self._firsts, last)
            for gone in self._firsts[begin:end]:
                del self._of_first[gone]
            self._firsts[begin:end] = [first]
        self._of_first[first] = (last, node)

    def of(self, task: int) -> str | None:
        """The node of a task, None while unknown."""
        position = bisect_right(self._firsts, task) - 1
        if position < 0:
            return None
        last, node = self._of_first[self._firsts[position]]
        return node if task <= last else None


def tasks_on_nodes(records: Iterable[Mapping[str, Any]]) -> TaskNodes:
    """Where tasks run, as the records of one topology tell, the last one where they differ."""
    found = TaskNodes()
    for record in records:
        found.add(record)
    return found


def crossing(record: Mapping[str, Any], node_of: TaskNodes) -> Crossing:
    """Count what a worker's executors sent, each tuple once; what goes to the system's own task counts for neither."""
    here, crossed, unknown = record["worker"]["supervisor"], 0, 0
    for _, target, _, tuples, _ in record["pairs"]:
        there = node_of.of(target)
        if there is None and target > 0:
            unknown += tuples
        elif there is not None and there != here:
            crossed += tuples
    return Crossing(crossed, unknown)
