"""Whose answer counts while the service is away: Storm's own classes under ours place what they place alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stormwright.formats import problem_from_dict
from stormwright.model import Assignment, Problem, TopologyAssignment, WorkerSlot, violations
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.model.constraints.separation import CrowdedNode, IncompatibleExecutors
from stormwright.model.constraints.slots import CrowdedWorker
from stormwright.model.topology_config import MACHINES
from stormwright.schedulers import make_scheduler
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, RunningCluster
from stormwright.storm.occupancy import Order
from stormwright.storm.scheduler_host import JavaScheduler, SchedulerHost, host_command
from tests.case_files import case_files, case_name, case_problem, one_in, placed_by, placed_in, read_case

CASES = {case_name(path): path for path in case_files("peer")}

#: Storm's schedulers that an operator may have had before.
CLASSES = ("ResourceAwareScheduler", "IsolationScheduler", "MultitenantScheduler", "DefaultScheduler", "EvenScheduler")

ANSWERS = [
    (name, label)
    for name, path in CASES.items()
    for label, answer in read_case(path)["answers"].items()
    if answer["deterministic"]
    and answer["scheduler"].rpartition(".")[2] in CLASSES
    and label != "IsolationSchedulerTrunk"
]

#: Nobody listens there, which shows at once.
AWAY = {"stormwright.service.url": "http://127.0.0.1:1"}


@pytest.fixture(scope="module")
def host() -> Iterator[SchedulerHost]:
    with SchedulerHost(host_command()) as host:
        yield host


def alone(host: SchedulerHost, problem: Problem, conf: Mapping[str, Any], strategy: str | None = None) -> Assignment:
    """What Nimbus has while the service is away."""
    name = "stormwright.PlacementScheduler"
    return JavaScheduler(name, strategy, conf={**AWAY, **conf}, seed=42, host=host).schedule(problem)


def breaking(problem: Problem, slots: IntArray) -> set[str]:
    """Topologies that were placed and break what they demand, CPU and memory apart, by our own model of limits."""
    changed = set(problem.executor_topology[slots != problem.current_slot].tolist())
    node = np.where(slots >= 0, problem.slot_node[slots], -1)
    found = set()
    for each in violations(problem, slots):
        if isinstance(each, CrowdedNode | IncompatibleExecutors | CrowdedWorker):
            found.add(problem.topology_index[each.topology])
        elif isinstance(each, ResourceOveruse):
            row = [resource.name for resource in problem.resources].index(each.resource)
            there = (node == problem.cluster.find_node(each.node)) & (problem.executor_demand[row] > 0)
            found |= set(problem.executor_topology[there].tolist()) if row > 1 else set()
    return {problem.topologies[index].id for index in found & changed}


def slots_in(answer: Mapping[str, Any], problem: Problem) -> IntArray:
    """Slot of every executor in an answer of a case, shape (E,)."""
    placed, _ = placed_in(answer, problem)
    slots = [slot for topology in problem.topologies for slot in placed[topology.id]]
    return np.array([-1 if slot is None else problem.slot_index[slot] for slot in slots])


@pytest.mark.parametrize(("case", "label"), one_in(8, ANSWERS), ids=lambda value: value)
def test_fallback_scheduler_places_same_as_storm_class_alone(host: SchedulerHost, case: str, label: str) -> None:
    """All but what it would break the limits of; the rest as if those topologies were not there."""
    expected = read_case(CASES[case])["answers"][label]
    problem = case_problem(CASES[case])
    overrides = expected["topology_conf_override"]
    problem = replace(problem, topologies=tuple(replace(t, conf={**t.conf, **overrides}) for t in problem.topologies))
    name, strategy, conf = expected["scheduler"], expected["strategy"], expected["conf_override"]
    if label == "EvenScheduler":  # to which it means nothing, and under it to us something
        conf = {**conf, MACHINES: {}}
    answer = alone(host, problem, {**conf, "stormwright.fallback": name}, strategy)
    withheld = {topology for topology, text in answer.status.items() if "would break its limits" in text}
    assert breaking(problem, slots_in(expected, problem)) <= withheld
    assert breaking(problem, answer.slot_of_executor) == set()
    if not withheld:
        assert placed_by(answer, problem) == placed_in(expected, problem)
        return
    assert all(not problem.current.get(topology) for topology in withheld)
    rest = replace(problem, topologies=tuple(t for t in problem.topologies if t.id not in withheld))
    without = JavaScheduler(name, strategy, conf=conf, seed=42, host=host).schedule(rest)
    placed, unplaced = placed_by(answer, problem)
    assert {topology for topology in withheld if any(placed[topology])} == set()
    assert (
        {t: own for t, own in placed.items() if t not in withheld},
        {t: count for t, count in unplaced.items() if t not in withheld},
    ) == placed_by(without, rest)


RESOURCE_AWARE = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"

#: Six executors of 128 MB: two workers of 384 MB, which is all that a heap may have on a local cluster.
TWO_WORKERS = {"topology.workers": 2, "topology.acker.executors": 1}
EXECUTORS = ["rate=10", "spouts=2", "exclaim1=2", "exclaim2=1"]


class EvaluatedStage:
    """A local cluster that keeps the ResourceAwareScheduler, and what Nimbus says of its topologies."""

    def __init__(self, cluster: RunningCluster, gateway: NimbusGateway) -> None:
        self.cluster, self.gateway = cluster, gateway

    def submit(self, name: str) -> str:
        """The id of a new topology."""
        arguments = [f"name={name}", *EXECUTORS]
        self.cluster.run_topology("stormwright.topologies.Exclamation", arguments, TWO_WORKERS)
        (found,) = [each["id"] for each in self.gateway.cluster()["topologies"] if each["name"] == name]
        return str(found)

    def says(self, topology: str, words: str) -> bool:
        return words in (self.gateway.topology(topology)["sched_status"] or "")

    def problem(self) -> Problem:
        return problem_from_dict(self.gateway.problem())

    def would_place(self, host: SchedulerHost, topology: str) -> TopologyAssignment:
        """Where the class puts a topology that has no slots, around what else runs now."""
        problem = self.problem()
        problem = problem.with_current({t: runs for t, runs in problem.current.items() if t != topology})
        answer = JavaScheduler(RESOURCE_AWARE, host=host).schedule(problem)
        return answer.by_topology(problem)[topology]


def by_executor(placed: TopologyAssignment) -> list[WorkerSlot]:
    return [placed.slots[slot] for slot in placed.slot_of_executor]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EvaluatedStage]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = LocalClusterConfig(nodes=2, slots=4, storm_conf={"stormwright.fallback": RESOURCE_AWARE})
    with LocalCluster(config) as cluster, cluster.gateway() as gateway:
        yield EvaluatedStage(cluster, gateway)


@pytest.mark.storm
def test_resource_aware_fallback_works_while_service_comes_and_goes(
    watched: EvaluatedStage, host: SchedulerHost, eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    bridge = Bridge(make_scheduler("even"), "even")

    def service() -> HttpServer:
        app = make_app(bridge, BodyRecipient(lambda _: None), lambda: pytest.fail("nobody asks"))
        return HttpServer(app, watched.cluster.service_host, watched.cluster.service_port)

    def runs(topology: str) -> list[WorkerSlot]:
        return by_executor(watched.problem().current[topology])

    with service():
        first = watched.submit("first")
        placed = "stormwright: left to ResourceAwareScheduler; placed by ResourceAwareScheduler: Running - Fully"
        eventually(lambda: watched.says(first, placed), "the class places it")
        assert runs(first) == by_executor(watched.would_place(host, first))
        now = watched.problem().current[first]
        (node,) = {slot.supervisor for slot in now.slots}
        (other,) = {each.id for each in watched.problem().supervisors} - {node}
        moved = replace(now, slots=tuple(WorkerSlot(other, slot.port) for slot in now.slots))
        bridge.order(first, Order(moved, "stormwright: moved"))
        watched.gateway.rebalance("first", 0)
        eventually(lambda: watched.says(first, "stormwright: moved"), "it is moved within the limits of the class")
        # Nimbus has the status before it has stored where executors run.
        eventually(lambda: runs(first) == by_executor(moved), "it runs there")
        bridge.order(first, Order(TopologyAssignment(now.slots[:1], (0,) * 6), "stormwright: crowded"))
        watched.gateway.rebalance("first", 0, 1)
        eventually(lambda: watched.says(first, "answer refused: heap of"), "it is not moved beyond them")
        assert len(set(runs(first))) == 2
        bridge.withdraw([first])
        stays = runs(first)
    second = watched.submit("second")
    eventually(lambda: watched.says(second, "; placed by ResourceAwareScheduler: Running - Fully"), "it is placed")
    assert watched.says(second, "stormwright service at ")
    assert runs(second) == by_executor(watched.would_place(host, second))
    assert runs(first) == stays
    with service():
        eventually(lambda: watched.says(second, "the service answers again; left as it is"), "the service is back")
        assert runs(first) == stays
