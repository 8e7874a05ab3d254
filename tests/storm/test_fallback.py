"""Whose answer counts while the service is away: Storm's own classes under ours place what they place alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.model import Assignment, Problem, violations
from stormwright.model.arrays import IntArray
from stormwright.model.limits.apart import CrowdedNode, Incompatible
from stormwright.model.limits.isolation import MACHINES
from stormwright.model.limits.resources import Overused
from stormwright.model.limits.workers import CrowdedWorker
from stormwright.storm.scheduler_host import JavaScheduler, SchedulerHost, host_command
from tests.case_files import case_files, case_name, case_problem, placed_by, placed_in, read_case

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
        if isinstance(each, CrowdedNode | Incompatible | CrowdedWorker):
            found.add(problem.topology_index[each.topology])
        elif isinstance(each, Overused):
            row = [resource.name for resource in problem.resources].index(each.resource)
            there = (node == problem.node_index[each.node]) & (problem.executor_demand[row] > 0)
            found |= set(problem.executor_topology[there].tolist()) if row > 1 else set()
    return {problem.topologies[index].id for index in found & changed}


def slots_in(answer: Mapping[str, Any], problem: Problem) -> IntArray:
    """Slot of every executor in an answer of a case, shape (E,)."""
    placed, _ = placed_in(answer, problem)
    told = [slot for topology in problem.topologies for slot in placed[topology.id]]
    return np.array([-1 if slot is None else problem.slot_index[slot] for slot in told])


@pytest.mark.parametrize(("case", "label"), ANSWERS, ids=lambda value: value)
def test_a_class_places_what_it_places_alone(host: SchedulerHost, case: str, label: str) -> None:
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
