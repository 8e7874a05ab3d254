"""What the machine and a cluster's nodes have done so far, and between two moments."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stormwright.storm.local_cluster import RunningCluster
from stormwright.storm.local_cluster.plan import of_nodes

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7  # columns of /proc/stat


@dataclass(frozen=True)
class PlanQueries:
    """Counters at one moment.

    Parameters
    ----------
    at_ms
        Since 1970.
    busy_s, idle_s, stolen_s
        Of the machine: CPU seconds used by whoever, by nobody, and by other machines on the same hardware.
    nodes
        Host → CPU seconds used, periods and throttled periods, bytes sent and received.
    """

    at_ms: float
    busy_s: float
    idle_s: float
    stolen_s: float
    nodes: dict[str, dict[str, float]]

    @classmethod
    def of(cls, cluster: RunningCluster) -> PlanQueries:
        """As it is now."""
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
        ticks = [int(field) / _TICKS for field in fields]
        cpu, sent = cluster.node_cpu(), cluster.net_bytes()
        nodes = {
            node.address: {
                "cpu_s": cpu[node.name].used_s,
                "periods": cpu[node.name].periods,
                "throttled": cpu[node.name].throttled_periods,
                "sent": sent[node.name].sent,
                "received": sent[node.name].received,
            }
            for node in cluster.plan.nodes
        }
        idle_s = ticks[_IDLE] + ticks[_IOWAIT]
        return cls(time.time() * 1e3, sum(ticks) - idle_s - ticks[_STEAL], idle_s, ticks[_STEAL], nodes)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def between(first: dict[str, Any], last: dict[str, Any], quota: float | tuple[float, ...]) -> dict[str, Any]:
    """Cores, throttling and bytes/s of the nodes between two readings, and what others had of the machine.

    Parameters
    ----------
    first, last
        Readings.
    quota
        Cores that nodes are held to, all or each.
    """
    seconds = (last["at_ms"] - first["at_ms"]) / 1e3
    nodes = {}
    for host, now in last["nodes"].items():
        grown = {name: value - first["nodes"][host][name] for name, value in now.items()}
        nodes[host] = {
            "cores": grown["cpu_s"] / seconds,
            "throttled_share": grown["throttled"] / grown["periods"] if grown["periods"] else 0.0,
            "sent_bytes_per_s": grown["sent"] / seconds,
            "received_bytes_per_s": grown["received"] / seconds,
        }
    busy, idle, stolen = ((last[name] - first[name]) / seconds for name in ("busy_s", "idle_s", "stolen_s"))
    own = sum(node["cores"] for node in nodes.values())
    quotas = of_nodes(quota, len(nodes))
    return {
        "nodes": nodes,
        "other_cores": max(busy - own, 0.0),
        "idle_cores": idle,
        "stolen_cores": stolen,
        # A node that used up its quota time and again did not get what its quota allows.
        "disturbed": stolen > 0.05
        or any(
            node["throttled_share"] > 0.5 and node["cores"] < 0.85 * held
            for node, held in zip(nodes.values(), quotas, strict=True)
        ),
    }
