"""Isolated topologies: alone on their hosts, on no more than they have, and what that means for the others."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.model import UNPLACED, Assignment, Problem, violations
from stormwright.model.constraints.isolation import SharedHost, TooManyHosts, isolated
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.generic import BinpackScheduler
from stormwright.schedulers.toolkit import registry
from stormwright.schedulers.toolkit.params import NoParams
from stormwright.schedulers.toolkit.traits import Traits
from stormwright.schedulers.toolkit.wrappers import IsolatingScheduler
from stormwright.testing.strategies import problems
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, running, topology

OURS = "stormwright.PlacementScheduler"
STORMS = "org.apache.storm.scheduler.IsolationScheduler"


def isolating(of: Problem, scheduler: str | None = OURS, **machines: int) -> Problem:
    conf = {"isolation.scheduler.machines": machines}
    return replace(of, conf=conf if scheduler is None else {**conf, "storm.scheduler": scheduler})


def three(*cpu_ghz: float, ports: int = 2) -> Problem:
    """Topologies ``a``, ``b``, ``c`` of four executors on two workers."""
    return problem(nodes(*cpu_ghz, ports=ports), *((topology(name, 4, 2), load(4)) for name in "abc"))


def hosts(of: Problem, slots, index: int) -> set[str]:
    own = [slot for slot in slots[of.executors_of(index)] if slot != UNPLACED]
    return {of.supervisors[of.slot_node[slot]].host for slot in own}


def keeps_isolated(of: Problem, slots, machines: dict[str, int]) -> bool:
    """The limit once more, by sets."""
    on = {t.name: hosts(of, slots, index) for index, t in enumerate(of.topologies)}
    return all(
        len(on[name]) <= count and not any(on[name] & on[other] for other in on if other != name)
        for name, count in machines.items()
        if name in on
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["online", "round_robin", "binpack", "tag_aware", "annealing"])
@settings(max_examples=examples(30), deadline=None)
@given(of=problems(running=False), machines=st.dictionaries(st.sampled_from(["t0", "t1"]), st.integers(1, 3)))
def test_isolated_topologies_are_alone(name, of, machines):
    of = isolating(of, **machines)
    answer = make_scheduler(name).schedule(of)
    assert keeps_isolated(of, answer.slot_of_executor, machines)
    left_out = {executor.topology for executor in answer.unplaced}
    broken = [each for each in violations(of, answer.slot_of_executor) if each.topology not in left_out]
    assert broken == []


@pytest.mark.long
@settings(max_examples=examples(30), deadline=None)
@given(of=problems(), machines=st.dictionaries(st.sampled_from(["t0", "t1"]), st.integers(1, 3), min_size=1))
def test_nothing_new_shares_a_host_with_an_isolated_topology(of, machines):
    of = isolating(of, **machines)
    slots = make_scheduler("round_robin").schedule(of).slot_of_executor
    used = slots[slots != UNPLACED]
    owners = {(slot, topology) for slot, topology in zip(slots, of.executor_topology, strict=True) if slot >= 0}
    assert len(owners) == len(np.unique(used)), "a slot holds one topology"
    for index in range(len(of.topologies)):
        own = of.executors_of(index)
        came = np.where(slots[own] != of.current_slot[own], slots[own], UNPLACED)
        arrived = {of.supervisors[of.slot_node[slot]].host for slot in came if slot != UNPLACED}
        others = [other for other in range(len(of.topologies)) if other != index]
        isolated_others = others if index in isolated(of) else [other for other in others if other in isolated(of)]
        assert not any(arrived & hosts(of, slots, other) for other in isolated_others)


@pytest.mark.long
@given(problems(), st.data())
def test_isolation_violations_equal_set_based_check(of, data):
    machines = {"t0": 1, "t2": 2}
    of = isolating(of, **machines)
    slot = st.integers(UNPLACED, len(of.slots) - 1)
    slots = np.array(data.draw(st.lists(slot, min_size=of.num_executors, max_size=of.num_executors)), np.int32)
    broken = [each for each in violations(of, slots) if isinstance(each, TooManyHosts | SharedHost)]
    assert (broken == []) == keeps_isolated(of, slots, machines)


def test_messages():
    of = isolating(three(9.0, 9.0, 9.0), a=1)
    slots = np.array([0, 0, 2, 2, 3, 3, 5, 5, 1, 1, 4, 4], np.int32)
    assert [str(each) for each in violations(of, slots)] == [
        "a: on 2 hosts, isolated on 1",
        "a: isolated, but shares h0 with 1 topology",
        "a: isolated, but shares h1 with 1 topology",
    ]


@pytest.mark.parametrize(("scheduler", "counts"), [(OURS, True), (STORMS, True), ("x.Other", False), (None, False)])
def test_isolation_setting_applies_only_under_schedulers_reading_it(scheduler, counts):
    assert isolated(isolating(three(9.0), scheduler, b=2, gone=1)) == ({1: 2} if counts else {})


def test_isolated_topology_gets_configured_host_count_and_others_the_rest():
    of = isolating(three(9.0, 9.0, 9.0, 9.0), b=2)
    for name in ("round_robin", "least_executors"):
        slots = make_scheduler(name).schedule(of).slot_of_executor
        assert hosts(of, slots, 1) == {"h0", "h1"}
        assert hosts(of, slots, 0) | hosts(of, slots, 2) == {"h2", "h3"}


def test_hosts_of_as_many_slots_go_in_order_of_their_names():
    """As in IsolationScheduler of Storm 3; not in the problem's order."""
    of = isolating(three(9.0, 9.0, 9.0, 9.0), b=1)
    turned = tuple(replace(node, host=f"h{9 - n}") for n, node in enumerate(of.supervisors))
    slots = make_scheduler("round_robin").schedule(replace(of, supervisors=turned)).slot_of_executor
    assert hosts(replace(of, supervisors=turned), slots, 1) == {"h6"}


def test_isolated_topology_waits_for_unoccupied_hosts():
    """The other two keep all three nodes busy; what waits says why, and they are left alone."""
    of = running(isolating(three(9.0, 9.0, 9.0), b=2), [0, 0, 2, 2, -1, -1, -1, -1, 4, 4, 3, 3])
    answer = make_scheduler("online").schedule(of)
    assert answer.slot_of_executor[[4, 5, 6, 7]].tolist() == [-1] * 4
    assert {executor.reasons[-1] for executor in answer.unplaced} == {
        "0 of 3 hosts are open to it: isolation.scheduler.machines"
    }
    assert answer.status["b"].startswith("online: ")


def test_hosts_of_running_isolated_topology_are_closed_to_others():
    of = running(isolating(three(9.0, 9.0, 9.0, ports=4), b=2), [-1] * 4 + [0, 0, 4, 4] + [-1] * 4)
    slots = make_scheduler("binpack").schedule(of).slot_of_executor
    assert slots[4:8].tolist() == [0, 0, 4, 4]
    assert hosts(of, slots, 0) | hosts(of, slots, 2) == {"h2"}


def test_lost_executors_of_isolated_topology_return_to_its_hosts():
    of = running(isolating(three(9.0, 9.0, 9.0, ports=4), b=1), [8, 8, 9, 9, 0, 0, -1, -1] + [-1] * 4)
    slots = make_scheduler("round_robin").schedule(of).slot_of_executor
    assert hosts(of, slots, 1) == {"h0"}
    assert "h0" not in hosts(of, slots, 2)


class Crowding:
    """Of another package: all on the first slots, whatever the configuration says."""

    params_type = NoParams

    def __init__(self, params):
        self.params = params

    def schedule(self, problem):
        return BinpackScheduler().schedule(problem)


@pytest.mark.parametrize(
    ("declares", "alone"), [({}, True), ({"handles_isolation": True}, False), ({"heeds_limits": False}, False)]
)
def test_plugin_schedulers_are_isolated_unless_they_isolate_themselves(monkeypatch, declares, alone):
    kind = type("Declaring", (Crowding,), declares)
    point = EntryPoint("guest", "package:Declaring", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    monkeypatch.setattr(EntryPoint, "load", lambda self: kind)
    of = isolating(three(9.0, 9.0, 9.0, ports=8), b=1)
    slots = make_scheduler("guest").schedule(of).slot_of_executor
    assert keeps_isolated(of, slots, {"b": 1}) == alone


def test_scheduler_is_not_called_for_an_empty_problem():
    """Where every topology is isolated, nothing is left for the others' hosts."""
    of = isolating(three(9.0, 9.0, 9.0), a=1, b=1, c=1)

    class Picky:
        def schedule(self, problem):
            assert problem.topologies
            return make_scheduler("binpack").schedule(problem)

    answer = IsolatingScheduler(Picky(), NoParams(), Traits()).schedule(of)
    assert keeps_isolated(of, answer.slot_of_executor, {"a": 1, "b": 1, "c": 1})


def test_even_is_storms_own_and_isolates_nothing():
    of = isolating(three(9.0, 9.0, 9.0), b=1)
    assert make_scheduler("even").schedule(of).slot_of_executor.tolist() == (
        make_scheduler("even").schedule(replace(of, conf={})).slot_of_executor.tolist()
    )


def test_reported_seconds_are_the_sum_of_all_parts():
    class Timed:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.full(problem.num_executors, UNPLACED, dtype=np.int32), seconds=2.0)

    answer = IsolatingScheduler(Timed(), NoParams(), Traits()).schedule(isolating(three(9.0, 9.0, 9.0), a=1, b=1))
    assert answer.seconds == 6.0
