"""Plans that give topologies other numbers of executors, or another configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.controller.planning.valid_moves import planned_slots
from stormwright.controller.preconditions import changes
from stormwright.controller.propose import propose
from stormwright.controller.requests import NoPlan, Place, PlanInputs
from stormwright.errors import InputError
from stormwright.model import ExecutorRun, LoadProfile, Problem, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.load import assumed_load
from stormwright.model.topology_config import BLOB_POLL
from stormwright.plans.json import step_of_json, step_to_json
from stormwright.plans.plan import Plan
from stormwright.predict.changes import with_executors
from stormwright.schedulers import make_scheduler
from tests.controller.builders import on, place, problem, topology

B = topology("b")


def tasks(name: str = "a") -> Topology:
    """A spout and six tasks of a bolt, two for each of its three executors."""
    known = topology(name)
    return replace(known, executor_runs=(ExecutorRun(0, 1, 1, 1), ExecutorRun(1, 2, 3, 2)))


A = tasks()


def running(**more: TopologyAssignment) -> Problem:
    current = {A.id: on("n0", "n1"), **more}
    load = LoadProfile({each.id: assumed_load(each, 3e9) for each in (A, B)}, start_ms=0, end_ms=1000)
    return problem([A, B], current=current, load=load)


#: No slot of n2 is free.
FULL = running(**{B.id: place([("n2", 6700), ("n2", 6701)], [0, 0, 1, 1])})


def resize(now: Problem, placed: TopologyAssignment, executors: int, **more: object) -> Plan:
    found = propose(now, Place({A.id: placed}, {A.id: {"b-bolt": executors}}, **more), PlanInputs())  # type: ignore[arg-type]
    assert isinstance(found, Plan)
    return found


def test_executors_share_tasks_as_storm_has_them() -> None:
    """As `Utils.partitionFixed` of Storm 2.8.3: the first executors get one task more."""
    of = with_executors(A, {"b-bolt": 4})
    assert of.executor_counts == {"a-spout": 1, "b-bolt": 4}
    sizes = of.executor_end_task - of.executor_start_task + 1
    assert sizes.tolist() == [1, 2, 2, 1, 1]
    with pytest.raises(InputError, match="has 6 tasks, so from 1 to 6 executors, got 7"):
        with_executors(A, {"b-bolt": 7})
    with pytest.raises(InputError, match="no such component; did you mean b-bolt"):
        with_executors(A, {"b-bol": 2})


def test_topology_gets_executors_workers_and_slots_in_one_move() -> None:
    wanted = place([("n0", 6701), ("n1", 6701), ("n2", 6700)], [0, 0, 1, 1, 2, 2, 2])
    plan = resize(running(), wanted, 6, reason="for twice the rate", origin="person")
    (move,) = plan.moves
    assert (move.executors, move.executors_before, move.num_workers) == ({"b-bolt": 6}, {"b-bolt": 3}, 3)
    assert move.after == wanted
    assert (len(move.stopped_workers), len(move.started_workers), move.unchanged_workers) == (2, 3, ())
    assert (plan.origin, plan.reason, plan.step_count) == ("person", "for twice the rate", 1)
    assert "trees/s" in plan.gain or "no tuple tree" in plan.gain
    assert step_of_json(step_to_json(plan.steps[0])).moves == plan.steps[0].moves


def test_worker_with_the_same_tasks_in_its_slot_goes_on() -> None:
    """As a supervisor does: `Slot` compares the executors of the assignments."""
    now = running(**{A.id: place([("n0", 6700), ("n1", 6700)], [0, 1, 1, 1])})
    (move,) = resize(now, place([("n0", 6700), ("n1", 6701)], [0, 1, 1]), 2).moves
    assert move.unchanged_workers == (WorkerSlot("n0", 6700),)
    assert move.stopped_workers == (WorkerSlot("n1", 6700),)


def test_worker_that_goes_on_keeps_its_slot_from_one_that_is_placed_before_it() -> None:
    """On a node that has no other slot than those of the topology."""
    now = running(**{A.id: place([("n0", 6700), ("n0", 6701)], [0, 1, 1, 1])})
    (move,) = resize(now, place([("n0", 6700), ("n0", 6701)], [1, 0, 0]), 2).moves
    assert move.unchanged_workers == (WorkerSlot("n0", 6700),)
    assert move.started_workers == (WorkerSlot("n0", 6701),)


def test_new_workers_avoid_ports_that_workers_of_their_topology_still_answer_on() -> None:
    (move,) = resize(running(), place([("n0", 6700), ("n1", 6700)], [0, 0, 1]), 2).moves
    assert {slot.port for slot in move.started_workers} == {6701}


def test_executors_without_a_placement_are_placed_around_what_runs() -> None:
    now = running(**{B.id: place([("n0", 6700), ("n0", 6701)], [0, 0, 1, 1]), A.id: on("n1", "n2")})
    found = propose(now, Place({}, {A.id: {"b-bolt": 2}}), PlanInputs(repair_scheduler=make_scheduler("even")))
    assert isinstance(found, Plan)
    (move,) = found.moves
    assert {slot.supervisor for slot in move.after.slots} == {"n1", "n2"}


PENDING = "topology.max.spout.pending"


def configure(now: Problem, conf: dict[str, Any], **more: Any) -> Plan:
    found = propose(now, Place({}, conf={A.id: conf}, **more), PlanInputs())
    assert isinstance(found, Plan)
    return found


def test_no_worker_runs_while_supervisors_fetch_another_configuration() -> None:
    """One that has the topology would start workers with that of before: `AsyncLocalizer` of Storm 2.8.3."""
    now = replace(running(), conf={BLOB_POLL: 2})
    (step,) = configure(now, {PENDING: 1000}, origin="person").steps
    (move,) = step.moves
    assert (move.conf, move.conf_before) == ({PENDING: 1000}, {PENDING: None})
    first, last = move.legs
    assert (first.after.slots, first.stopped_workers, first.vacated) == ((), move.before.slots, ("n0", "n1"))
    assert (last.after, last.started_workers, last.stopped_workers) == (move.before, move.before.slots, ())
    assert move.before_leg(1) == move.before
    assert step.wait_s == 3.0
    assert step_of_json(step_to_json(step)).moves == step.moves


def test_what_runs_with_a_configuration_is_not_changed() -> None:
    now = running()
    now = replace(now, topologies=(replace(A, conf={PENDING: 1000}), B))
    found = propose(now, Place({}, conf={A.id: {PENDING: 1000}}), PlanInputs())
    assert isinstance(found, NoPlan)
    # A key without a value is as good as one that is not there.
    assert isinstance(propose(running(), Place({}, conf={A.id: {PENDING: None}}), PlanInputs()), NoPlan)


def test_configuration_executors_and_placement_change_in_one_step() -> None:
    wanted = place([("n0", 6701), ("n2", 6700)], [0, 0, 1])
    found = propose(
        running(), Place({A.id: wanted}, {A.id: {"b-bolt": 2}}, {A.id: {PENDING: 50}}, origin="person"), PlanInputs()
    )
    assert isinstance(found, Plan)
    ((move,),) = [step.moves for step in found.steps]
    assert (move.executors, move.conf, move.num_workers) == ({"b-bolt": 2}, {PENDING: 50}, 2)
    assert move.legs[1].after.slot_of_executor == wanted.slot_of_executor
    after = replace(A, conf={PENDING: 50})
    now = replace(running(), load=None, current={})
    then = replace(now, topologies=(with_executors(after, {"b-bolt": 2}), B), current={A.id: move.after})
    assert changes(found.preconditions, then, {A.id: move}) == []
    other = replace(then, topologies=(with_executors(A, {"b-bolt": 2}), B))
    assert changes(found.preconditions, other, {A.id: move}) == [f"{A.id} has another configuration"]


def test_rollback_restores_what_a_person_could_not_set() -> None:
    now = replace(running(), topologies=(replace(A, conf={PENDING: 1000}), B))
    (move,) = configure(now, {PENDING: None}).moves
    assert move.conf == {PENDING: None}
    with pytest.raises(InputError, match="null is none that a worker can start with"):
        configure(now, {PENDING: None}, origin="person")


@pytest.mark.parametrize(
    ("now", "placed", "executors", "why"),
    [
        (running(), on("n0", "n1"), 2, "is placed with 4 executors"),
        (running(), place([("n9", 6700)], [0, 0, 0]), 2, "should run where no slot is free"),
        (FULL, place([("n2", 6700)], [0] * 3), 2, "no slot is free"),
        (running(), place([("n0", 6701)], [0, 0, -1]), 2, "an executor without a slot in its placement"),
        (running(), place([("n0", 6701)], [0] * 8), 7, "has 6 tasks"),
    ],
)  # fmt: skip
def test_placement_that_cannot_be_is_refused_with_the_reason(now, placed, executors, why) -> None:
    with pytest.raises(InputError, match=why):
        resize(now, placed, executors)


def test_topology_that_shall_not_move_is_not_resized() -> None:
    fixed = replace(A, conf={"stormwright.move": False})
    now = problem([fixed], current={A.id: on("n0", "n1")})
    with pytest.raises(InputError, match="false in its configuration"):
        resize(now, place([("n0", 6701)], [0, 0, 0]), 2)


def test_numbers_that_run_already_are_a_plain_move() -> None:
    found = propose(running(), Place({A.id: on("n0", "n1")}, {A.id: {"b-bolt": 3}}), PlanInputs())
    assert isinstance(found, NoPlan)
    assert found.code == "nothing_to_do"


def test_plan_that_has_resized_a_topology_is_not_taken_for_a_change_of_the_cluster() -> None:
    now, placed = running(), place([("n0", 6701)], [0, 0, 0])
    plan = resize(now, placed, 2)
    resized = with_executors(A, {"b-bolt": 2})
    after = replace(now, topologies=(resized, B), current={A.id: placed}, load=None)
    assert changes(plan.preconditions, after, {A.id: plan.moves[0]}) == []
    assert changes(plan.preconditions, after, {}) == [f"{A.id} has other executors"]
    np.testing.assert_array_equal(after.current_slot[:3], [1, 1, 1])


def test_topology_is_resized_where_it_runs_although_the_host_is_cordoned() -> None:
    now = replace(running(), blacklisted_hosts=frozenset({"host0"}))
    (move,) = resize(now, place([("n0", 6701)], [0, 0, 0]), 2, refuses_cordoned=True).moves
    assert move.after.slots == (WorkerSlot("n0", 6701),)
    elsewhere = replace(now, current={A.id: on("n1", "n2")})
    with pytest.raises(InputError, match="host0: is cordoned"):
        resize(elsewhere, place([("n0", 6701)], [0, 0, 0]), 2, refuses_cordoned=True)


def test_executors_that_change_place_among_components_are_no_change_of_the_cluster() -> None:
    """With as many executors as before in all."""
    spout = replace(A.components[0], parallelism=1)
    of = replace(
        A, components=(spout, A.components[1]), executor_runs=(ExecutorRun(0, 1, 1, 2), ExecutorRun(1, 3, 3, 2))
    )
    now = problem([of], current={of.id: on("n0", "n1")})
    placed, counts = place([("n0", 6701)], [0, 0, 0, 0]), {"a-spout": 2, "b-bolt": 2}
    found = propose(now, Place({of.id: placed}, {of.id: counts}), PlanInputs())
    assert isinstance(found, Plan)
    after = replace(now, topologies=(with_executors(of, counts),), current={of.id: placed})
    assert changes(found.preconditions, after, {of.id: found.moves[0]}) == []
    assert changes(found.preconditions, replace(now, current={of.id: placed}), {of.id: found.moves[0]}) != []


def test_traffic_of_resized_topologies_is_not_compared_by_executor() -> None:
    """As the history records it: there are other executors after the move."""
    now = running()
    plan = resize(now, place([("n0", 6701)], [0, 0, 0]), 2)
    np.testing.assert_array_equal(planned_slots(now, plan.moves), now.current_slot)
