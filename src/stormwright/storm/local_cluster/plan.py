"""Plan of a local cluster: all decisions made before anything is started.

The plan is written to the work directory, so that the warden, and any later command, read the same decisions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from stormwright.errors import ClusterError, Fault, InputError
from stormwright.model.link_speed import link_bits_per_s
from stormwright.storm.local_cluster.network import free_ports, free_subnet

_T = TypeVar("_T")

NetworkKind = Literal["auto", "namespaces", "loopback"]
CpuLimits = Literal["auto", "groups"]

#: Cores that a node declares to schedulers where it is not held to any.
UNLIMITED_CORES = 2.0

#: A quota under 1 ms is refused by the kernel; the upper end is there to catch slips.
_CORES = (0.05, 1024.0)

#: The octets left for nodes in the cluster's subnet, and plenty for one machine.
MAX_NODES = 64

NIMBUS_PORT = 6627
ZOOKEEPER_PORT = 2181
SUPERVISOR_PORT = 6628
FIRST_WORKER_PORT = 6700


@dataclass(frozen=True, slots=True)
class LocalClusterConfig:
    """Size and limits of a local cluster.

    Parameters
    ----------
    nodes, slots
        Supervisors, and worker slots of each.
    link
        Rate limit of each node's link, both ways, in the words of ``tc`` (``"40mbit"``), of all nodes or of each; None
        for no limit.
    cores_per_node
        Cores that each node, its supervisor and workers together, is held to, 0.05 to 1024, of all nodes or of each;
        None for no limit.
    declared_cores
        Cores that each node declares to schedulers, of all nodes or of each; None for those that it is held to, or 2
        without a limit. Others than it is held to are a wrong ``storm.yaml``, as operators have.
    racks
        Rack of each node; empty for one rack of all.
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
    link: str | tuple[str, ...] | None = "40mbit"
    cores_per_node: float | tuple[float, ...] | None = None
    declared_cores: float | tuple[float, ...] | None = None
    racks: tuple[str, ...] = ()
    cpu_limits: CpuLimits = "groups"
    memory_mb_per_node: float = 4096.0
    standbys: int = 1
    service_port: int = 7070
    scheduler: bool = True
    storm_conf: Mapping[str, Any] = field(default_factory=dict)
    network: NetworkKind = "auto"
    start_timeout_s: float = 180.0

    def __post_init__(self) -> None:
        for name in ("link", "cores_per_node", "declared_cores", "racks"):
            if isinstance(given := getattr(self, name), list):  # from JSON
                object.__setattr__(self, name, tuple(given))
        cores, declared = _values(self.cores_per_node), _values(self.declared_cores)
        low, high = _CORES
        checks = {
            "nodes": (1 <= self.nodes <= MAX_NODES, f"must be 1 to {MAX_NODES}, is {self.nodes}"),
            "slots": (1 <= self.slots <= 100, f"must be 1 to 100, is {self.slots}"),
            "link": (
                all(link_bits_per_s(link) > 0 for link in _values(self.link)),
                f"must be a rate such as 40mbit, 512kbit or 1gbit, is {self.link!r}",
            ),
            "cores_per_node": (
                all(low <= each <= high for each in cores),
                f"must be {low:g} to {high:g} cores, is {', '.join(f'{each:g}' for each in cores)}",
            ),
            "declared_cores": (all(each > 0 for each in declared), f"must be more than 0, is {self.declared_cores}"),
            "memory_mb_per_node": (self.memory_mb_per_node > 0, f"must be more than 0, is {self.memory_mb_per_node}"),
            "standbys": (0 <= self.standbys <= 10, f"must be 0 to 10, is {self.standbys}"),
            "service_port": (1 <= self.service_port <= 65535, f"must be 1 to 65535, is {self.service_port}"),
            "start_timeout_s": (self.start_timeout_s > 0, f"must be more than 0, is {self.start_timeout_s}"),
        }
        faults = [Fault(message, f"$.{name}") for name, (sound, message) in checks.items() if not sound]
        for name in ("link", "cores_per_node", "declared_cores", "racks"):
            given = getattr(self, name)
            if isinstance(given, tuple) and given and len(given) != self.nodes:
                faults.append(Fault(f"has {len(given)} values for {self.nodes} nodes: give one for each", f"$.{name}"))
        if faults:
            raise InputError("local cluster", faults)

    @property
    def cores(self) -> tuple[float | None, ...]:
        """Cores that each node is held to; None without a limit."""
        return of_nodes(self.cores_per_node, self.nodes)

    @property
    def links(self) -> tuple[str | None, ...]:
        """Rate limit of each node's link; None without one."""
        return of_nodes(self.link, self.nodes)

    @property
    def declared(self) -> tuple[float, ...]:
        """Cores that each node declares to schedulers."""
        if self.declared_cores is not None:
            return of_nodes(self.declared_cores, self.nodes)
        return tuple(UNLIMITED_CORES if cores is None else cores for cores in self.cores)


def _values(given: _T | tuple[_T, ...] | None) -> tuple[_T, ...]:
    """Return values of all nodes or of each as a tuple."""
    return () if given is None else given if isinstance(given, tuple) else (given,)


def of_nodes(given: _T | tuple[_T, ...], nodes: int) -> tuple[_T, ...]:
    """Return a value for each of a number of nodes: the given one for all, or the given ones."""
    return given if isinstance(given, tuple) else (given,) * nodes


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its supervisor's address, thrift port and worker slots, and its limits.

    `cores` and `link` are None without a limit, `rack` is empty where there are no racks.
    """

    name: str
    address: str
    thrift_port: int
    ports: tuple[int, ...]
    cores: float | None = None
    declared_cores: float = UNLIMITED_CORES
    link: str | None = None
    rack: str = ""


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
    def limits_links(self) -> bool:
        """Whether nodes have links with a rate limit."""
        return any(node.link is not None for node in self.nodes)

    @property
    def limits_cpu(self) -> bool:
        """Whether nodes are held to their cores."""
        return any(node.cores is not None for node in self.nodes)

    def node(self, name: str) -> Node:
        """Return a node by its name.

        Raises
        ------
        ClusterError
            There is none of that name.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise ClusterError(f"{name}: there is no such node; there are {', '.join(node.name for node in self.nodes)}")

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
        nodes=_nodes(replace(config, link=None), "127.0.0", thrift, ports),
    )


def _nodes(
    config: LocalClusterConfig, subnet: str, thrift: Sequence[int], ports: Sequence[tuple[int, ...]]
) -> tuple[Node, ...]:
    of_nodes = zip(thrift, ports, config.cores, config.declared, config.links, strict=True)
    racks = config.racks or ("",) * config.nodes
    return tuple(
        Node(f"node{number}", f"{subnet}.{10 + number}", *limits, racks[number - 1])
        for number, limits in enumerate(of_nodes, 1)
    )
