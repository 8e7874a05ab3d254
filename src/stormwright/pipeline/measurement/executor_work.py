"""Work of executors: time per tuple, and output by stream and target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model.arrays import IntArray
from stormwright.pipeline.measurement.windows import (
    kind_of,
    numbers,
)

#: The grouping that sends every tuple to each of its targets.
_TO_EACH = "all"

_STREAM = ["source", "stream", "component", "grouping"]


@dataclass(frozen=True)
class ExecutorWork:
    """Tuples that one executor processed, and the time per tuple.

    Parameters
    ----------
    received_tps
        Tuples that it executed per second.
    service_s
        Execute time per tuple; None where it executed none, as of spouts.
    """

    component: str
    first_task: int
    last_task: int
    received_tps: float
    service_s: float | None


@dataclass(frozen=True)
class StreamTraffic:
    """Traffic of one stream to one subscribed component.

    Parameters
    ----------
    source, stream, target, grouping
        Names as in the topology.
    sent_tps
        Tuples per second, counted at the source once for each task that they go to.
    bytes_per_s
        Their bytes per second, from sampled sizes; None without samples.
    selectivity
        Tuples emitted per tuple that the source executes; one that an ``all`` grouping sends to many tasks counts once.
        None where the source executes none, as a spout.
    shares
        Per task of the target its share of the tuples, which add up to 1. Empty where the grouping follows the
        placement: there the shares are the placement's.
    """

    source: str
    stream: str
    target: str
    grouping: str
    sent_tps: float
    bytes_per_s: float | None
    selectivity: float | None
    shares: Mapping[int, float]

    @property
    def skew(self) -> float | None:
        """The busiest task's share relative to an even share; at least 1. None without shares."""
        return max(self.shares.values()) * len(self.shares) if self.shares else None


def executor_work(facts: pa.Table) -> list[ExecutorWork]:
    """Return the work of each executor from the facts of one topology in one window, by task."""
    return [
        ExecutorWork(
            component=run["component"],
            first_task=run["first"],
            last_task=run["second"],
            received_tps=run["received"] / run["length_ns"] * 1e9,
            service_s=run["execute_ns"] / run["received"] / 1e9 if run["received"] else None,
        )
        for run in _runs(facts).to_pylist()
    ]


def stream_traffic(facts: pa.Table) -> list[StreamTraffic]:
    """Return the traffic of each stream from the facts of one topology in one window, in order of names.

    Rates are per second of the time that an executor's records cover, so that lost records change no ratio of them.
    """
    runs = _runs(facts)
    received_tps: dict[str, float] = {}
    tasks_of: dict[str, list[int]] = {}
    for run in runs.to_pylist():
        component, covered_s = run["component"], run["length_ns"] / 1e9
        received_tps[component] = received_tps.get(component, 0.0) + run["received"] / covered_s
        tasks_of.setdefault(component, []).extend(range(run["first"], run["second"] + 1))
    return [
        _traffic(keys, sent, received_tps[keys["source"]], tasks_of.get(keys["component"], []))
        for keys, sent in _by_stream(facts, runs)
    ]


def _traffic(keys: dict[str, str], sent: _StreamOutput, received_tps: float, tasks: list[int]) -> StreamTraffic:
    tps_by_task = sent.tps_by_task
    sent_tps = sum(tps_by_task.values())
    emitted_tps = sent_tps / len(tps_by_task) if keys["grouping"] == _TO_EACH else sent_tps
    known = {task: tps for task, tps in tps_by_task.items() if task is not None}
    # A task that receives nothing has a share of 0.
    shares = {task: known.get(task, 0.0) / sent_tps for task in sorted({*tasks, *known})} if known and sent_tps else {}
    return StreamTraffic(
        source=keys["source"],
        stream=keys["stream"],
        target=keys["component"],
        grouping=keys["grouping"],
        sent_tps=sent_tps,
        bytes_per_s=None if sent.bytes_per_tuple is None else sent_tps * sent.bytes_per_tuple,
        selectivity=emitted_tps / received_tps if received_tps else None,
        shares=shares,
    )


class _StreamOutput(NamedTuple):
    """Output of a stream: tuples/s per target task (None if it follows the placement); mean tuple size."""

    tps_by_task: dict[int | None, float]
    bytes_per_tuple: float | None


def _by_stream(facts: pa.Table, runs: pa.Table) -> list[tuple[dict[str, str], _StreamOutput]]:
    """Return the output per stream and target component."""
    traffic = facts.filter(pc.is_in(facts["kind"], pa.array(["pair", "flow"])))
    source = _run_of(runs, traffic["first"])
    known = source >= 0
    traffic, source = traffic.filter(pa.array(known)), source[known]
    tps = numbers(traffic, "tuples") / (numbers(runs, "length_ns") / 1e9)[source]
    to_tasks = (
        pa.table(
            {
                "source": runs["component"].take(pa.array(source)),
                **{name: traffic[name] for name in (*_STREAM[1:], "second", "bytes", "sampled")},
                "tps": tps,
            }
        )
        .group_by([*_STREAM, "second"], use_threads=False)
        .aggregate([("tps", "sum"), ("bytes", "sum"), ("sampled", "sum")])
        .sort_by([(name, "ascending") for name in _STREAM])
    )
    found = []
    for keys, rows in groupby(to_tasks.to_pylist(), key=lambda row: {name: row[name] for name in _STREAM}):
        tasks = list(rows)
        size, sampled = (sum(row[f"{name}_sum"] or 0 for row in tasks) for name in ("bytes", "sampled"))
        by_task = {row["second"]: row["tps_sum"] for row in tasks}
        found.append((keys, _StreamOutput(by_task, size / sampled if sampled else None)))
    return found


def _runs(facts: pa.Table) -> pa.Table:
    """Return one row per executor, by its first task, across all places where it ran."""
    sums = ["length_ns", "received", "execute_ns"]
    return (
        kind_of(facts, "executor")
        .group_by(["component", "first", "second"], use_threads=False)
        .aggregate([(name, "sum") for name in sums])
        .rename_columns(["component", "first", "second", *sums])
        .sort_by("first")
    )


def _run_of(runs: pa.Table, tasks: pa.ChunkedArray) -> IntArray:
    """Return the row of the executor that runs each task, -1 for none."""
    wanted = tasks.to_numpy()
    row = np.searchsorted(runs["first"].to_numpy(), wanted, side="right") - 1
    # A task before the first executor has row -1, which selects the appended element.
    last = np.append(runs["second"].to_numpy(), -1)[row]
    return np.where((row >= 0) & (wanted <= last), row, -1).astype(np.int32)
