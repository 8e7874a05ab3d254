"""The main job from end to end: boot a cluster, run topologies, watch, decide, move, show what was gained."""

from __future__ import annotations

import logging
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormwright.controller.move import MoveReport
from stormwright.controller.policy import Decision
from stormwright.controller.tally import Tally
from stormwright.defaults import STORMS_OWN
from stormwright.errors import ClusterError
from stormwright.experiments.demo.measure import TopologyRun, longest_silence_s, measure
from stormwright.experiments.demo.nodes import NodeMeter, NodeUse
from stormwright.experiments.demo.topologies import Submission
from stormwright.model import Problem, TopologyAssignment
from stormwright.pipeline.run.progress import Progress
from stormwright.schedulers import Scheduler
from stormwright.schedulers.kit.triggers import TriggerParams
from stormwright.service.settings import ServiceSettings
from stormwright.service.wiring import Service
from stormwright.storm.local import LocalCluster, LocalClusterConfig, RunningCluster

log = logging.getLogger(__name__)

#: Seconds within which all workers of a new topology report, also on a machine that is busy with other things.
FIRST_REPORT_S = 180.0

#: Seconds after which a tuple tree that is still pending is lost: more than twice Storm's message timeout.
LAST_DRAIN_S = 75.0


@dataclass(frozen=True)
class DemoSettings:
    """Size and length of a demonstration; times in seconds."""

    cluster: LocalClusterConfig
    submissions: Sequence[Submission]
    scheduler: Scheduler
    scheduler_name: str
    warm_up_s: float = 30.0
    measure_s: float = 30.0
    probe_interval_ms: int = 250


@dataclass(frozen=True)
class TopologyResult:
    """One topology before and after."""

    id: str
    name: str
    before: TopologyRun
    after: TopologyRun
    silence_s: float
    begun: int
    acked: int
    failed: int
    lost: int


@dataclass(frozen=True)
class DemoResult:
    """Everything the table and the report show."""

    topologies: Sequence[TopologyResult]
    decision: Decision
    moves: Sequence[MoveReport]
    problem_before: Problem
    placement_after: dict[str, TopologyAssignment]
    records: Sequence[Any]
    start_ms: float
    end_ms: float
    spans_ms: Sequence[tuple[float, float, str]]
    network: str
    nodes_before: Mapping[str, NodeUse]
    nodes_after: Mapping[str, NodeUse]
    pipeline: Progress | None = None

    @property
    def lost(self) -> int:
        """Tuple trees begun that were neither acked nor failed at the end, and failed ones."""
        return sum(abs(topology.lost) + topology.failed for topology in self.topologies)

    @property
    def throughput_ratio(self) -> float:
        """Summed throughput after / before."""
        before = sum(topology.before.acked_tps for topology in self.topologies)
        return sum(topology.after.acked_tps for topology in self.topologies) / before if before else 0.0

    @property
    def improved(self) -> bool:
        """Whether inter-node traffic per tuple fell, and throughput or latency gained without the other losing much."""
        before, after = (
            sum(getattr(t, phase).inter_node_per_acked for t in self.topologies) for phase in ("before", "after")
        )
        latencies = [(t.before.mean_latency_ms, t.after.mean_latency_ms) for t in self.topologies]
        faster = [late < early for early, late in latencies if early is not None and late is not None]
        return after < before and (self.throughput_ratio > 1.05 or (bool(faster) and all(faster)))


def demo_cluster(*, slots: int = 6, **sizes: Any) -> LocalClusterConfig:
    """The demonstration's cluster, with slots to spare, so that a worker need not wait for another's slot to move.

    Its service gets a port that is free now, whatever else runs on this machine.
    """
    with socket.socket() as probing:
        probing.bind(("", 0))
        return LocalClusterConfig(slots=slots, **sizes, service_port=probing.getsockname()[1])


def run_demo(settings: DemoSettings) -> DemoResult:
    """Boot a cluster and run the demonstration on it.

    Raises
    ------
    ClusterError
        The cluster did not come up, a topology could not be submitted, or its workers never reported.
    MoveError
        A topology could not be drained.
    """
    with LocalCluster(settings.cluster) as cluster:
        return run_demo_on(cluster, settings)


def run_demo_on(cluster: RunningCluster, settings: DemoSettings) -> DemoResult:
    """Run the demonstration on a cluster that is up; it raises what `run_demo` raises."""
    with tempfile.TemporaryDirectory(prefix="stormwright-demo-") as state:
        service_settings = ServiceSettings(Path(state), cluster.service_host, cluster.service_port, keep_records=True)
        gateway = cluster.gateway_command()
        with Service(service_settings, settings.scheduler, settings.scheduler_name, gateway) as service:
            return _run(settings, cluster, service)


def _run(settings: DemoSettings, cluster: RunningCluster, service: Service) -> DemoResult:
    start_ms = _now_ms()
    ids = submit(settings, cluster, service)
    before, nodes_before = _observe(f"before, under {STORMS_OWN}", settings, cluster)
    problem = measured_problem(service, since_ms=before[0])
    log.info("deciding with %s", settings.scheduler_name)
    decision = service.look(TriggerParams(period_s=0, cool_down_s=0, min_gain_percent=5))
    log.info(decision.reason)
    moving_ms = _now_ms()
    moves = service.act(decision)
    after, nodes_after = _observe(f"after, under {settings.scheduler_name}", settings, cluster)
    end_ms = _now_ms()
    placement_after = dict(snapshot_of(service).current)
    finish(service, list(ids))
    records = service.tally.records()
    results = [
        _result(service.tally, ids[name], name, before, after, around_move(moving_ms, after, settings.warm_up_s))
        for name in ids
    ]
    return DemoResult(
        topologies=results,
        decision=decision,
        moves=moves,
        problem_before=problem,
        placement_after=placement_after,
        records=records,
        start_ms=start_ms,
        end_ms=end_ms,
        spans_ms=((*before, "measured before"), (*after, "measured after")),
        network=cluster.describe_network(),
        nodes_before=nodes_before,
        nodes_after=nodes_after,
        pipeline=service.stream.progress(),
    )


def submit(settings: DemoSettings, cluster: RunningCluster, service: Service) -> dict[str, str]:
    """Submit the topologies; their names → ids, once every executor reports."""
    for submission in settings.submissions:
        log.info("submitting %s", submission.name)
        args = {"name": submission.name, **submission.args}
        conf = {
            "stormwright.probe.service.url": cluster.service_url,
            "stormwright.probe.interval.ms": settings.probe_interval_ms,
        }
        cluster.run_topology(submission.main_class, [f"{key}={value}" for key, value in args.items()], conf)
    wanted = {submission.name for submission in settings.submissions}
    deadline = time.monotonic() + FIRST_REPORT_S
    while time.monotonic() < deadline:
        snapshot = service.bridge.snapshot()
        running = [t for t in snapshot.topologies if t.name in wanted and _reports(service, t.id)] if snapshot else []
        if len(running) == len(wanted):
            log.info("all workers report")
            return {topology.name: topology.id for topology in running}
        service.tally.wait(1.0)
    raise ClusterError(f"not every worker of {', '.join(sorted(wanted))} reported within {FIRST_REPORT_S:g} s")


def _reports(service: Service, topology_id: str) -> bool:
    placement = snapshot_of(service).current.get(topology_id)
    return placement is not None and all(
        service.tally.reports(topology_id, slot.supervisor, slot.port, frozenset(), 0.0) for slot in placement.slots
    )


def measured_problem(service: Service, since_ms: float) -> Problem:
    """The problem under a load measured since then; on a busy machine the pipeline may lag."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        problem = service.problem()
        if problem is not None and problem.load is not None and problem.load.end_ms > since_ms:
            return problem
        time.sleep(0.5)
    raise ClusterError(f"the pipeline has produced no load profile: {service.stream.progress()}")


def snapshot_of(service: Service) -> Problem:
    """The cluster as Nimbus showed it last.

    Raises
    ------
    ClusterError
        It has not yet.
    """
    snapshot = service.bridge.snapshot()
    if snapshot is None:
        raise ClusterError("Nimbus has not asked for a placement yet")
    return snapshot


def _observe(
    phase: str, settings: DemoSettings, cluster: RunningCluster
) -> tuple[tuple[float, float], Mapping[str, NodeUse]]:
    """Let the topologies warm up, then run; the measured stretch in epoch ms, and what the nodes used in it."""
    log.info("%s: warming up for %g s", phase, settings.warm_up_s)
    time.sleep(settings.warm_up_s)
    log.info("%s: measuring for %g s", phase, settings.measure_s)
    start_ms, meter = _now_ms(), NodeMeter(cluster)
    time.sleep(settings.measure_s)
    return (start_ms, _now_ms()), meter.use()


def finish(service: Service, names: list[str]) -> None:
    """Pause all spouts and let every tuple tree end, so that what is still pending is lost."""
    log.info("pausing all spouts to count every tuple")
    for name in names:
        service.nimbus.deactivate(name)
    begin = time.monotonic()
    ids = [topology.id for topology in snapshot_of(service).topologies if topology.name in names]
    while time.monotonic() < begin + LAST_DRAIN_S and any(
        _unsettled(service, topology_id, begin) for topology_id in ids
    ):
        service.tally.wait(1.0)


def _unsettled(service: Service, topology_id: str, since: float) -> bool:
    slots = [(slot.supervisor, slot.port) for slot in snapshot_of(service).current[topology_id].slots]
    return service.tally.pending(topology_id, slots) != 0 or not service.tally.quiet(topology_id, slots, since)


def _result(
    tally: Tally,
    topology_id: str,
    name: str,
    before: tuple[float, float],
    after: tuple[float, float],
    moving: tuple[float, float],
) -> TopologyResult:
    records = tally.records()
    totals = tally.totals(topology_id)
    return TopologyResult(
        id=topology_id,
        name=name,
        before=measure(records, topology_id, *before),
        after=measure(records, topology_id, *after),
        silence_s=longest_silence_s(records, topology_id, *moving),
        begun=totals.begun,
        acked=totals.acked,
        failed=totals.failed,
        lost=tally.unaccounted(topology_id),
    )


def around_move(moving_ms: float, after: tuple[float, float], warm_up_s: float) -> tuple[float, float]:
    """From the first move until everything has run for a while, in epoch ms.

    Parameters
    ----------
    moving_ms
        When the first move began.
    after
        The stretch that is measured when all has moved. Later the spouts are paused, and no acks are no fault.
    warm_up_s
        How long a topology takes until it runs as before.
    """
    return moving_ms, min(after[0] + warm_up_s * 1000, after[1])


def _now_ms() -> float:
    return time.time() * 1000
