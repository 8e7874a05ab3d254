"""What crosses a node: the one count of tuples that went from a node to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

#: Of an executor that says it has more tasks only the first so many are known: a record is not to fill the memory.
MAX_TASKS = 100_000


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


def tasks_on_nodes(records: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """Task → supervisor, as the records of one topology tell, the last one where they differ."""
    return {
        task: record["worker"]["supervisor"]
        for record in records
        for executor in record["executors"]
        for task in range(executor["first_task"], min(executor["last_task"] + 1, executor["first_task"] + MAX_TASKS))
    }


def crossing(record: Mapping[str, Any], node_of: Mapping[int, str]) -> Crossing:
    """Count what a worker's executors sent, each tuple once; what goes to the system's own task counts for neither."""
    here, crossed, unknown = record["worker"]["supervisor"], 0, 0
    for _, target, _, tuples, _ in record["pairs"]:
        there = node_of.get(target)
        if there is None and target > 0:
            unknown += tuples
        elif there is not None and there != here:
            crossed += tuples
    return Crossing(crossed, unknown)
