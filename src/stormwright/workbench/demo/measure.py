"""Measurement of a topology over a stretch of time, and warmth of its workers, from their records.

JVMs compile for minutes, so stretches count beside each other only at the same warmth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stormwright.base.clock import WALL, Clock
from stormwright.controller.tally import Tally
from stormwright.model import Problem, WorkerSlot
from stormwright.model.link_speed import link_bits_per_s
from stormwright.perflog import LATENCY_EDGES_MS
from stormwright.perflog.crossing import crossing, tasks_on_nodes
from stormwright.perflog.records import LogRecord
from stormwright.workbench.demo.cluster import DemoCluster

# Nodes --------------------------------------------------------------------------------------------
# Use of the nodes of a local cluster over time.

#: Share from which a resource counts as full: quotas and links always lose a little.
FULL = 0.9


@dataclass(frozen=True, slots=True)
class NodeUse:
    """Use of one node between two moments.

    Parameters
    ----------
    cores, throttled_share
        Mean cores used, and the share of throttled periods; without a limit, the use by its workers, and None.
    sent_mbit_s, received_mbit_s
        Traffic over its link; None without a link.
    limit_cores, link_mbit_s
        Limits; None for no limit.
    """

    cores: float | None
    throttled_share: float | None
    sent_mbit_s: float | None
    received_mbit_s: float | None
    limit_cores: float | None = None
    link_mbit_s: float | None = None

    @property
    def cpu_share(self) -> float | None:
        """Share of its CPU limit; None without a limit."""
        return None if self.cores is None or self.limit_cores is None else self.cores / self.limit_cores

    @property
    def link_shares(self) -> tuple[float | None, float | None]:
        """Shares of its link, out and in; None without a limit."""
        sent, received = (
            None if rate is None or self.link_mbit_s is None else rate / self.link_mbit_s
            for rate in (self.sent_mbit_s, self.received_mbit_s)
        )
        return sent, received

    def as_dict(self) -> dict[str, Any]:
        """Return the use as JSON."""
        return asdict(self)


class NodeMeter:
    """Meter of the nodes of a cluster, from its creation on."""

    def __init__(self, cluster: DemoCluster, clock: Clock = WALL) -> None:
        self._cluster, self._clock = cluster, clock
        self._cpu, self._bytes = cluster.node_cpu(), cluster.net_bytes()
        self._begun = self._clock.monotonic()

    def use(self) -> Mapping[str, NodeUse]:
        """Return the use of each node since the creation of the meter, by name."""
        cpu, link = self._cluster.node_cpu(), self._cluster.net_bytes()
        seconds = self._clock.monotonic() - self._begun
        speed = self._cluster.plan.link
        used: dict[str, NodeUse] = {}
        for node in (each.name for each in self._cluster.plan.nodes):
            lately = cpu[node].since(self._cpu[node]) if node in cpu else None
            sent, received = (
                ((late - early) * 8e-6 / seconds for late, early in zip(link[node], self._bytes[node], strict=True))
                if node in link
                else (None, None)
            )
            used[node] = NodeUse(
                cores=lately.used_s / seconds if lately else None,
                throttled_share=lately.throttled_share if lately else None,
                sent_mbit_s=sent,
                received_mbit_s=received,
                limit_cores=lately.limit_cores if lately else None,
                link_mbit_s=link_bits_per_s(speed) / 1e6 if speed else None,
            )
        return used


def with_worker_cores(
    used: Mapping[str, NodeUse], hosts: Mapping[str, str], records: Iterable[LogRecord], start_ms: float, end_ms: float
) -> dict[str, NodeUse]:
    """Return the use of nodes, with CPU reported by workers where no control group counts it.

    Parameters
    ----------
    used
        Use by names of nodes.
    hosts
        Node → the host that its workers report.
    records
        Records of all workers; those that begin in the period count.
    start_ms, end_ms
        Begin and end in ms since 1970.
    """
    spent_ns: Counter[str] = Counter()
    for record in records:
        if start_ms <= record["start_ms"] < end_ms:
            spent_ns[record["worker"]["host"]] += record["process_cpu_ns"]
    return {
        node: use if use.cores is not None else replace(use, cores=spent_ns[hosts[node]] / 1e6 / (end_ms - start_ms))
        for node, use in used.items()
    }


def with_node_names(problem: Problem, cluster: DemoCluster) -> Problem:
    """Return the problem with the names of nodes in place of their addresses, and the speeds of links."""
    names = {node.address: node.name for node in cluster.plan.nodes}
    speed = link_bits_per_s(cluster.plan.link) if cluster.plan.link else None
    nodes = [replace(node, host=names.get(node.host, node.host), link_bps=speed) for node in problem.supervisors]
    return replace(problem, supervisors=tuple(sorted(nodes, key=lambda node: node.host)))


class FullestResource(NamedTuple):
    """The fullest resource, its name and its share."""

    what: str
    share: float

    @property
    def is_full(self) -> bool:
        """Whether it was the limit."""
        return self.share >= FULL

    def __str__(self) -> str:
        return f"{self.what}, {self.share:.0%}{'' if self.is_full else ': nothing was full'}"


def fullest(used: Mapping[str, NodeUse]) -> FullestResource | None:
    """Return the fullest of all CPU and links with limits; None without limits."""
    return max(_shares(used), key=lambda each: each.share, default=None)


def _shares(used: Mapping[str, NodeUse]) -> Iterator[FullestResource]:
    for node, use in used.items():
        named = zip(
            (f"the CPU of node {node}", f"the link out of node {node}", f"the link into node {node}"),
            (use.cpu_share, *use.link_shares),
            strict=True,
        )
        yield from (FullestResource(what, share) for what, share in named if share is not None)


# Measure ------------------------------------------------------------------------------------------

#: A worker between two starts: topology, supervisor, port and process.
_Worker = tuple[str, str, int, int]

#: Seconds over which the recent use by compilers is measured.
LATELY_S = 10.0

#: Tolerated increase of the compilers' share of the workers' CPU.
TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class TopologyRun:
    """Measurement of one topology between two moments.

    Parameters
    ----------
    acked_tps
        Tuple trees completed per second.
    inter_node_tps, inter_node_per_acked
        Tuples per second between nodes, and tuples per completed tree.
    mean_latency_ms, p99_latency_ms
        Complete latency, from Storm's sampled acks; None without samples.
    nodes, workers
        Numbers of nodes and workers that ran it.
    compiler_share
        Part of its workers' CPU used by compilers: the less, the warmer they are. None if unknown.
    """

    acked_tps: float
    inter_node_tps: float
    inter_node_per_acked: float
    mean_latency_ms: float | None
    p99_latency_ms: float | None
    nodes: int
    workers: int
    compiler_share: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the measurement as JSON."""
        return asdict(self)


def measure(records: Iterable[LogRecord], topology: str, start_ms: float, end_ms: float) -> TopologyRun:
    """Measure one topology over the records that lie wholly between two moments.

    Where there are none, all figures are 0 and the latencies None.

    Parameters
    ----------
    records
        Records of any topologies, in any order.
    topology
        Id of the topology.
    start_ms, end_ms
        The moments, in ms since 1970.
    """
    inside = [r for r in _of(records, topology) if r["start_ms"] >= start_ms and _end_ms(r) <= end_ms]
    seconds = (end_ms - start_ms) / 1000
    if not inside or seconds <= 0:
        return TopologyRun(0.0, 0.0, 0.0, None, None, 0, 0)
    node_of = tasks_on_nodes(inside)
    crossed = sum(crossing(record, node_of).crossing for record in inside)
    acked = sum(_acked(record) for record in inside)
    # Workers tick at different moments: each one's own covered time is what its counts stand for.
    covered = _covered_s(inside)
    acked_tps = sum(_acked(record) / covered[_slot(record)] for record in inside)
    mean, p99 = _latency(inside)
    return TopologyRun(
        acked_tps=acked_tps,
        inter_node_tps=crossed / (sum(covered.values()) / len(covered)),
        inter_node_per_acked=crossed / acked if acked else 0.0,
        mean_latency_ms=mean,
        p99_latency_ms=p99,
        nodes=len({record["worker"]["supervisor"] for record in inside}),
        workers=len(covered),
        compiler_share=compiler_share(inside),
    )


def compiler_share(records: Iterable[LogRecord]) -> float | None:
    """Return the part of the workers' CPU used by compilers; None if no record has it."""
    compiling = whole = 0
    for record in records:
        if record.get("threads"):
            compiling += record["threads"]["compiler_ns"]
            whole += record["process_cpu_ns"]
    return compiling / whole if whole else None


def acked_series(
    records: Iterable[LogRecord], topology: str, start_ms: float, end_ms: float, step_ms: float
) -> tuple[list[float], list[float]]:
    """Return completed trees/s over time: times in s since `start_ms` (middle of each step), and rates.

    The count of a record is spread evenly over its interval.

    Parameters
    ----------
    records
        Records of any topologies, in any order.
    topology
        Id of the topology.
    start_ms, end_ms
        Begin and end in ms since 1970.
    step_ms
        Length of a step; the last one reaches past `end_ms` where the time is no multiple of it.
    """
    edges = np.arange(start_ms, end_ms + step_ms, step_ms)
    trees = np.zeros(len(edges) - 1)
    for record in _of(records, topology):
        begin, end, acked = record["start_ms"], _end_ms(record), _acked(record)
        if acked and end > begin:
            overlap = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0, None)
            trees += acked * overlap / (end - begin)
    middle = (edges[:-1] + edges[1:]) / 2
    return ((middle - start_ms) / 1000).tolist(), (trees / (step_ms / 1000)).tolist()


def longest_silence_s(records: Iterable[LogRecord], topology: str, start_ms: float, end_ms: float) -> float:
    """Return the longest time without a completed tuple tree between two moments, in seconds.

    A record has the number of trees completed in its interval, not their times: so this is an upper bound, from the end
    of a record with acks to the start of the next such record, plus both their intervals where these have gaps.

    Parameters
    ----------
    records
        Records of any topologies, in any order.
    topology
        Id of the topology.
    start_ms, end_ms
        The moments, in ms since 1970. Without a completed tree all the time between them is silence.
    """
    spans = sorted((r["start_ms"], _end_ms(r)) for r in _of(records, topology) if _acked(r))
    spans = [span for span in spans if span[1] > start_ms and span[0] < end_ms]
    if not spans:
        return (end_ms - start_ms) / 1000
    longest = max(spans[0][0] - start_ms, 0.0)
    # In the worst case the acks of the earlier record all came at its start, those of the later one at its end.
    reached_start, reached_end = spans[0]
    for begin, end in spans[1:]:
        if begin > reached_end:
            longest = max(longest, end - reached_start)
        if end > reached_end:
            reached_start, reached_end = begin, end
    return float(max(longest, end_ms - reached_end)) / 1000


def move_period(moving_ms: float, after: tuple[float, float], warm_up_s: float) -> tuple[float, float]:
    """Return the period from the first move until everything has run for a while, in epoch ms.

    Parameters
    ----------
    moving_ms
        Begin of the first move.
    after
        The measured period after the move. Later the spouts are paused, so missing acks are expected.
    warm_up_s
        Time until a topology runs as before.
    """
    return moving_ms, min(after[0] + warm_up_s * 1000, after[1])


def ran_s(records: Iterable[LogRecord], slots: Mapping[str, Sequence[WorkerSlot]], now_ms: float) -> float:
    """Return the running time of the youngest worker in seconds, since the start before its first record.

    Parameters
    ----------
    records
        Records in order of arrival.
    slots
        Slots of workers by topology id. A worker that has not reported yet has run for 0 s.
    now_ms
        The moment, in ms since 1970.
    """
    since: dict[_Worker, float] = {}
    newest: dict[tuple[str, str, int], _Worker] = {}
    for record in records:
        name = record["worker"]
        worker = name["topology"], name["supervisor"], name["port"], name["pid"]
        since.setdefault(worker, record["start_ms"])
        newest[worker[:3]] = worker
    workers = [(topology, slot.supervisor, slot.port) for topology, used in slots.items() for slot in used]
    return min(((now_ms - since[newest[at]]) / 1000 if at in newest else 0.0 for at in workers), default=0.0)


def wait_until_as_warm(
    tally: Tally, slots: Mapping[str, Sequence[WorkerSlot]], wanted_s: float, share: float | None, longest_s: float
) -> None:
    """Return when all workers have run as long, and compile as little, as before.

    Parameters
    ----------
    tally
        Tally of all records, with the clock of the cluster.
    slots
        Slots of workers by topology id.
    wanted_s
        Required running time of each worker.
    share
        Maximum share of compilers; None for any.
    longest_s
        Time limit in seconds.
    """
    clock = tally.clock
    deadline = clock.monotonic() + wanted_s + longest_s
    while clock.monotonic() < deadline:
        now_ms, records = clock.time() * 1000, tally.records()
        left_s = wanted_s - ran_s(records, slots, now_ms)
        if left_s <= 0:
            break
        clock.sleep(min(left_s, 1.0))
    deadline = clock.monotonic() + longest_s
    while share is not None and clock.monotonic() < deadline:
        now_ms = clock.time() * 1000
        lately = compiler_share(r for r in tally.records() if r["start_ms"] >= now_ms - LATELY_S * 1000)
        if lately is None or lately <= share + TOLERANCE:
            return
        clock.sleep(1.0)


def _of(records: Iterable[LogRecord], topology: str) -> Iterable[LogRecord]:
    return (record for record in records if record["worker"]["topology"] == topology)


def _slot(record: LogRecord) -> tuple[str, int]:
    return record["worker"]["supervisor"], record["worker"]["port"]


def _end_ms(record: LogRecord) -> float:
    return float(record["start_ms"] + record["length_ns"] / 1e6)


def _acked(record: LogRecord) -> int:
    return sum(executor["acked"] for executor in record["executors"] if executor["type"] == "spout")


def _covered_s(records: Sequence[LogRecord]) -> dict[tuple[str, int], float]:
    covered: dict[tuple[str, int], float] = {}
    for record in records:
        covered[_slot(record)] = covered.get(_slot(record), 0.0) + record["length_ns"] / 1e9
    return covered


def _latency(records: Sequence[LogRecord]) -> tuple[float | None, float | None]:
    """Return mean and 99th percentile in ms from histograms; buckets count at their geometric middle."""
    edges = np.array(records[0]["complete_latency"].get("edges_ms") or LATENCY_EDGES_MS, dtype=float)
    counts = np.zeros(len(edges) + 1)
    for record in records:
        own = record["complete_latency"]["counts"]
        counts[: len(own)] += own
    total = counts.sum()
    if not total:
        return None, None
    lower = np.concatenate([[edges[0] / 2], edges])
    upper = np.concatenate([edges, [edges[-1] * 2]])
    middle = np.sqrt(lower * upper)
    p99 = middle[int(np.searchsorted(np.cumsum(counts), 0.99 * total))]
    return float(counts @ middle / total), float(p99)
