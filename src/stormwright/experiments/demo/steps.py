"""What a demonstration does with a cluster and a service, step by step."""

from __future__ import annotations

import logging

from stormwright.controller.aims.outlook import TRAFFIC
from stormwright.controller.draining import Draining, drain
from stormwright.errors import ClusterError
from stormwright.experiments.demo.settings import DemoCluster, DemoSettings
from stormwright.model import Problem
from stormwright.service.wiring import Service

log = logging.getLogger(__name__)

#: Seconds within which all workers of a new topology report, also on a machine that is busy with other things.
FIRST_REPORT_S = 180.0

#: Seconds within which the pipeline measures a load, and within which nothing older is to be in it.
LAST_LOAD_S, WHOLLY_S = 180.0, 45.0

#: Seconds after which a tuple tree that is still pending is lost: more than twice Storm's message timeout.
LAST_DRAIN_S = 75.0


def submit(settings: DemoSettings, cluster: DemoCluster, service: Service) -> dict[str, str]:
    """Submit the topologies; their names → ids, once every executor reports."""
    for submission in settings.submissions:
        log.info("submitting %s", submission.name)
        conf = {
            "stormwright.probe.service.url": cluster.service_url,
            "stormwright.probe.interval.ms": settings.probe_interval_ms,
        }
        cluster.run_topology(submission.main_class, submission.arguments(), conf)
    wanted = {submission.name for submission in settings.submissions}
    clock = service.settings.clock
    deadline = clock.monotonic() + FIRST_REPORT_S
    while clock.monotonic() < deadline:
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
    """The problem under a load that was measured since then; on a busy machine the pipeline may lag.

    It takes one of which nothing was measured before, and for which costs were fitted; after `WHOLLY_S` seconds also
    another one.

    Raises
    ------
    ClusterError
        There is none within `LAST_LOAD_S` seconds.
    """
    clock = service.settings.clock
    begin = clock.monotonic()
    while (waited_s := clock.monotonic() - begin) < LAST_LOAD_S:
        problem = service.observe()
        if problem is not None and problem.load is not None:
            wholly, partly = problem.load.start_ms >= since_ms, problem.load.end_ms > since_ms
            fitted = service.settings.objective == TRAFFIC or not service.unfitted(problem)
            if (wholly and fitted) or ((wholly or partly) and waited_s > WHOLLY_S):
                return problem
        clock.sleep(0.5)
    progress = service.stream.progress()
    why = (
        progress["error"] or f"its last batch took {(progress['batch_ms'] or 0) / 1000:.0f} s: is the machine too busy?"
    )
    raise ClusterError(f"the pipeline has measured no load within {LAST_LOAD_S:g} s: {why}")


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


def finish(service: Service, names: list[str]) -> None:
    """Pause all spouts and let every tuple tree end, so that what is still pending is lost."""
    log.info("pausing all spouts to count every tuple")
    snapshot = snapshot_of(service)
    running = [topology for topology in snapshot.topologies if topology.name in names]
    paused = [Draining(each.id, each.name, snapshot.current[each.id].slots) for each in running]
    drain(paused, service.nimbus, service.tally, LAST_DRAIN_S)
