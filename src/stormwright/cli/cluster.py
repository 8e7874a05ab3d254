"""``stormwright cluster``: a real Storm cluster on this machine."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from stormwright.cli import options
from stormwright.cli.lines import say, say_lines
from stormwright.cli.output import print_table, text_table
from stormwright.cli.progress import shown

_NONE = "no local cluster is up"


@click.group(cls=options.Verbs)
def command() -> None:
    """Bring a real Storm cluster up on this machine, look at it, and take it down."""


@command.command()
@options.nodes
@click.option("--slots", default=4, show_default=True, help="Worker slots of each node.")
@click.option("--link", default="40mbit", show_default=True, help="Link limit a node, both ways; none for no limit.")
@click.option(
    "--cores-per-node",
    type=float,
    help="Cores that each node is held to, and declares. [default: no limit, 2 declared]",
)
@click.option("--service-port", default=7070, show_default=True, help="Where Nimbus looks for a stormwright service.")
@options.as_json("Print the status as JSON; progress goes to standard error.")
def up(nodes: int, slots: int, link: str, cores_per_node: float | None, service_port: int, as_json: bool) -> None:
    """Start ZooKeeper, Nimbus and a supervisor on each node; return when all of them work together."""
    from stormwright.storm.local import LocalCluster, LocalClusterConfig
    from stormwright.storm.local.status import describe

    config = LocalClusterConfig(
        nodes=nodes,
        slots=slots,
        link=None if link == "none" else link,
        cores_per_node=cores_per_node,
        service_port=service_port,
    )
    local = LocalCluster(config)
    with shown(err=as_json), local as cluster:
        status = describe(cluster)
        local.keep()
    if as_json:
        click.echo(json.dumps(status, indent=2))
    else:
        say(f"Nimbus: {status['nimbus']}; it looks for a stormwright service at {status['service']}")
        say("`stormwright cluster status` shows it, `stormwright cluster down` ends it")


@command.command()
@options.as_json("Print JSON; null when no cluster is up.")
def status(as_json: bool) -> None:
    """Show daemons, nodes and topologies; exits with 1 when no cluster is up or a daemon has ended."""
    from stormwright.storm.local import RunningCluster
    from stormwright.storm.local.status import describe

    cluster = RunningCluster.find()
    found = describe(cluster) if cluster else None
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found is None:
        say(f"{_NONE}: `stormwright cluster up` starts one")
    else:
        _show(found)
    if found is None or any(daemon["pid"] is None for daemon in found["daemons"]):
        sys.exit(1)


@command.command()
@options.as_json("Print JSON.")
def down(as_json: bool) -> None:
    """End the cluster with everything that runs on it; nothing of it is left."""
    from stormwright.storm.local import stop_running

    was_up = stop_running()
    if as_json:
        click.echo(json.dumps({"was_up": was_up}))
    else:
        say("the local cluster is down; nothing of it is left" if was_up else _NONE)


def _show(found: dict[str, Any]) -> None:
    say(f"Nimbus {found['nimbus']}, service {found['service']}, logs under {found['work_dir']}")
    say(found["network"])
    _table("daemon", ["process"], [[d["name"], _process(d)] for d in found["daemons"]])
    nodes = [[n["name"], n["address"], _supervisor(n), _slots(n), _traffic(n), _cpu(n)] for n in found["nodes"]]
    _table("node", ["address", "supervisor", "slots used", "sent / received", "cores used"], nodes)
    if found["nimbus_error"]:
        say_lines(found["nimbus_error"])
    topologies = [[t["id"], t["status"], str(t["num_workers"]), str(t["num_executors"])] for t in found["topologies"]]
    _table("topology", ["status", "workers", "executors"], topologies)


def _table(name: str, columns: list[str], rows: list[list[str]]) -> None:
    if not rows:
        say(f"no {name}")
        return
    table = text_table(name, *columns)
    for row in rows:
        table.add_row(*row)
    print_table(table)


def _process(daemon: dict[str, Any]) -> str:
    return f"ended with exit code {daemon['exit_code']}" if daemon["pid"] is None else str(daemon["pid"])


def _supervisor(node: dict[str, Any]) -> str:
    return "registered" if node["registered"] else "not known to Nimbus"


def _slots(node: dict[str, Any]) -> str:
    return f"{node['used_workers']} of {len(node['ports'])}"


def _traffic(node: dict[str, Any]) -> str:
    if node["sent_bytes"] is None:
        return "not counted"
    return f"{node['sent_bytes'] / 1e6:.1f} / {node['received_bytes'] / 1e6:.1f} MB"


def _cpu(node: dict[str, Any]) -> str:
    if node["cpu_limit_cores"] is None:
        return "no limit"
    used = f"{node['cpu_used_cores']:.2f} of {node['cpu_limit_cores']:g}"
    return f"{used}, throttled in {node['cpu_throttled_share']:.0%} of its periods"
