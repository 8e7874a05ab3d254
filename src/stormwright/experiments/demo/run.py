"""The main job from end to end: boot a cluster, run topologies, watch, decide, move, show what was gained."""

from __future__ import annotations

import logging
import socket
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from stormwright.clock import WALL
from stormwright.controller.reports import MoveLimits
from stormwright.controller.tally import Tally
from stormwright.defaults import STORMS_OWN
from stormwright.experiments.demo.measure import compiler_share, longest_silence_s, measure
from stormwright.experiments.demo.nodes import NodeMeter, with_worker_cores
from stormwright.experiments.demo.promise import PlacementPromise, promise
from stormwright.experiments.demo.result import DemoResult, MeasuredStretch, Phase, TopologyResult
from stormwright.experiments.demo.settings import CORES, LINK, LINK_OF_SHARED_CORES, DemoCluster, DemoSettings, Virtual
from stormwright.experiments.demo.steps import finish, measured_problem, snapshot_of, submit
from stormwright.experiments.demo.warmth import ran_s, wait_until_as_warm
from stormwright.link_speed import link_bits_per_s
from stormwright.model import Problem, TopologyAssignment, WorkerSlot
from stormwright.pipeline.settings import StreamSettings
from stormwright.schedulers.kit.triggers import TriggerParams
from stormwright.service.settings import ServiceSettings
from stormwright.service.wiring import Service
from stormwright.storm.local import (
    LocalCluster,
    LocalClusterConfig,
    fitting_cores,
    why_no_cpu_limits,
)

log = logging.getLogger(__name__)

#: With fewer, JVMs take minutes to start.
_LEAST_CORES = 0.25

#: Seconds between two batches of the pipeline where the cluster is virtual.
_VIRTUAL_TRIGGER_S = 0.2

#: Is given the result of a demonstration and its service, which still runs.
Then: TypeAlias = "Callable[[DemoResult, Service], None]"

#: JVMs start slowly on little CPU, several at once on one node more so.
LIMITS = MoveLimits(swap_s=180.0)


def demo_cluster(*, slots: int = 6, **sizes: Any) -> LocalClusterConfig:
    """The demonstration's cluster, with slots to spare, so that a worker need not wait for another's slot to move.

    Its service gets a port that is free now, whatever else runs on this machine.
    """
    with socket.socket() as probing:
        probing.bind(("", 0))
        return LocalClusterConfig(slots=slots, **sizes, service_port=probing.getsockname()[1])


def fair_cluster(nodes: int, slots: int, link: str | None, cores_per_node: float | None) -> LocalClusterConfig:
    """A cluster of nodes with their own CPU, as little as leaves the service and Spark what they need.

    Where nodes cannot be held to CPU of their own, they share the machine's cores, and the log says why.

    Parameters
    ----------
    nodes, slots
        How many, and worker slots of each.
    link
        Speed of each node's link; None for one that fits.
    cores_per_node
        Cores of each; None for what fits, 0 for no limit.

    Raises
    ------
    InputError
        A size makes no sense.
    """
    if cores_per_node is not None:
        own = link or (LINK if cores_per_node else LINK_OF_SHARED_CORES)
        return demo_cluster(nodes=nodes, slots=slots, link=own, cores_per_node=cores_per_node or None)
    cores = min(fitting_cores(max(nodes, 1)), CORES)
    reason = why_no_cpu_limits(cores)
    if cores < _LEAST_CORES:
        reason = f"of this machine {cores:g} are left for each, with which JVMs take minutes to start"
    if reason:
        log.warning("nodes share the machine's cores: %s", reason)
        return demo_cluster(nodes=nodes, slots=slots, link=link or LINK_OF_SHARED_CORES)
    return demo_cluster(nodes=nodes, slots=slots, link=link or LINK, cores_per_node=cores)


def run_demo(settings: DemoSettings, then: Then | None = None) -> DemoResult:
    """Boot a cluster and run the demonstration on it.

    Parameters
    ----------
    settings
        Its size and length.
    then
        What is done before everything ends.

    Raises
    ------
    ClusterError
        The cluster did not come up, a topology could not be submitted, or its workers never reported.
    MoveError
        A topology could not be drained.
    """
    with LocalCluster(settings.cluster) as cluster:
        return run_demo_on(cluster, settings, then=then)


def run_demo_on(
    cluster: DemoCluster, settings: DemoSettings, virtual: Virtual | None = None, then: Then | None = None
) -> DemoResult:
    """Run the demonstration on a cluster that is up; it raises what `run_demo` raises.

    Parameters
    ----------
    cluster
        Where everything runs.
    settings
        Its size and length.
    virtual
        The same where it is a virtual one.
    then
        What is done before everything ends.
    """
    clock = virtual.clock if virtual else WALL
    with tempfile.TemporaryDirectory(prefix="stormwright-demo-") as state:
        service_settings = ServiceSettings(
            Path(state),
            cluster.service_host,
            cluster.service_port,
            keep_records=True,
            objective=settings.objective,
            limits=LIMITS,
            mode="auto",
            # Virtual seconds are short: the pipeline is not to wait between two batches.
            stream=StreamSettings(trigger_s=_VIRTUAL_TRIGGER_S) if virtual else StreamSettings(),
            clock=clock,
        )
        gateway = cluster.gateway_command()
        with Service(service_settings, settings.scheduler, settings.scheduler_name, gateway) as service:
            if virtual:
                virtual.connect(service)
            result = _run(settings, cluster, service)
            if then:
                then(result, service)
        return replace(result, simulated=virtual.told) if virtual else result


def _run(settings: DemoSettings, cluster: DemoCluster, service: Service) -> DemoResult:
    clock = service.settings.clock
    start_ms = clock.time() * 1000
    ids = submit(settings, cluster, service)
    log.info("before, under %s: warming up for %g s", STORMS_OWN, settings.warm_up_s)
    clock.sleep(settings.warm_up_s)
    before = _measured(f"before, under {STORMS_OWN}", settings, cluster, service, ids.values())
    problem = as_people_call_it(measured_problem(service, since_ms=before.start_ms), cluster)
    log.info("deciding with %s", settings.scheduler_name)
    decision = service.look(TriggerParams(period_s=0, cool_down_s=0, min_gain_percent=5), settings.adapts)
    log.info(decision.reason)
    moving_ms = clock.time() * 1000
    moves = service.act(decision)
    log.info("after, under %s: waiting until the workers are as warm as they were", settings.scheduler_name)
    inside = [r for r in service.tally.records() if before.start_ms <= r["start_ms"] < before.end_ms]
    # What Nimbus showed last may be from before the move.
    arrived = {move.topology.id: move.after.slots for move in decision.plan.moves if all(m.complete for m in moves)}
    slots = {**_slots(service, ids.values()), **arrived}
    wait_until_as_warm(service.tally, slots, before.ran_s, compiler_share(inside), settings.warm_up_s)
    after = _measured(f"after, under {settings.scheduler_name}", settings, cluster, service, ids.values())
    end_ms = clock.time() * 1000
    placement = dict(snapshot_of(service).current)
    finish(service, list(ids))
    moving = around_move(moving_ms, after.span_ms, settings.warm_up_s)
    return DemoResult(
        topologies=[_result(service.tally, ids[name], name, before, after, moving) for name in ids],
        decision=decision,
        moves=moves,
        problem_before=problem,
        before=Phase(STORMS_OWN, before, problem.current, _promised(settings, ids, problem, problem.current)),
        after=Phase(settings.scheduler_name, after, placement, _promised(settings, ids, problem, placement)),
        records=service.tally.records(),
        start_ms=start_ms,
        end_ms=end_ms,
        network=cluster.describe_network(),
        pipeline=service.stream.progress(),
    )


def _measured(
    phase: str, settings: DemoSettings, cluster: DemoCluster, service: Service, ids: Collection[str]
) -> MeasuredStretch:
    """Let everything run for a while, and count."""
    log.info("%s: measuring for %g s", phase, settings.measure_s)
    clock = service.settings.clock
    start_ms, meter = clock.time() * 1000, NodeMeter(cluster, clock)
    ran = ran_s(service.tally.records(), _slots(service, ids), start_ms)
    clock.sleep(settings.measure_s)
    end_ms, used = clock.time() * 1000, meter.use()
    hosts = {node.name: node.address for node in cluster.plan.nodes}
    nodes = with_worker_cores(used, hosts, service.tally.records(), start_ms, end_ms)
    return MeasuredStretch(start_ms, end_ms, ran, nodes)


def _slots(service: Service, ids: Collection[str]) -> Mapping[str, tuple[WorkerSlot, ...]]:
    """Where the workers of these topologies are; a cluster may have others, which report to nobody."""
    current = snapshot_of(service).current
    return {topology: placed.slots for topology, placed in current.items() if topology in ids}


def as_people_call_it(problem: Problem, cluster: DemoCluster) -> Problem:
    """The problem with the nodes' names in place of their addresses, and the speed of their links."""
    names = {node.address: node.name for node in cluster.plan.nodes}
    speed = link_bits_per_s(cluster.plan.link) if cluster.plan.link else None
    nodes = [replace(node, host=names.get(node.host, node.host), link_bps=speed) for node in problem.supervisors]
    return replace(problem, supervisors=tuple(sorted(nodes, key=lambda node: node.host)))


def _promised(
    settings: DemoSettings, ids: Mapping[str, str], problem: Problem, placement: Mapping[str, TopologyAssignment]
) -> PlacementPromise:
    told = {ids[each.name]: float(each.args.get("rate", 0)) for each in settings.submissions}
    return promise(problem, placement, {topology: rate for topology, rate in told.items() if rate})


def _result(
    tally: Tally,
    topology_id: str,
    name: str,
    before: MeasuredStretch,
    after: MeasuredStretch,
    moving: tuple[float, float],
) -> TopologyResult:
    records, totals = tally.records(), tally.totals(topology_id)
    return TopologyResult(
        id=topology_id,
        name=name,
        before=measure(records, topology_id, *before.span_ms),
        after=measure(records, topology_id, *after.span_ms),
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
