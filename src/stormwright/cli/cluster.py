"""``stormwright cluster``: a real Storm cluster on this machine."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.cli.lines import say, say_lines
from stormwright.cli.output import print_json, print_table, text_table
from stormwright.cli.progress import shown
from stormwright.errors import ClusterError, Fault, InputError

if TYPE_CHECKING:
    from stormwright.plans.modes import Mode
    from stormwright.storm.local_cluster import RunningCluster

log = logging.getLogger(__name__)

_NONE = "no local cluster is up"


@click.group(cls=options.Verbs)
def command() -> None:
    pass


@command.command()
@options.nodes
@click.option("--slots", default=4, type=options.WholeRange(), show_default=True, help="Worker slots per node.")
@click.option(
    "--link",
    default="40mbit",
    type=options.PerNode(str),
    show_default=True,
    help="Bandwidth limit of every node's link, in both directions, or of each (60mbit,20mbit,60mbit); none for no "
    "limit.",
)
@click.option(
    "--cores-per-node",
    type=options.PerNode(float),
    help="CPU limit of every node, in cores, or of each (0.7,0.4,0.25).  [default: no limit; 2 cores are declared]",
)
@click.option(
    "--declared-cores",
    type=options.PerNode(float),
    help="Cores that every node declares to schedulers, or each, to try a wrong storm.yaml.  [default: its CPU limit]",
)
@click.option("--racks", help="Rack of each node, separated by commas (a,a,b).  [default: one rack]")
@click.option(
    "--standbys",
    default=1,
    type=options.WholeRange(),
    show_default=True,
    help="Warm standby workers per node; 0 for none.",
)
@click.option(
    "--service-port",
    default=7070,
    type=options.WholeRange(),
    show_default=True,
    help="Port on which Nimbus expects the stormwright service.",
)
@options.as_json("Print the status as JSON; progress goes to standard error.")
def up(
    nodes: int,
    slots: int,
    link: str | tuple[str, ...],
    cores_per_node: float | tuple[float, ...] | None,
    declared_cores: float | tuple[float, ...] | None,
    racks: str | None,
    standbys: int,
    service_port: int,
    as_json: bool,
) -> None:
    """Start ZooKeeper, Nimbus and a supervisor on each node; return when the cluster is ready."""
    from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig
    from stormwright.storm.local_cluster.running import describe

    config = LocalClusterConfig(
        nodes=nodes,
        slots=slots,
        link=None if link == "none" else link,
        cores_per_node=cores_per_node,
        declared_cores=declared_cores,
        racks=tuple(rack.strip() for rack in racks.split(",")) if racks else (),
        standbys=standbys,
        service_port=service_port,
    )
    local = LocalCluster(config)
    with shown(err=as_json), local as cluster:
        status = describe(cluster)
        local.keep()
    if as_json:
        click.echo(json.dumps(status, indent=2))
    else:
        say(f"Nimbus: {status['nimbus']}; it calls the stormwright service at {status['service']}")
        say("see `stormwright cluster status`; stop it with `stormwright cluster down`")


@command.command()
@options.as_json("Print JSON; null when no cluster is up.")
def status(as_json: bool) -> None:
    """Show daemons, nodes and topologies; exits with 1 if no cluster is up or a daemon has ended."""
    from stormwright.storm.local_cluster import RunningCluster
    from stormwright.storm.local_cluster.running import describe

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
    """Stop the cluster and everything that runs on it, and remove its files."""
    from stormwright.storm.local_cluster import stop_running

    was_up = stop_running()
    if as_json:
        click.echo(json.dumps({"was_up": was_up}))
    else:
        say("the local cluster is stopped and removed" if was_up else _NONE)


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument(
    "given", nargs=-1, required=True, type=click.UNPROCESSED, metavar="JAR CLASS [ARG]… | KIND[:KEY=VALUE,…]…"
)
@click.option(
    "--probe-ms",
    default=1000,
    show_default=True,
    type=options.WholeRange(100),
    help="Interval of the probe's records, in ms.",
)
@options.as_json("Print what was submitted as JSON.")
def submit(given: tuple[str, ...], probe_ms: int, as_json: bool) -> None:
    """Submit your topology to the local cluster, or some that come with stormwright, with the probe that measures them.

    JAR is your topology's jar with all that it needs but Storm, CLASS the one whose main submits it, with ARGs; options
    of it that are also some of this verb follow --.

    A KIND is word-count, exclamation, rolling-top-words, reference, linear, diamond, star, page-load, processing,
    advertising or sol. Keys are those of the topology, such as name, workers and rate: word-count:name=words,workers=3.
    """
    from stormwright.storm.installer import HOOKS, PROBE
    from stormwright.workbench.demo.submissions import parse_submissions

    cluster, jar, conf = _found(), None, dict[str, Any]({"stormwright.probe.interval.ms": probe_ms})
    if given[0].endswith(".jar"):
        jar, main_class = _jar_and_class(given)
        conf[HOOKS] = [PROBE]
        wanted: list[tuple[str, str, Sequence[str]]] = [(main_class, main_class, given[2:])]
    else:
        wanted = [(each.name, each.main_class, each.arguments()) for each in parse_submissions(given, "KIND")]
    for name, main_class, arguments in wanted:
        cluster.run_topology(main_class, arguments, conf, jar)
        if not as_json:
            say(f"{name} is submitted")
    if as_json:
        print_json({"submitted": [name for name, _, _ in wanted]})


def _jar_and_class(given: Sequence[str]) -> tuple[Path, str]:
    """Return the jar of a topology and its main class; raises InputError if one of them is missing."""
    jar = Path(given[0]).resolve()
    if not jar.is_file():
        raise InputError("cluster submit", [Fault("no such file", given[0])])
    if len(given) < 2:
        raise InputError("cluster submit", [Fault("name the class whose main submits the topology after it", given[0])])
    return jar, given[1]


@command.command()
@click.argument("name")
@click.option(
    "--wait",
    "wait_s",
    default=0,
    show_default=True,
    type=options.WholeRange(0),
    help="Seconds between the end of its spouts and that of its workers.",
)
@options.as_json("Print its name as JSON.")
def kill(name: str, wait_s: int, as_json: bool) -> None:
    """Kill a topology of the local cluster, by its name."""
    with _found().gateway() as gateway:
        gateway.kill(name, wait_s)
    if as_json:
        print_json({"killed": name})
    else:
        say(f"{name} is killed")


@command.command()
@options.scheduler
@options.parameters
@options.from_scratch("from scratch for published adaptive schedulers that do not move what runs, else keep")
@click.option(
    "--objective",
    type=click.Choice(["throughput", "latency", "nodes", "balanced", "traffic"]),
    help="Objective, as for `stormwright serve`.",
)
@click.option(
    "--mode", type=click.Choice(["observe", "suggest", "auto"]), help="Automation mode, as for `stormwright serve`."
)
@click.option(
    "--state",
    "state_dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory of the service.  [default: removed together with the cluster]",
)
@options.log_format
def serve(
    scheduler_name: str,
    assignments: tuple[str, ...],
    from_scratch: bool | None,
    objective: str | None,
    mode: Mode | None,
    state_dir: Path | None,
    log_format: str,
) -> None:
    """Run the service for the cluster, with the dashboard at its address, until Ctrl-C."""
    from stormwright.base.file_lock import exclusive_lock
    from stormwright.cli.deciding import decided_by
    from stormwright.cli.serve import LOCK, end_at_signals
    from stormwright.cli.serve.event_log import as_json
    from stormwright.cli.triggers import by_goal, triggers_from_options
    from stormwright.schedulers.toolkit.resolve import rules_in
    from stormwright.service.composition import Service
    from stormwright.service.settings import ServiceSettings
    from stormwright.workbench.live_trials import LiveTrials

    cluster, faults = _found(), list[Fault]()
    scheduler, objective, adapts = decided_by(scheduler_name, assignments, objective, from_scratch, faults)
    if faults:
        raise InputError("cluster serve", faults)
    state, stop = state_dir or cluster.plan.work / "service", threading.Event()
    settings = ServiceSettings(
        state,
        cluster.service_host,
        cluster.service_port,
        mode=mode,
        rules=rules_in(assignments),
        triggers=triggers_from_options(scheduler, assignments, objective, None),
        objective=objective,
        adapts=adapts,
    )
    gateway, deciders = cluster.gateway_command(), by_goal(scheduler_name, assignments, from_scratch)
    with shown(shape=as_json if log_format == "json" else logging.LogRecord.getMessage):
        log.info("starting the service and Spark; this takes a few seconds")
        with (
            exclusive_lock(state, f"{state}: another service uses it: stop that, or name another --state", LOCK),
            Service(settings, scheduler, scheduler_name, gateway, deciders, LiveTrials()) as service,
        ):
            end_at_signals(stop)
            url = cluster.service_url
            log.info("dashboard at %s; Ctrl-C stops the service, the cluster goes on", url)
            service.run(stop)


def _found() -> RunningCluster:
    """Return the running cluster.

    Raises
    ------
    ClusterError
        No cluster is up.
    """
    from stormwright.storm.local_cluster import RunningCluster

    cluster = RunningCluster.find()
    if cluster is None:
        raise ClusterError(f"{_NONE}: `stormwright cluster up` starts one")
    return cluster


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
