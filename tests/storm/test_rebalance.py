"""A plan that gives a topology other executors, workers and slots, on the session's cluster, and its rollback."""

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


@pytest.mark.slow
def test_topology_gets_executors_and_workers_by_a_plan_and_gives_them_back(storm_cluster, tmp_path: Path) -> None:
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
            plan = client.plan("fewer", placements={topology: wanted}, executors={topology: {"count": 2}})
            made = client.wait_until_planned(plan.id)
            client.apply(made.id, "a test")
            assert followed(client, made.id).state == "done"
            now = runs(snapshot_of(service), topology)
            assert now == (had[0] - Counter(count=1), 1)
            (entry,) = client.history(1).entries
            back = client.revert(entry.n, "as it was")
            assert followed(client, back.id).state == "done"
            assert runs(snapshot_of(service), topology) == had
        finally:
            stop.set()
            loop.join()
        finish(service, ["resized"])
        totals = service.tally.totals(topology)
        assert (service.tally.unaccounted(topology), totals.failed) == (0, 0)
