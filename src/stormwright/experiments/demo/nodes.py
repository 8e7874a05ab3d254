"""What the nodes of a local cluster used in a stretch of time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stormwright.storm.local import RunningCluster


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One node between two moments.

    Parameters
    ----------
    cores, throttled_share
        Mean cores used, and the share of periods in which it had to wait for more; None where it is not held to any.
    sent_mbit_s, received_mbit_s
        Over its link; None where it has none.
    """

    cores: float | None
    throttled_share: float | None
    sent_mbit_s: float | None
    received_mbit_s: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class NodeMeter:
    """Measures the nodes of a cluster from its making on."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._cpu, self._bytes = cluster.node_cpu(), cluster.net_bytes()
        self._begun = time.monotonic()

    def use(self) -> Mapping[str, NodeUse]:
        """What each node used since then, by its name."""
        cpu, link = self._cluster.node_cpu(), self._cluster.net_bytes()
        seconds = time.monotonic() - self._begun
        used: dict[str, NodeUse] = {}
        for node in (each.name for each in self._cluster.plan.nodes):
            lately = cpu[node].since(self._cpu[node]) if node in cpu else None
            sent, received = (
                ((late - early) * 8e-6 / seconds for late, early in zip(link[node], self._bytes[node], strict=True))
                if node in link
                else (None, None)
            )
            cores, throttled = (lately.used_s / seconds, lately.throttled_share) if lately else (None, None)
            used[node] = NodeUse(cores, throttled, sent, received)
        return used
