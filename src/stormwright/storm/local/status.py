"""What a local cluster is doing, as plain data."""

from __future__ import annotations

from typing import Any

from stormwright.errors import NimbusError
from stormwright.storm.local.events import exit_codes, read_events
from stormwright.storm.local.running import RunningCluster


def describe(cluster: RunningCluster) -> dict[str, Any]:
    """Daemons, nodes and topologies of a running cluster.

    Returns
    -------
    dict
        ``nimbus``, ``service``, ``network``, ``work_dir``; ``daemons`` with ``pid`` (None for one that has ended, then
        with its ``exit_code``); ``nodes`` with address, link limit, worker slots, bytes over the link, and whether
        Nimbus knows its supervisor; ``topologies`` as Nimbus lists them; ``nimbus_error`` if Nimbus could not be asked.
    """
    plan = cluster.plan
    known, error = _ask_nimbus(cluster)
    supervisors = {supervisor["host"]: supervisor for supervisor in known.get("supervisors", [])}
    ended = exit_codes(read_events(plan))
    traffic = cluster.net_bytes()
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
            }
            for node in plan.nodes
        ],
        "topologies": known.get("topologies", []),
        "nimbus_error": error,
    }


def _ask_nimbus(cluster: RunningCluster) -> tuple[dict[str, Any], str | None]:
    try:
        with cluster.gateway() as gateway:
            return gateway.cluster(), None
    except NimbusError as error:
        return {}, str(error)
