"""What a stream of loads tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict


class Progress(TypedDict):
    """Where a stream stands, as programs read it.

    Parameters
    ----------
    error
        Why it does not run, or why a batch failed that is being repeated.
    batch, batch_ms
        The last one, -1 before the first, and how long it took.
    restarts, files_set_aside
        After failed batches, and because batches failed over them.
    profile_age_s
        Seconds since the last profile.
    lag_ms
        p50 and p95 of the time from a record's writing until a profile held it.
    ledger
        Lines by what became of them.
    unknown_tuples
        By topology that was noted: tuples that the last profile leaves out, from or to tasks of no known executor.
    nodes
        Name (``node``), CPU and headroom in cores, heap of the workers, by supervisor.
    complete_latency_ms
        Quantiles, by topology.
    queries
        Spark's figures of the last batches, and restarts, by query.
    alarms
        Those that are up and that ended last, each with the name of its ``node``; None where none are wanted.
    """

    running: bool
    error: str | None
    batch: int
    batch_ms: NotRequired[float | None]
    restarts: NotRequired[int]
    files_set_aside: NotRequired[int]
    profile_age_s: NotRequired[float | None]
    lag_ms: NotRequired[Mapping[str, float] | None]
    ledger: NotRequired[Mapping[str, int]]
    unknown_tuples: NotRequired[Mapping[str, int]]
    nodes: NotRequired[Mapping[str, Any]]
    complete_latency_ms: NotRequired[Mapping[str, Mapping[str, float | None]]]
    queries: NotRequired[Mapping[str, Any]]
    alarms: NotRequired[Mapping[str, Any] | None]


def with_names(progress: Progress, name: Callable[[str], str]) -> Progress:
    """The same with what people call each node.

    Parameters
    ----------
    progress
        Where the stream stands, which knows of nodes what records tell: ids of supervisors.
    name
        Of a node, by that id.
    """
    named = progress.copy()
    if "nodes" in progress:
        named["nodes"] = {node: {"node": name(node), **load} for node, load in progress["nodes"].items()}
    if alarms := progress.get("alarms"):
        told = {kind: [{"node": name(each["supervisor"]), **each} for each in alarms[kind]] for kind in ("up", "ended")}
        named["alarms"] = {**alarms, **told}
    return named
