"""A running local cluster: queries and operations, from any process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from stormwright.errors import ClusterError, NimbusError
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.jvm import STORMWRIGHT_JAR
from stormwright.storm.local_cluster import cpu, daemons, network, state
from stormwright.storm.local_cluster.cpu import NodeCpu
from stormwright.storm.local_cluster.plan import ClusterPlan, of_nodes
from stormwright.storm.local_cluster.processes import MARK, only_child, outer_pids
from stormwright.storm.local_cluster.state import daemon_pids, exit_codes, namespace_holders, read_events
from stormwright.storm.submitting import SUBMIT_S, submission_properties, submit

_NO_CPU = dict.fromkeys(("cpu_limit_cores", "cpu_used_s", "cpu_used_cores", "cpu_throttled_share"))

#: Seconds for which a killed node is watched for restarted processes, and the interval between checks.
_DYING_S, _DYING_POLL_S = 4.0, 0.1


def describe(cluster: RunningCluster) -> dict[str, Any]:
    """Return daemons, nodes and topologies of a running cluster.

    Returns
    -------
    dict
        ``nimbus``, ``service``, ``network``, ``work_dir``; ``daemons`` with ``pid`` (None for one that has ended, then
        with its ``exit_code``); ``nodes`` with address, link limit, worker slots, bytes over the link, whether Nimbus
        knows its supervisor, and CPU (None without a limit): limit, seconds used since it came up, and cores used
        and share of periods throttled during the call to Nimbus; ``topologies`` as Nimbus lists them; ``nimbus_error``
        if Nimbus could not be reached.
    """
    plan = cluster.plan
    since, cpu_before = time.monotonic(), cluster.node_cpu()
    known, error = _ask_nimbus(cluster)
    supervisors = {supervisor["host"]: supervisor for supervisor in known.get("supervisors", [])}
    ended = exit_codes(read_events(plan))
    traffic = cluster.net_bytes()
    waited_s = time.monotonic() - since
    cpu = {node: _cpu(late, cpu_before[node], waited_s) for node, late in cluster.node_cpu().items()}
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
                "link": node.link,
                "declared_cores": node.declared_cores,
                "rack": node.rack,
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


def limits_text(values: Sequence[str | None], unit: str) -> str:
    """Return limits of nodes as text: one for all, one for each, or none."""
    texts = [f"{value}{unit}" if value else "unlimited" for value in values]
    if not any(values):
        return "without limits"
    return f"limited to {texts[0]} each" if len(set(texts)) == 1 else f"limited to {', '.join(texts)}"


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


class LinkBytes(NamedTuple):
    """Bytes over a node's link since the cluster came up, as counted by the node."""

    sent: int
    received: int


class RunningCluster:
    """A running local cluster.

    Attributes
    ----------
    plan
        Addresses, ports and directories of the cluster.
    """

    def __init__(self, plan: ClusterPlan, keeper_pid: int) -> None:
        self.plan = plan
        self._keeper_pid = keeper_pid

    @classmethod
    def find(cls) -> Self | None:
        """Return this user's running cluster, if there is one."""
        if state.sweep():
            return None
        running = state.load()
        return cls(ClusterPlan.load(state.work_dir()), running.keeper_pid) if running else None

    @property
    def service_host(self) -> str:
        """Address of this machine at which nodes reach a service."""
        return self.plan.service_host

    @property
    def service_port(self) -> int:
        """Port at which the cluster expects the stormwright service."""
        return self.plan.config.service_port

    @property
    def service_url(self) -> str:
        """URL of the stormwright service for nodes and Nimbus."""
        return f"http://{self.service_host}:{self.service_port}"

    @property
    def nimbus_host(self) -> str:
        """Nimbus' address."""
        return self.plan.nimbus_host

    @property
    def nimbus_port(self) -> int:
        """Nimbus' Thrift port."""
        return self.plan.nimbus_port

    def describe_network(self) -> str:
        """Return one line about the links and the CPU of the nodes."""
        if self.plan.namespaces:
            limits = limits_text([node.link for node in self.plan.nodes], " both ways")
            links = f"{len(self.plan.nodes)} network namespaces in {self.plan.subnet}.0/24, links {limits}"
        else:
            links = f"{len(self.plan.nodes)} loopback addresses, without link limits: {self.plan.loopback_reason}"
        if self.plan.no_cpu_limit_reason:
            return f"{links}; without CPU limits: {self.plan.no_cpu_limit_reason}"
        cores = [f"{node.cores:g}" for node in self.plan.nodes if node.cores is not None]
        return f"{links}; nodes {limits_text(cores, ' cores')}" if cores else links

    def warden_pid(self) -> int:
        """Return the process id of the warden, with which the cluster ends.

        Raises
        ------
        ClusterError
            If it has ended.
        """
        pid = only_child(self._keeper_pid) if self.plan.namespaces else self._keeper_pid
        if pid is None or not Path(f"/proc/{pid}").exists():
            raise ClusterError("the local cluster has ended")
        return pid

    def daemon_pids(self) -> dict[str, int | None]:
        """Return the process id of every daemon on this machine; None for one that has ended."""
        events = read_events(self.plan)
        ended = exit_codes(events)
        here = outer_pids(self.warden_pid())
        return {name: None if name in ended else here.get(pid) for name, pid in daemon_pids(events).items()}

    def command_beside_nimbus(self) -> tuple[str, ...]:
        """Return the prefix of a command that runs beside Nimbus and ends with the cluster."""
        if not self.plan.namespaces:
            return ()
        return ("nsenter", f"--target={self.warden_pid()}", "--net", "--pid", "--mount", "--")

    def command_on_node(self, node: str) -> tuple[str, ...]:
        """Return the prefix of a command that runs on a node and ends with the cluster."""
        in_group = cpu.in_group(self.plan.work, node) if self.plan.limits_cpu else ()
        if not self.plan.namespaces:
            return in_group
        holder = self._holders()[node]
        # The namespace of the node, but processes and mounts of the warden: a node has none of its own.
        inside = (f"--target={self.warden_pid()}", f"--net=/proc/{holder}/ns/net", "--pid", "--mount")
        return ("nsenter", *inside, "--", *in_group)

    def _holders(self) -> dict[str, int]:
        """Return a process in the network namespace of each node."""
        here = outer_pids(self.warden_pid())
        return {node: here[pid] for node, pid in namespace_holders(read_events(self.plan)).items()}

    def limit_nodes(self, cores: float | tuple[float, ...], link: str | tuple[str, ...], weight: int = 1) -> None:
        """Change the CPU and link limits of every node at run time; declared resources stay.

        Parameters
        ----------
        cores
            CPU limit in cores, at least 0.05, of all nodes or of each.
        link
            Rate limit of links, both ways, in ``tc`` syntax, of all nodes or of each.
        weight
            CPU weight of nodes relative to another process if the machine is overloaded, 1 to 100.

        Raises
        ------
        ClusterError
            The cluster has ended, or was started without limits.
        """
        count = len(self.plan.nodes)
        for node, own, speed in zip(self.plan.nodes, of_nodes(cores, count), of_nodes(link, count), strict=True):
            self.limit_node(node.name, cores=own, link=speed, weight=weight)

    def limit_node(self, name: str, *, cores: float | None = None, link: str | None = None, weight: int = 1) -> None:
        """Change limits of one node at run time; declared resources stay.

        Parameters
        ----------
        name
            Name of the node, as in the plan of the cluster.
        cores, link, weight
            As for `limit_nodes`; None for no change.

        Raises
        ------
        ClusterError
            The cluster has ended, was started without that limit, or has no such node.
        """
        node = self.plan.node(name)
        if (cores is not None and node.cores is None) or (link is not None and node.link is None):
            raise ClusterError("nodes without limits of CPU and link cannot be given others")
        if cores is not None:
            cpu.hold_group(self.plan.work, name, cores, weight)
            node = replace(node, cores=cores)
        if link is not None:
            network.limit_node(name, self.warden_pid(), self._holders()[name], link)
            node = replace(node, link=link)
        self.plan = replace(self.plan, nodes=tuple(node if each.name == name else each for each in self.plan.nodes))
        self.plan.save()

    def kill_processes(self, node: str) -> None:
        """Kill all processes of a node once; its supervisor is started again.

        Raises
        ------
        ClusterError
            The cluster was started without CPU limits.
        """
        if not self.plan.limits_cpu:
            raise ClusterError("nodes that are not held to cores cannot be killed")
        cpu.kill_group(self.plan.work, node)

    def kill_node(self, node: str) -> None:
        """Kill a node: its supervisor and workers end at once and are not restarted.

        Raises
        ------
        ClusterError
            The cluster has ended, was started without CPU limits, or has no such node.
        """
        if not self.plan.limits_cpu:
            raise ClusterError("nodes that are not held to cores cannot be killed")
        self.plan.node(node)
        self.warden_pid()
        # A supervisor that ends soon after its start is not started again.
        deadline = time.monotonic() + _DYING_S
        while time.monotonic() < deadline:
            cpu.kill_group(self.plan.work, node)
            time.sleep(_DYING_POLL_S)

    def gateway_command(self) -> list[str]:
        """Return the command that starts the Nimbus gateway for this cluster."""
        command = daemons.client_command(self.plan, "stormwright.NimbusGateway")
        return [*self.command_beside_nimbus(), *command]

    def gateway(self) -> NimbusGateway:
        """Return a new connection to Nimbus, to be closed by the caller."""
        return NimbusGateway(self.gateway_command())

    def run_topology(
        self,
        class_name: str,
        args: Sequence[str] = (),
        conf: Mapping[str, Any] | None = None,
        jar: Path | None = None,
        limit_s: float = SUBMIT_S,
    ) -> None:
        """Submit a topology by running the ``main`` of a class.

        Parameters
        ----------
        class_name
            Main class, such as ``stormwright.topologies.WordCount``.
        args
            Command-line arguments of the class's ``main``, in order.
        conf
            Topology configuration that wins over the topology's own.
        jar
            Jar with the class, which is uploaded; None for ours.
        limit_s
            Seconds that the class may take.

        Raises
        ------
        ClusterError
            If it fails, with Java's message.
        """
        own = jar or self.plan.lib / STORMWRIGHT_JAR.name
        command = daemons.client_command(
            self.plan, class_name, tuple(args), [own] if jar else [], **submission_properties(own, conf or {})
        )
        submit([*self.command_beside_nimbus(), *command], class_name, {MARK: str(self.plan.work)}, limit_s)

    def node_cpu(self) -> dict[str, NodeCpu]:
        """Return CPU of every node since the cluster came up; empty if nodes have no CPU limit.

        Raises
        ------
        ClusterError
            If the cluster has ended.
        """
        held = [(node.name, node.cores) for node in self.plan.nodes if node.cores is not None]
        return {name: cpu.read_group(self.plan.work, name, cores) for name, cores in held}

    def net_bytes(self) -> dict[str, LinkBytes]:
        """Return bytes over every node's link since the cluster came up; empty on loopback."""
        if not self.plan.namespaces:
            return {}
        text = Path(f"/proc/{self.warden_pid()}/net/dev").read_text(encoding="utf-8")
        counters = {
            name.strip(): fields.split() for name, _, fields in (line.partition(":") for line in text.splitlines())
        }
        # What the switch's end of a link receives (field 0) is what the node has sent (field 8 the other way).
        return {
            node.name: LinkBytes(sent=int(counters[node.name][0]), received=int(counters[node.name][8]))
            for node in self.plan.nodes
        }
