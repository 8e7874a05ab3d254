"""Size and length of a demonstration, and what it needs of a cluster, real or virtual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from stormwright.controller.objectives.outlook import OBJECTIVES, THROUGHPUT, TRAFFIC
from stormwright.errors import Fault, InputError, nearest
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.from_scratch import Anew
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation
from stormwright.storm.local_cluster import LocalClusterConfig
from stormwright.workbench.demo.trials import Criterion, TrialPlan

if TYPE_CHECKING:
    from stormwright.clock import Clock
    from stormwright.controller.move import Nimbus
    from stormwright.service.composition import Service
    from stormwright.storm.local_cluster.cpu import NodeCpu
    from stormwright.storm.local_cluster.running import LinkBytes


# Topologies ---------------------------------------------------------------------------------------
# The benchmark topologies by the names that `--topology` takes.


@dataclass(frozen=True)
class Submission:
    """A topology to submit: the class that submits itself, and its ``key=value`` arguments."""

    name: str
    main_class: str
    args: dict[str, str] = field(default_factory=dict)

    def arguments(self, **others: str) -> list[str]:
        """What the class is called with; `others` where it has not been told them itself."""
        return [f"{key}={value}" for key, value in {"name": self.name, **others, **self.args}.items()]


#: Those that one class builds, from a description that its argument ``shape`` names.
SHAPES = ("linear", "diamond", "star", "page-load", "processing", "advertising", "sol")

TOPOLOGIES = {
    "word-count": "stormwright.topologies.WordCount",
    "exclamation": "stormwright.topologies.Exclamation",
    "rolling-top-words": "stormwright.topologies.RollingTopWords",
    "reference": "stormwright.topologies.Reference",
    **dict.fromkeys(SHAPES, "stormwright.topologies.Shaped"),
}


def parse_submissions(specs: Sequence[str], said_by: str = "--topology") -> list[Submission]:
    """Read ``KIND[:key=value,…]`` texts; a topology that gives no ``name`` is called after its kind and number.

    Parameters
    ----------
    specs
        The texts.
    said_by
        What errors call them.

    Raises
    ------
    InputError
        An unknown kind, an argument without ``=`` or two topologies of one name, all reported at once.
    """
    faults: list[Fault] = []
    submissions: list[Submission] = []
    for number, spec in enumerate(specs):
        kind, _, rest = spec.partition(":")
        path = f"{said_by}[{number}]"
        if kind not in TOPOLOGIES:
            near = nearest(kind, TOPOLOGIES)
            hint = f"; did you mean {near}?" if near else f"; there are {', '.join(TOPOLOGIES)}"
            faults.append(Fault(f"no topology called {kind!r}{hint}", path))
            continue
        args = {"shape": kind} if kind in SHAPES else {}
        for part in filter(None, rest.split(",")):
            key, equals, value = part.partition("=")
            if not equals:
                faults.append(Fault(f"{part!r} is not key=value", path))
            args[key] = value
        name = args.pop("name", f"{kind}-{number + 1}")
        if any(name == other.name for other in submissions):
            faults.append(Fault(f"a second topology called {name!r}", path))
        submissions.append(Submission(name, TOPOLOGIES[kind], args))
    if faults:
        raise InputError(said_by, faults)
    return submissions


# Settings -----------------------------------------------------------------------------------------

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
