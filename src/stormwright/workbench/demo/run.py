"""The demonstration from end to end: boot a cluster, run topologies, decide, move, compare, report."""

from __future__ import annotations

import logging
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from stormwright.base.clock import WALL
from stormwright.controller.reports import MoveLimits
from stormwright.controller.tally import Tally
from stormwright.defaults import BASELINE
from stormwright.pipeline.settings import StreamSettings
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, fitting_cores, why_no_cpu_limits
from stormwright.workbench.demo.cluster import DemoCluster, VirtualCluster
from stormwright.workbench.demo.measure import longest_silence_s
from stormwright.workbench.demo.result import DemoResult, Phase, TopologyResult
from stormwright.workbench.demo.settings import (
    CORES,
    LINK,
    LINK_OF_SHARED_CORES,
    UNLIKE,
    DemoSettings,
    MeasuredStart,
)
from stormwright.workbench.demo.steps import ClusterStage, finish, submit
from stormwright.workbench.demo.trials import PlacementTrials

log = logging.getLogger(__name__)

#: With fewer, JVMs take minutes to start.
_MIN_CORES = 0.25

#: Seconds between two batches of the pipeline where the cluster is virtual.
_VIRTUAL_TRIGGER_S = 0.2

#: Called with the result of a demonstration and its running service.
Then: TypeAlias = "Callable[[DemoResult, Service], None]"

#: JVMs start slowly on little CPU, several at once on one node more so.
LIMITS = MoveLimits(swap_s=180.0)


def demo_cluster(*, slots: int = 6, **sizes: Any) -> LocalClusterConfig:
    """Return the demonstration's cluster, with spare slots so that no worker waits for a slot to move.

    Its service gets a port that is free now, whatever else runs on this machine.
    """
    with socket.socket() as probing:
        probing.bind(("", 0))
        return LocalClusterConfig(slots=slots, **sizes, service_port=probing.getsockname()[1])


def fair_cluster(
    nodes: int, slots: int, link: str | tuple[str, ...] | None, cores_per_node: float | tuple[float, ...] | None
) -> LocalClusterConfig:
    """Return a cluster of nodes with CPU limits that leave enough to the service and Spark.

    Where nodes cannot be held to CPU of their own, they share the machine's cores, and the log says why.

    Parameters
    ----------
    nodes, slots
        Number of nodes, and worker slots of each.
    link
        Speed of links, of all nodes or of each; None for one that fits.
    cores_per_node
        Cores, of all nodes or of each; None for those that fit, three nodes being unlike, and 0 for no limit.

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
    if cores < _MIN_CORES:
        reason = f"of this machine {cores:g} are left for each, with which JVMs take minutes to start"
    if reason:
        log.warning("nodes share the machine's cores: %s", reason)
        return demo_cluster(nodes=nodes, slots=slots, link=link or LINK_OF_SHARED_CORES)
    return demo_cluster(nodes=nodes, slots=slots, link=link or LINK, cores_per_node=unlike_cores(nodes, cores))


def unlike_cores(nodes: int, mean: float) -> float | tuple[float, ...]:
    """Return cores of nodes: of three unlike ones about a mean, none too small for JVMs; else the mean for all."""
    return tuple(round(max(mean * each, _MIN_CORES), 3) for each in UNLIKE) if nodes == len(UNLIKE) else mean


def run_demo(settings: DemoSettings, then: Then | None = None) -> DemoResult:
    """Boot a cluster and run the demonstration on it.

    Parameters
    ----------
    settings
        Size and duration of the demonstration.
    then
        Called before everything ends.

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
    cluster: DemoCluster, settings: DemoSettings, virtual: VirtualCluster | None = None, then: Then | None = None
) -> DemoResult:
    """Run the demonstration on a running cluster; raises as `run_demo`.

    Parameters
    ----------
    cluster
        Running cluster, real or virtual, to which the topologies are submitted.
    settings
        Size and duration of the demonstration.
    virtual
        The cluster again if it is virtual.
    then
        Called before everything ends.
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
            result = demonstrate(settings, cluster, service)
            if then:
                then(result, service)
        return replace(result, simulated=virtual.origin) if virtual else result


def demonstrate(settings: DemoSettings, cluster: DemoCluster, service: Service) -> DemoResult:
    """Run the demonstration with a service connected to a cluster; raises as `run_demo`."""
    clock = service.settings.clock
    start_ms = clock.time() * 1000
    ids = submit(settings, cluster, service)
    stage = ClusterStage(settings, cluster, service, ids)
    tried = PlacementTrials(stage, settings.trial_plan)
    tried.run()
    end_ms = clock.time() * 1000
    finish(service, list(ids))
    first, last = tried.starts[0], tried.starts[-1]
    moved = [trial for trial in tried.trials if trial.comparison is not None]
    again = f"{BASELINE}, again" if last.trial == 0 else settings.scheduler_name
    return DemoResult(
        topologies=[_result(service.tally, ids[name], name, first, last, stage.moving) for name in ids],
        decision=(moved or tried.trials)[-1].decision,
        moves=stage.moves,
        problem_before=stage.first_problem,
        before=Phase(BASELINE, first.stretch, first.placement, stage.promised(stage.first_problem, first.placement)),
        after=Phase(again, last.stretch, last.placement, stage.promised(stage.first_problem, last.placement)),
        records=service.tally.records(),
        start_ms=start_ms,
        end_ms=end_ms,
        network=cluster.describe_network(),
        pipeline=service.stream.progress(),
        scheduler_name=settings.scheduler_name,
        starts=tried.starts,
        trials=tried.trials,
    )


def _result(
    tally: Tally,
    topology_id: str,
    name: str,
    before: MeasuredStart,
    after: MeasuredStart,
    moving: Sequence[tuple[float, float]],
) -> TopologyResult:
    records, totals = tally.records(), tally.totals(topology_id)
    return TopologyResult(
        id=topology_id,
        name=name,
        before=before.runs[topology_id],
        after=after.runs[topology_id],
        silence_s=max((longest_silence_s(records, topology_id, *each) for each in moving), default=0.0),
        begun=totals.begun,
        acked=totals.acked,
        failed=totals.failed,
        lost=tally.unaccounted(topology_id),
    )
