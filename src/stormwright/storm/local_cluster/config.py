"""What a local cluster shall look like, checked when it is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stormwright.errors import Fault, InputError
from stormwright.link_speed import link_bits_per_s

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
        ``"groups"`` (a node is a control group; an error where that is impossible), or ``"auto"`` (where it is, nodes
        have no limit).
    memory_mb_per_node
        Memory that a node declares to schedulers; nothing enforces it.
    service_port
        Port at which a stormwright service is expected on `LocalCluster.service_host`.
    scheduler
        Whether Nimbus asks that service (``stormwright.PlacementScheduler``) or keeps Storm's own scheduler.
    storm_conf
        More of ``storm.yaml``, for all daemons; wins over what the cluster sets itself.
    network
        ``"namespaces"`` (a node is a network namespace; root only), ``"loopback"`` (a node is an address, without
        limits), or ``"auto"`` for the first that works.
    start_timeout_s
        How long Storm may take to come up: some 5 s on an idle machine, minutes on a very busy one.

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
            "service_port": (1 <= self.service_port <= 65535, f"must be 1 to 65535, is {self.service_port}"),
            "start_timeout_s": (self.start_timeout_s > 0, f"must be more than 0, is {self.start_timeout_s}"),
        }
        faults = [Fault(message, f"$.{name}") for name, (sound, message) in checks.items() if not sound]
        if faults:
            raise InputError("local cluster", faults)

    @property
    def declared_cores(self) -> float:
        """What a node tells schedulers that it has."""
        return self.cores_per_node or UNLIMITED_CORES
