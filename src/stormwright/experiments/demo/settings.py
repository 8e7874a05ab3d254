"""Size and length of a demonstration, and what it needs of a cluster, real or virtual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from stormwright.controller.objectives.outlook import OBJECTIVES, THROUGHPUT, TRAFFIC
from stormwright.experiments.demo.topologies import Submission
from stormwright.experiments.demo.trials import Criterion, TrialPlan
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.from_scratch import Anew
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation
from stormwright.storm.local_cluster import LocalClusterConfig

if TYPE_CHECKING:
    from stormwright.clock import Clock
    from stormwright.controller.move import Nimbus
    from stormwright.service.wiring import Service
    from stormwright.storm.local_cluster.cpu import NodeCpu
    from stormwright.storm.local_cluster.running import LinkBytes

#: Cores of each node of the demonstration: as few as leave JVMs room to start within a minute, so that the service and
#: Spark have the rest of a small machine, and figures are alike on larger ones.
CORES = 0.4

#: Speed of each node's link: 62 Mbit/s for a core, as a node of 16 cores with 1 Gbit/s has; and where nodes share the
#: machine's cores, so little that links are the limit.
LINK, LINK_OF_SHARED_CORES = "25mbit", "40mbit"


@dataclass(frozen=True)
class DemoSettings:
    """Size and length of a demonstration; times in seconds.

    Parameters
    ----------
    cluster, submissions
        Where it runs, and what.
    scheduler, scheduler_name
        Decides, and what it is called.
    warm_up_s, measure_s
        Before the first measurement, and of each.
    probe_interval_ms
        From one record of a worker to the next.
    look_back
        Whether a placement that is not better than Storm's own is rolled back.
    rounds, decisions
        As `TrialPlan` has them.
    """

    cluster: LocalClusterConfig
    submissions: Sequence[Submission]
    scheduler: Scheduler
    scheduler_name: str
    warm_up_s: float = 30.0
    measure_s: float = 30.0
    probe_interval_ms: int = 250
    look_back: bool = False
    rounds: int = 2
    decisions: int = 2

    @property
    def trial_plan(self) -> TrialPlan:
        """How decisions are tried."""
        return TrialPlan(Criterion(self.objective), self.look_back, self.rounds, self.decisions)

    @property
    def adapts(self) -> Adaptation:
        """What a move has to be for: where everything is placed anew that is shown, whatever it gains."""
        return Adaptation(on_period=True, gains=()) if isinstance(self.scheduler, Anew) else ONLINE

    @property
    def objective(self) -> str:
        """What a move has to gain: what the scheduler aims at where it has a choice, else less traffic."""
        chosen = getattr(getattr(self.scheduler, "params", None), "objective", TRAFFIC)
        if chosen == "auto":
            return THROUGHPUT
        return chosen if chosen in OBJECTIVES else TRAFFIC


class DemoNode(Protocol):
    """A node: its name, and the host that its workers report."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...


class DemoPlan(Protocol):
    """Nodes, and the rate limit of each one's link; None where there is none."""

    @property
    def nodes(self) -> Sequence[DemoNode]: ...

    @property
    def link(self) -> str | None: ...


class DemoCluster(Protocol):
    """A cluster that is up, as `stormwright.storm.local_cluster.RunningCluster` is one."""

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


class Virtual(Protocol):
    """What a virtual cluster has besides."""

    @property
    def clock(self) -> Clock: ...

    @property
    def told(self) -> str:
        """How its figures come about, in a sentence for who reads them."""

    def connect(self, service: Service) -> None:
        """Let Nimbus ask a service, and workers report to it."""
