"""A plan that gives a topology other executors, workers, slots and another configuration, and its rollback."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from stormwright.client import Client
from stormwright.model import Problem, TopologyAssignment
from stormwright.plans.plan import Plan
from stormwright.plans.states import IN_PROGRESS_STATES
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import finish, snapshot_of, submit
from stormwright.workbench.demo.submissions import parse_submissions

pytestmark = [pytest.mark.storm, pytest.mark.spark]

#: Three executors of the counting bolt, slow enough for a machine that is busy with other tests.
TOPOLOGY = "word-count:name=resized,count=3,workers=2,rate=200"

#: Key of its configuration that changes.
PENDING = "topology.max.spout.pending"


def followed(client: Client, plan: str) -> Plan:
    """Return a plan once it has ended, or waits for a person as a rate this low is noise."""
    until = time.monotonic() + 400
    while (found := client.show(plan)).state in IN_PROGRESS_STATES or found.auto_apply:
        assert time.monotonic() < until, found
        time.sleep(0.5)
    if found.state == "waiting":
        client.resume(plan, "a test")
        found = client.show(plan)
    return found


def runs(problem: Problem, topology: str) -> tuple[Counter[str], int]:
    """Return the executors by component, and the number of workers."""
    of = problem.topologies[problem.topology_index[topology]]
    names = [of.components[component].id for component in of.executor_component.tolist()]
    return Counter(names), len(problem.current[topology].slots)


def setting(service: Service) -> object:
    """Return the changed value of the configuration of the only topology."""
    return snapshot_of(service).topologies[0].conf[PENDING]


@pytest.mark.slow
def test_topology_is_changed_by_a_plan_and_gets_back_what_it_had(storm_cluster, tmp_path: Path) -> None:
    settings = DemoSettings(
        cluster=storm_cluster.plan.config,
        submissions=parse_submissions([TOPOLOGY]),
        scheduler=make_scheduler("even"),
        scheduler_name="even",
        warm_up_s=5,
        measure_s=5,
    )
    of_service = ServiceSettings(tmp_path, storm_cluster.service_host, storm_cluster.service_port)
    with Service(of_service, settings.scheduler, settings.scheduler_name, storm_cluster.gateway_command()) as service:
        stop = threading.Event()
        loop = threading.Thread(target=service.run, args=(stop, 0.5))
        loop.start()
        client = Client(f"http://{storm_cluster.service_host}:{storm_cluster.service_port}", "anna")
        try:
            (topology,) = submit(settings, storm_cluster, service).values()
            before = snapshot_of(service)
            had = runs(before, topology)
            assert (had[0]["count"], had[1]) == (3, 2)
            slot = before.current[topology].slots[0]
            wanted = TopologyAssignment((slot,), (0,) * (before.num_executors - 1))
            counts, conf = {topology: {"count": 2}}, {topology: {PENDING: 150}}
            plan = client.plan("fewer", placements={topology: wanted}, executors=counts, conf=conf)
            made = client.wait_until_planned(plan.id)
            client.apply(made.id, "a test")
            assert followed(client, made.id).state == "done"
            now = runs(snapshot_of(service), topology)
            assert now == (had[0] - Counter(count=1), 1)
            with storm_cluster.gateway() as nimbus:
                digest = nimbus.configuration(topology)
            assert service.tally.configuration(topology, slot) == digest
            assert setting(service) == 150
            (entry,) = client.history(1).entries
            back = client.revert(entry.n, "as it was")
            assert followed(client, back.id).state == "done"
            assert runs(snapshot_of(service), topology) == had
            assert setting(service) == before.topologies[0].conf[PENDING]
        finally:
            stop.set()
            loop.join()
        finish(service, ["resized"])
        totals = service.tally.totals(topology)
        assert (service.tally.unaccounted(topology), totals.failed) == (0, 0)
