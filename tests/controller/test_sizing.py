"""Sizes of topologies beside all others that could be tried."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import stormwright as sw
from stormwright.controller.autopilot import Slo, WantedCapacity
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.requests import NoPlan, PlanInputs
from stormwright.controller.sizing import sized
from stormwright.model import Assignment, Problem
from stormwright.plans.plan import Plan
from stormwright.predict.workers import nodes_of
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running

FEWEST = scheduler_keeping_running("optimizer", {"objective": "nodes"})


@pytest.fixture(scope="module")
def running() -> Problem:
    """A topology on two of four nodes, with a measured load."""
    problem = sw.sketch({"words": "lines 2 -> split 4 shuffle -> count 4 fields"}, nodes=4)
    placed = make_scheduler("even").schedule(replace(problem, supervisors=problem.supervisors[:2]))
    return problem.with_moved(Assignment(placed.slot_of_executor).by_topology(problem))


def reachable(problem: Problem, slots: np.ndarray) -> float:
    return Placements(problem).predicted(slots).topologies[0].reachable_tps.value


def plan(problem: Problem, times: float, slo: Slo | None = None) -> Plan | NoPlan:
    now = reachable(problem, problem.current_slot)
    wanted = WantedCapacity(times * now, "it is wanted", times > 1)
    inputs = PlanInputs(repair_scheduler=make_scheduler("online"))
    return sized(problem, 0, wanted, slo or Slo(lag_s=60), FEWEST, inputs)


def test_capacity_is_that_of_the_fewest_nodes(running: Problem) -> None:
    found = plan(running, 0.4)
    assert isinstance(found, Plan)
    (move,) = found.moves
    nodes = {slot.supervisor for slot in move.after.slots}
    now = reachable(running, running.current_slot)
    # No smaller set of nodes has the CPU for it, however its executors are placed.
    used = Placements(running).predicted(running.current_slot).topologies[0].cpu_us * 1e-6 * 0.4 * now
    cores = nodes_of(running).cores
    assert not any(cores[list(some)].sum() > used * 1.3 for some in combinations(range(4), len(nodes) - 1))
    assert len(nodes) < 2


def test_most_cores_are_a_limit(running: Problem) -> None:
    own = float(nodes_of(running).cores[0])
    found = plan(running, 1.8, Slo(lag_s=60, max_cores=2 * own))
    assert isinstance(found, NoPlan) or len({slot.supervisor for slot in found.moves[0].after.slots}) <= 2
    more = plan(running, 1.8)
    assert isinstance(more, Plan)
    assert len({slot.supervisor for slot in more.moves[0].after.slots}) > 2


def test_no_size_is_a_reason(running: Problem) -> None:
    found = plan(running, 0.98)
    assert isinstance(found, NoPlan)
    assert found.reason == "it is wanted: no fewer cores would do"
