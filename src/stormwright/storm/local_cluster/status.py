"""What a local cluster is doing, as plain data."""

from __future__ import annotations

import time
from typing import Any

from stormwright.errors import NimbusError
from stormwright.storm.local_cluster.cpu import NodeCpu
from stormwright.storm.local_cluster.events import exit_codes, read_events
from stormwright.storm.local_cluster.running import RunningCluster

_NO_CPU = dict.fromkeys(("cpu_limit_cores", "cpu_used_s", "cpu_used_cores", "cpu_throttled_share"))


def describe(cluster: RunningCluster) -> dict[str, Any]:
    """Daemons, nodes and topologies of a running cluster.

    Returns
    -------
    dict
        ``nimbus``, ``service``, ``network``, ``work_dir``; ``daemons`` with ``pid`` (None for one that has ended, then
        with its ``exit_code``); ``nodes`` with address, link limit, worker slots, bytes over the link, whether Nimbus
        knows its supervisor, and CPU (None without a limit): limit, seconds used since it came up, and cores used
        and share of periods throttled while Nimbus was asked; ``topologies`` as Nimbus lists them;
        ``nimbus_error`` if Nimbus could not be asked.
    """
    plan = cluster.plan
    since, cpu_before = time.monotonic(), cluster.node_cpu()
    known, error = _ask_nimbus(cluster)
    supervisors = {supervisor["host"]: supervisor for supervisor in known.get("supervisors", [])}
    ended = exit_codes(read_events(plan))
    traffic = cluster.net_bytes()
    asked_s = time.monotonic() - since
    cpu = {node: _cpu(late, cpu_before[node], asked_s) for node, late in cluster.node_cpu().items()}
    return {
        "nimbus": f"{cluster.nimbus_host}:{cluster.nimbus_port}",
        "service": cluster.service_url,
        "network": cluster.describe_network(),
        "work_dir": str(plan.work),
        "daemons": [
            {"name": name, "pid": pid, "exit_code": ended.get(name)} for name, pid in cluster.daemon_pids().items()
        ],
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "link": plan.link,
                "ports": list(node.ports),
                "registered": node.address in supervisors,
                "used_workers": supervisors.get(node.address, {}).get("used_workers", 0),
                "sent_bytes": traffic[node.name].sent if traffic else None,
                "received_bytes": traffic[node.name].received if traffic else None,
                **cpu.get(node.name, _NO_CPU),
            }
            for node in plan.nodes
        ],
        "topologies": known.get("topologies", []),
        "nimbus_error": error,
    }


def _cpu(late: NodeCpu, early: NodeCpu, seconds: float) -> dict[str, float]:
    lately = late.since(early)
    return {
        "cpu_limit_cores": late.limit_cores,
        "cpu_used_s": late.used_s,
        "cpu_used_cores": lately.used_s / seconds,
        "cpu_throttled_share": lately.throttled_share,
    }


def _ask_nimbus(cluster: RunningCluster) -> tuple[dict[str, Any], str | None]:
    try:
        with cluster.gateway() as gateway:
            return gateway.cluster(), None
    except NimbusError as error:
        return {}, str(error)
