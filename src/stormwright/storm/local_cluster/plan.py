"""Everything about one local cluster that is decided before anything is started.

The plan is written to the work directory, so that the warden, and any later command, read the same decisions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from stormwright.storm.local_cluster.config import LocalClusterConfig
from stormwright.storm.local_cluster.network import free_ports, free_subnet

NIMBUS_PORT = 6627
ZOOKEEPER_PORT = 2181
SUPERVISOR_PORT = 6628
FIRST_WORKER_PORT = 6700


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its supervisor's address, thrift port and worker slots."""

    name: str
    address: str
    thrift_port: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster's addresses, ports and places.

    `loopback_reason` is empty when nodes are namespaces, else it says why they are not; `no_cpu_limit_reason` likewise
    says why nodes are not held to their cores though they should be. `subnet` holds the first three octets of every
    address.
    """

    work: Path
    java: str
    config: LocalClusterConfig
    subnet: str
    loopback_reason: str
    no_cpu_limit_reason: str
    service_host: str
    nimbus_host: str
    nimbus_port: int
    zookeeper_port: int
    nodes: tuple[Node, ...]

    @property
    def namespaces(self) -> bool:
        """Whether nodes are network namespaces with limited links."""
        return not self.loopback_reason

    @property
    def link(self) -> str | None:
        """The rate limit in force; None where there is none."""
        return self.config.link if self.namespaces else None

    @property
    def cores(self) -> float | None:
        """Cores that each node is held to; None where there is no limit."""
        return self.config.cores_per_node

    def is_node(self, daemon: str) -> bool:
        """Whether a daemon is the supervisor of a node."""
        return any(node.name == daemon for node in self.nodes)

    @property
    def host_link(self) -> str:
        """Name of the host's end of the link into the cluster."""
        return "storm-" + self.subnet.rsplit(".", 1)[1]

    @property
    def lib(self) -> Path:
        """Copies of jars that must outlive a rebuild: the plugin's."""
        return self.work / "lib"

    @property
    def worker_java_home(self) -> Path:
        """What supervisors take for JAVA_HOME when they start workers."""
        return self.work / "worker-java"

    def daemon_dir(self, daemon: str) -> Path:
        """Where one daemon keeps its configuration, state and logs."""
        return self.work / daemon

    def save(self) -> None:
        """Write the plan to its work directory."""
        (self.work / "plan.json").write_text(json.dumps(asdict(self), default=str, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, work: Path) -> Self:
        """Read the plan of a work directory."""
        data: dict[str, Any] = json.loads((work / "plan.json").read_text(encoding="utf-8"))
        nodes = tuple(Node(**{**node, "ports": tuple(node["ports"])}) for node in data["nodes"])
        known = {"no_cpu_limit_reason": "", **data}  # a cluster that an older version started can be stopped
        return cls(**{**known, "work": work, "config": LocalClusterConfig(**data["config"]), "nodes": nodes})


def make_plan(
    config: LocalClusterConfig, work: Path, java: str, loopback_reason: str, no_cpu_limit_reason: str = ""
) -> ClusterPlan:
    """Choose addresses and ports that nothing on this machine uses.

    Parameters
    ----------
    config
        What was asked for.
    work
        Directory of the cluster's files.
    java
        The ``java`` of its daemons.
    loopback_reason
        Why nodes are mere addresses of the loopback, whose links have no limit; empty for network namespaces.
    no_cpu_limit_reason
        Why nodes are not held to the cores of `config`; empty if they are, or if it names none.

    Raises
    ------
    ClusterError
        There are not enough free ports, or no free subnet.
    """
    if no_cpu_limit_reason:
        config = replace(config, cores_per_node=None)
    if loopback_reason:
        return _loopback_plan(config, work, java, loopback_reason, no_cpu_limit_reason)
    subnet = free_subnet()
    ports = tuple(range(FIRST_WORKER_PORT, FIRST_WORKER_PORT + config.slots))
    return ClusterPlan(
        work=work,
        java=java,
        config=config,
        subnet=subnet,
        loopback_reason="",
        no_cpu_limit_reason=no_cpu_limit_reason,
        service_host=f"{subnet}.1",
        nimbus_host=f"{subnet}.2",
        nimbus_port=NIMBUS_PORT,
        zookeeper_port=ZOOKEEPER_PORT,
        nodes=_nodes(config, subnet, [SUPERVISOR_PORT] * config.nodes, [ports] * config.nodes),
    )


def _loopback_plan(
    config: LocalClusterConfig, work: Path, java: str, reason: str, no_cpu_limit_reason: str
) -> ClusterPlan:
    # Storm's servers bind every address of the machine, so on loopback each needs a port of its own.
    nimbus, zookeeper, *rest = free_ports(2 + config.nodes * (1 + config.slots), first=NIMBUS_PORT)
    thrift, workers = rest[: config.nodes], rest[config.nodes :]
    ports = [tuple(workers[i * config.slots : (i + 1) * config.slots]) for i in range(config.nodes)]
    return ClusterPlan(
        work=work,
        java=java,
        config=replace(config, link=None),
        subnet="127.0.0",
        loopback_reason=reason,
        no_cpu_limit_reason=no_cpu_limit_reason,
        service_host="127.0.0.1",
        nimbus_host="127.0.0.2",
        nimbus_port=nimbus,
        zookeeper_port=zookeeper,
        nodes=_nodes(config, "127.0.0", thrift, ports),
    )


def _nodes(
    config: LocalClusterConfig, subnet: str, thrift: Sequence[int], ports: Sequence[tuple[int, ...]]
) -> tuple[Node, ...]:
    return tuple(Node(f"node{i + 1}", f"{subnet}.{11 + i}", thrift[i], ports[i]) for i in range(config.nodes))
