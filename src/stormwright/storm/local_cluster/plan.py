"""Plan of a local cluster: all decisions made before anything is started.

The plan is written to the work directory, so that the warden, and any later command, read the same decisions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from stormwright.errors import Fault, InputError
from stormwright.model.link_speed import link_bits_per_s
from stormwright.storm.local_cluster.network import free_ports, free_subnet

# Configuration ------------------------------------------------------------------------------------
# Configuration of a local cluster, validated on creation.

NetworkKind = Literal["auto", "namespaces", "loopback"]
CpuLimits = Literal["auto", "groups"]

#: Cores that a node declares to schedulers where it is not held to any.
UNLIMITED_CORES = 2.0

#: A quota under 1 ms is refused by the kernel; the upper end is there to catch slips.
_CORES = (0.05, 1024.0)

#: The octets left for nodes in the cluster's subnet, and plenty for one machine.
MAX_NODES = 64


@dataclass(frozen=True, slots=True)
class LocalClusterConfig:
    """Size and limits of a local cluster.

    Parameters
    ----------
    nodes, slots
        Supervisors, and worker slots of each.
    link
        Rate limit of each node's link, both ways, in the words of ``tc`` (``"40mbit"``); None for no limit.
    cores_per_node
        Cores that each node, its supervisor and workers together, is held to and declares to schedulers, 0.05 to 1024;
        None for no limit, and 2 declared.
    cpu_limits
        ``"groups"`` (a node is a control group; an error if impossible), or ``"auto"`` (if impossible, nodes
        have no limit).
    memory_mb_per_node
        Memory that a node declares to schedulers; nothing enforces it.
    standbys
        JVMs of each node that have loaded Storm's worker and become its next ones, 0 to 10 (see ``worker_java.sh``).
    service_port
        Port at which a stormwright service is expected on `LocalCluster.service_host`.
    scheduler
        Whether Nimbus uses that service (``stormwright.PlacementScheduler``) or Storm's own scheduler.
    storm_conf
        Additional settings of ``storm.yaml``, for all daemons; they override those of the cluster.
    network
        ``"namespaces"`` (a node is a network namespace; root only), ``"loopback"`` (a node is an address, without
        limits), or ``"auto"`` for the first that works.
    start_timeout_s
        Maximum time for the start of Storm: some 5 s on an idle machine, minutes on a very busy one.

    Raises
    ------
    InputError
        Naming every parameter that makes no sense.
    """

    nodes: int = 3
    slots: int = 4
    link: str | None = "40mbit"
    cores_per_node: float | None = None
    cpu_limits: CpuLimits = "groups"
    memory_mb_per_node: float = 4096.0
    standbys: int = 1
    service_port: int = 7070
    scheduler: bool = True
    storm_conf: Mapping[str, Any] = field(default_factory=dict)
    network: NetworkKind = "auto"
    start_timeout_s: float = 180.0

    def __post_init__(self) -> None:
        checks = {
            "nodes": (1 <= self.nodes <= MAX_NODES, f"must be 1 to {MAX_NODES}, is {self.nodes}"),
            "slots": (1 <= self.slots <= 100, f"must be 1 to 100, is {self.slots}"),
            "link": (
                self.link is None or link_bits_per_s(self.link) > 0,
                f"must be a rate such as 40mbit, 512kbit or 1gbit, is {self.link!r}",
            ),
            "cores_per_node": (
                self.cores_per_node is None or _CORES[0] <= self.cores_per_node <= _CORES[1],
                f"must be {_CORES[0]:g} to {_CORES[1]:g} cores, is {self.cores_per_node}",
            ),
            "memory_mb_per_node": (self.memory_mb_per_node > 0, f"must be more than 0, is {self.memory_mb_per_node}"),
            "standbys": (0 <= self.standbys <= 10, f"must be 0 to 10, is {self.standbys}"),
            "service_port": (1 <= self.service_port <= 65535, f"must be 1 to 65535, is {self.service_port}"),
            "start_timeout_s": (self.start_timeout_s > 0, f"must be more than 0, is {self.start_timeout_s}"),
        }
        faults = [Fault(message, f"$.{name}") for name, (sound, message) in checks.items() if not sound]
        if faults:
            raise InputError("local cluster", faults)

    @property
    def declared_cores(self) -> float:
        """Cores that a node declares to schedulers."""
        return self.cores_per_node or UNLIMITED_CORES


# Plan ---------------------------------------------------------------------------------------------

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
    """Addresses, ports and directories of a cluster.

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
        """The rate limit in force; None without one."""
        return self.config.link if self.namespaces else None

    @property
    def cores(self) -> float | None:
        """CPU limit of each node in cores; None without one."""
        return self.config.cores_per_node

    def is_node(self, daemon: str) -> bool:
        """Return whether a daemon is the supervisor of a node."""
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
        """JAVA_HOME of workers, as set by supervisors."""
        return self.work / "worker-java"

    def daemon_dir(self, daemon: str) -> Path:
        """Return the directory of a daemon's configuration, state and logs."""
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
        Requested nodes, slots and limits; impossible CPU limits are dropped.
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
