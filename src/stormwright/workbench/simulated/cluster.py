"""A virtual cluster for `stormwright demo`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stormwright.defaults import BASELINE
from stormwright.errors import ClusterError
from stormwright.model import Problem
from stormwright.model.assignment import UNPLACED
from stormwright.perflog.columns import ParsedRows
from stormwright.perflog.landing import COLUMNS_SUFFIX
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.nimbus import VirtualNimbus
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.engine import NOWHERE, Engine
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.storm.bridge import NimbusAnswer
from stormwright.storm.local_cluster import LocalClusterConfig
from stormwright.storm.local_cluster.cpu import NodeCpu
from stormwright.storm.local_cluster.plan import UNLIMITED_CORES
from stormwright.storm.local_cluster.running import LinkBytes, limits_text
from stormwright.workbench.demo.result import DemoResult
from stormwright.workbench.demo.run import demo_cluster, run_demo_on, unlike_cores
from stormwright.workbench.demo.settings import CORES, LINK, DemoSettings
from stormwright.workbench.demo.submissions import Submission
from stormwright.workbench.simulated.topologies import simulated_problem, simulated_topologies

#: Virtual seconds from one file to the next, and that a file may wait before virtual time does: who decides takes a
#: load for too old that was measured longer ago than a window and what a record may be late.
_LAND_S, _AHEAD_S = 1.0, 30.0

#: Seconds of this machine after which a pipeline stands still, and from one look to the next.
_STILL_S, _LOOK_S = 120.0, 0.02

#: Problem, and trees/s that the spouts of its topologies would begin by id → what makes tuples flow.
MakesEngine = Callable[[Problem, Mapping[str, float]], Engine]

#: Tuples per event in the demonstration; seconds of offered trees that a spout makes up for after a pause, as the
#: topologies of the demonstration do.
TUPLES_AT_ONCE, BACKLOG_S = 4, 0.1

#: Note on figures made by `by_tuples`.
SIMULATED = (
    "Simulated in virtual time, tuple by tuple: queues, threads, links, losses and replays are followed, the costs of "
    "tuples and messages are assumed; no Storm ran"
)

#: Settings of a local cluster that moves wait for: the periods in which workers poll the addresses of others, and
#: supervisors the configurations of topologies, in seconds.
_CONF = {"task.refresh.poll.secs": 1, "supervisor.localizer.update.blob.interval.secs": 2}


def virtual_cluster(
    nodes: int, slots: int, link: str | tuple[str, ...] | None, cores_per_node: float | tuple[float, ...] | None
) -> LocalClusterConfig:
    """Return size and limits of a virtual cluster, by default those of the demonstration.

    Parameters
    ----------
    nodes, slots
        Number of nodes, and worker slots of each.
    link
        Speed of links, of all nodes or of each; None for that of the demonstration.
    cores_per_node
        Cores, of all nodes or of each; None for those of the demonstration, 0 for two.

    Raises
    ------
    InputError
        A size makes no sense.
    """
    cores = unlike_cores(nodes, CORES) if cores_per_node is None else cores_per_node or None
    return demo_cluster(nodes=nodes, slots=slots, link=link or LINK, cores_per_node=cores)


def run_simulated(settings: DemoSettings) -> DemoResult:
    """Run the demonstration in virtual time.

    Raises
    ------
    InputError
        A topology cannot be simulated.
    ClusterError
        The pipeline does not keep up, or measured no load.
    MoveError
        A topology could not be drained.
    """
    cluster = SimulatedCluster(settings.cluster, settings.submissions, settings.probe_interval_ms)
    return run_demo_on(cluster, settings, cluster)


class RecordShipping:
    """Delivery of records: counted at once, and landed in files of one virtual second each.

    Virtual time waits if the pipeline lags behind.

    Parameters
    ----------
    service
        Service that receives the records.
    clock
        Clock of the cluster.
    """

    def __init__(self, service: Service, clock: VirtualClock) -> None:
        self._intake, self._directory = service.intake, service.settings.state_dir / "landing"
        self._parsed: list[ParsedRows] = []
        self._clock = clock
        clock.every(_LAND_S, self._land)

    def take(self, lines: Sequence[bytes]) -> None:
        """Process lines of the performance log."""
        parsed = self._intake.parse(lines)
        self._intake.count(parsed)
        self._parsed.append(parsed)

    def _land(self) -> None:
        parsed, self._parsed = self._parsed, []
        if parsed:
            self._intake.store(parsed)
        until_s = time.monotonic() + _STILL_S
        while self._behind_s() > _AHEAD_S:
            if time.monotonic() > until_s:
                raise ClusterError(f"the pipeline has read nothing for {_STILL_S:g} s: is the machine too busy?")
            time.sleep(_LOOK_S)

    def _behind_s(self) -> float:
        """Return the age of the oldest waiting file, in virtual seconds."""
        waiting = []
        for path in self._directory.glob(f"*{COLUMNS_SUFFIX}"):
            try:
                waiting.append(path.stat().st_mtime)
            except FileNotFoundError:  # it was read meanwhile
                continue
        return self._clock.time() - min(waiting, default=self._clock.time())


@dataclass(frozen=True)
class SimulatedNode:
    """A node with the same name for workers and users, its cores, and the rate limit of its link."""

    name: str
    cores: float
    link: str | None

    @property
    def address(self) -> str:
        """The host that its workers report."""
        return self.name


@dataclass(frozen=True)
class SimulatedPlan:
    """Plan of a virtual cluster: its nodes."""

    nodes: tuple[SimulatedNode, ...]


def by_tuples(
    problem: Problem, offered_tps: Mapping[str, float], tuples_at_once: int = TUPLES_AT_ONCE, seed: int = 0
) -> Events:
    """Return the engine that follows tuples, with nothing running yet.

    Parameters
    ----------
    problem
        Problem with nodes and a load.
    offered_tps
        Topology id → trees/s that its spouts would begin, inf for as many as possible.
    tuples_at_once
        Maximum number of tuples per event.
    seed
        Seed of random times and choices.
    """
    settings = SimulatorSettings.of(
        problem,
        offered_tps=offered_tps,
        arrivals_vary=0.0,
        backlog_s=BACKLOG_S,
        startup_s=Timings().start_s,
        tuples_at_once=tuples_at_once,
        seed=seed,
    )
    return Events(problem, np.full(problem.num_executors, NOWHERE, np.int32), settings)


class SimulatedCluster:
    """A virtual cluster of nodes like those of a local one.

    Parameters
    ----------
    config
        Nodes, slots, links and cores.
    submissions
        Topologies that will be submitted.
    probe_interval_ms
        Time from one record of a worker to the next.
    engine
        Returns the simulation engine for a problem and its offered rates; by tuples by default.
    origin
        Note on the origin of its figures.
    timings
        Durations of Storm; by default those measured on a local cluster, with `probe_interval_ms`.
    conf
        Configuration of all topologies.

    Raises
    ------
    InputError
        A topology cannot be simulated.
    """

    def __init__(
        self,
        config: LocalClusterConfig,
        submissions: Sequence[Submission],
        probe_interval_ms: int,
        engine: MakesEngine = by_tuples,
        origin: str = SIMULATED,
        timings: Timings | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        topologies = simulated_topologies(list(submissions), conf)
        cores = [UNLIMITED_CORES if each is None else each for each in config.cores]
        self.origin, self._config = origin, config
        problem = simulated_problem(topologies, cores, config.links, config.slots, config.memory_mb_per_node)
        names = [node.host for node in problem.supervisors]
        self.plan = SimulatedPlan(tuple(map(SimulatedNode, names, cores, config.links)))
        problem = replace(problem, conf=_CONF)
        self.clock = VirtualClock(time.time())
        offered = {each.topology.id: each.offered_tps for each in topologies}
        timings = timings or Timings(probe_s=probe_interval_ms / 1000)
        self.storm = VirtualStorm(self.clock, problem, engine(problem, offered), evenly, timings)

    @property
    def service_host(self) -> str:
        """Address of this machine."""
        return "127.0.0.1"

    @property
    def service_port(self) -> int:
        """Displayed port of the service; the cluster calls the service directly."""
        return self._config.service_port

    @property
    def service_url(self) -> str:
        """URL of the service for browsers."""
        return f"http://{self.service_host}:{self.service_port}"

    def gateway_command(self) -> AbstractContextManager[VirtualNimbus]:
        """The virtual Nimbus."""
        return self.storm.gateway()

    def connect(self, service: Service) -> None:
        """Connect Nimbus and the workers to a service."""
        self.storm.nimbus.ask = service.bridge.answer
        self.storm.deliver = RecordShipping(service, self.clock).take

    def run_topology(
        self,
        class_name: str,  # noqa: ARG002  # topologies are known since the cluster was made
        args: Sequence[str] = (),
        conf: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> None:
        """Submit the topology of this name, which was given when the cluster was created."""
        name = next(value for key, value in (arg.split("=", 1) for arg in args) if key == "name")
        (topology,) = (each for each in self.storm.problem.topologies if each.name == name)
        self.storm.submit(topology)

    def node_cpu(self) -> dict[str, NodeCpu]:
        """Return the CPU used by workers; waiting times are not counted."""
        used = self.storm.used()
        return {
            node.name: NodeCpu(cpu_s, node.cores, 0, 0)
            for node, cpu_s in zip(self.plan.nodes, used.cpu_s.tolist(), strict=True)
        }

    def net_bytes(self) -> dict[str, LinkBytes]:
        """Return the bytes over links with a limit."""
        sent, received = self.storm.used().link_bytes.round().astype(int).tolist()
        of_nodes = zip(self.plan.nodes, sent, received, strict=True)
        return {node.name: LinkBytes(*each) for node, *each in of_nodes if node.link is not None}

    def describe_network(self) -> str:
        """Return one line about the links and the CPU of the nodes."""
        nodes = self.plan.nodes
        links = limits_text([node.link for node in nodes], " both ways")
        cores = limits_text([f"{node.cores:g}" for node in nodes], " cores")
        return f"{len(nodes)} virtual ones, links {links}; nodes {cores}"


def evenly(problem: Problem) -> NimbusAnswer:
    """Return the placement by Storm's own scheduler, for times without a service."""
    placed = make_scheduler(BASELINE).schedule(problem).by_topology(problem)
    current = problem.current_slot
    lacking = [
        topology.id
        for index, topology in enumerate(problem.topologies)
        if (current[problem.executors_of(index)] == UNPLACED).any()
    ]
    return NimbusAnswer({each: placed[each] for each in lacking if UNPLACED not in placed[each].slot_of_executor})
