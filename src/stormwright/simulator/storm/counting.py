"""Counts of a virtual cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.simulator.engine import EngineCounts
from stormwright.simulator.storm.records import BUCKETS, BY_OCTAVE, WORKS, ClusterState

#: Number of buckets per bucket of the performance log, which has 4 for each doubling.
_TOGETHER = BY_OCTAVE // 4

_OF_THREADS = ("received", "emitted", "acked", "failed")
_OF_TOPOLOGIES = ("begun", "completed", "timed_out", "replayed", "lost", "latency_s")


@dataclass(frozen=True, eq=False)
class EngineTotals:
    """Counts up to a time.

    Parameters
    ----------
    now_s
        Virtual time of the counts, in seconds; of a difference its duration.
    threads, topologies
        Name → values by executor, shape (E,), and by topology, shape (T,).
    pairs, latency
        Tuples of every pair, and trees by topology and latency bucket.
    busy_s, link_bytes
        Busy core seconds of nodes, shape (N,); bytes of links, out of nodes and into them, shape (2, N).
    """

    now_s: float
    threads: dict[str, NDArray[Any]]
    topologies: dict[str, NDArray[Any]]
    pairs: NDArray[np.int64]
    latency: NDArray[np.int64]
    busy_s: NDArray[np.float64]
    link_bytes: NDArray[np.float64]

    @classmethod
    def of(cls, cluster: ClusterState, at_once: int = 1) -> EngineTotals:
        """Return the present counts, with `at_once` tuples per event."""
        run, cores = cluster.run[0], cluster.shares.cores
        executors, now = int(run["executors"]), float(run["now"])
        own = cluster.threads[:executors]
        # A core's counter is as of its last event.
        since = (now - cores["since"]) * cores["rate"] / cores["speed"] * cores["count"]
        busy = cores["busy"] + since + cores["taken"] * now - _to_come(cluster, now)
        node = np.arange(len(cores)) * int(run["nodes"]) // max(len(cores), 1)
        worked = np.bincount(node, busy, int(run["nodes"]))
        return cls(
            now_s=now,
            threads={**{name: at_once * np.array(own[name]) for name in _OF_THREADS}, "cpu_s": np.array(own["cpu_s"])},
            topologies={name: at_once * np.array(cluster.topologies[name]) for name in _OF_TOPOLOGIES},
            pairs=at_once * np.array(cluster.pairs["tuples"]),
            latency=at_once * cluster.latency,
            busy_s=np.asarray(worked + (cluster.quotas["taken"] * now if len(cluster.quotas) else 0.0)),
            link_bytes=np.array(cluster.links["sent_bytes"]).reshape(2, -1),
        )

    def since(self, before: EngineTotals) -> EngineTotals:
        """Return the difference to earlier counts; `now_s` is the duration."""
        return EngineTotals(
            self.now_s - before.now_s,
            {name: values - before.threads[name] for name, values in self.threads.items()},
            {name: values - before.topologies[name] for name, values in self.topologies.items()},
            self.pairs - before.pairs,
            self.latency - before.latency,
            self.busy_s - before.busy_s,
            self.link_bytes - before.link_bytes,
        )


def _to_come(cluster: ClusterState, now: float) -> NDArray[np.float64]:
    """Return core seconds that dedicated cores have counted in advance."""
    threads = cluster.threads
    alone = np.flatnonzero(threads["alone"] & (threads["state"] == WORKS))
    left = cluster.clock.when[alone] - np.maximum(threads["begins"][alone], now)
    return np.bincount(threads["core"][alone], left, len(cluster.shares.cores)).astype(np.float64)


class Ends(NamedTuple):
    """Sending and receiving executors of all pairs, which never change, shape (P,)."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]


def ends_of(cluster: ClusterState) -> Ends:
    """Return the ends of all pairs."""
    source = np.repeat(np.array(cluster.routes["source"]), cluster.routes["count"])
    return Ends(source, np.array(cluster.pairs["target"]))


def counted(
    cluster: ClusterState, before: EngineTotals, now: EngineTotals, ends: Ends
) -> tuple[EngineTotals, EngineCounts]:
    """Return the counts up to now, and since earlier ones.

    Parameters
    ----------
    cluster
        Cluster, for the lengths of queues.
    before, now
        Earlier and present counts.
    ends
        Ends of its pairs.
    """
    new = now.since(before)
    executors = len(now.threads["received"])
    own = cluster.threads[:executors]
    cpu_ns = np.rint(1e9 * new.threads["cpu_s"]).astype(np.int64)
    return now, EngineCounts(
        start_s=before.now_s,
        length_s=new.now_s,
        received=new.threads["received"],
        emitted=new.threads["emitted"],
        acked=new.threads["acked"],
        failed=new.threads["failed"],
        cpu_ns=cpu_ns,
        execute_ns=cpu_ns,
        queue=np.minimum(own["count"] / np.maximum(own["limit"], 1), 1.0),
        source=ends.source,
        target=ends.target,
        tuples=new.pairs,
        completed=new.topologies["completed"],
        timed_out=new.topologies["timed_out"],
        replayed=new.topologies["replayed"],
        lost=new.topologies["lost"],
        latency=by_performance_log(new.latency),
    )


def by_performance_log(latency: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return trees in the buckets of the performance log, shape (T, 66)."""
    whole = latency[:, 1:].reshape(len(latency), -1)[:, : BUCKETS - 2]
    together = whole.reshape(len(latency), -1, _TOGETHER).sum(axis=2)
    return np.concatenate([latency[:, :1], together, latency[:, BUCKETS - 1 :]], axis=1)


def quantile_s(latency: NDArray[np.int64], part: float) -> float:
    """Return a quantile of latency in s; nan if there are no trees.

    Parameters
    ----------
    latency
        Trees of one topology by bucket, shape (258,).
    part
        Quantile, from 0 to 1.
    """
    whole = int(latency.sum())
    if not whole:
        return float("nan")
    up_to = np.cumsum(latency)
    bucket = int(np.searchsorted(up_to, part * whole))
    bucket = min(bucket, len(latency) - 1)
    inside = (part * whole - (up_to[bucket] - latency[bucket])) / max(latency[bucket], 1)
    if bucket == 0:
        return float(1e-3 * inside)
    return float(1e-3 * 2 ** ((bucket - 1 + inside) / BY_OCTAVE))
