"""Progress of a stream of loads, for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict


class StreamProgress(TypedDict):
    """Progress of a stream, for programs.

    Parameters
    ----------
    error
        Why the stream does not run, or why a batch that is being repeated failed.
    batch, batch_ms
        Number of the last batch, -1 before the first, and its duration.
    restarts, files_set_aside
        Restarts after failed batches, and files set aside because batches failed over them.
    profile_age_s
        Seconds since the last profile.
    lag_ms
        p50 and p95 of the time from a record's writing until a profile held it, for the last minute with records.
    ledger
        Counts of lines by result.
    unknown_tuples
        By topology that was noted: tuples that the last profile leaves out, from or to tasks of no known executor.
    nodes
        Name (``node``), CPU and headroom in cores, heap of the workers, by supervisor.
    complete_latency_ms
        Quantiles of the complete latency by topology.
    queries
        Spark's figures of the last batches, and restarts, by query.
    alarms
        Active and recent alarms, each with the name of its ``node``; None if alarms are disabled.
    kafka
        Brokers and topic whose messages land, whether they do (``running``, ``error``), and the number of messages that
        have not been read (``messages_behind``); None without a topic.
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
    kafka: NotRequired[Mapping[str, Any] | None]


def with_names(progress: StreamProgress, name: Callable[[str], str]) -> StreamProgress:
    """Return the progress with display names of nodes.

    Parameters
    ----------
    progress
        Progress with ids of supervisors.
    name
        Returns the display name of a node by that id.
    """
    named = progress.copy()
    if "nodes" in progress:
        named["nodes"] = {node: {"node": name(node), **load} for node, load in progress["nodes"].items()}
    if alarms := progress.get("alarms"):
        named_alarms = {
            kind: [{"node": name(each["supervisor"]), **each} for each in alarms[kind]] for kind in ("up", "ended")
        }
        named["alarms"] = {**alarms, **named_alarms}
    return named
