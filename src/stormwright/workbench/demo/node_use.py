"""Use of the nodes of a local cluster over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from stormwright.base.clock import WALL, Clock
from stormwright.model import Problem
from stormwright.model.link_speed import link_bits_per_s
from stormwright.perflog.records import LogRecord
from stormwright.workbench.demo.cluster import DemoCluster

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
