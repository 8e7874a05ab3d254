"""Interface of the cluster of a demonstration, real or virtual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from stormwright.controller.move import Nimbus
    from stormwright.storm.local_cluster.cpu import NodeCpu
    from stormwright.storm.local_cluster.running import LinkBytes


if TYPE_CHECKING:
    from stormwright.base.clock import Clock
    from stormwright.service.composition import Service


class DemoNode(Protocol):
    """A node: its name, the host that its workers report, and the rate limit of its link; None for no limit."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def link(self) -> str | None: ...


class DemoPlan(Protocol):
    """Plan of a cluster: its nodes."""

    @property
    def nodes(self) -> Sequence[DemoNode]: ...


class VirtualCluster(Protocol):
    """Additional interface of a virtual cluster."""

    @property
    def clock(self) -> Clock: ...

    @property
    def origin(self) -> str:
        """Origin of the figures, as a sentence for the report."""

    def connect(self, service: Service) -> None:
        """Connect Nimbus and the workers to a service."""


class DemoCluster(Protocol):
    """A running cluster, such as `stormwright.storm.local_cluster.RunningCluster`."""

    @property
    def plan(self) -> DemoPlan: ...

    @property
    def service_host(self) -> str: ...

    @property
    def service_port(self) -> int: ...

    @property
    def service_url(self) -> str: ...

    def gateway_command(self) -> list[str] | AbstractContextManager[Nimbus]: ...

    def run_topology(
        self, class_name: str, args: Sequence[str] = (), conf: Mapping[str, Any] | None = None
    ) -> None: ...

    def node_cpu(self) -> Mapping[str, NodeCpu]: ...

    def net_bytes(self) -> Mapping[str, LinkBytes]: ...

    def describe_network(self) -> str: ...
