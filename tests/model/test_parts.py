"""What a problem is made of is shared by the problems made of it; content decides what is equal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.errors import Fault, InputError
from stormwright.model import (
    Assignment,
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Topology,
    TopologyAssignment,
    assumed_load,
    default_executor_runs,
)
from stormwright.testing.strategies import placements, problems
from tests.schedulers.builders import load, nodes, problem, running, topology

OF_CLUSTER = ("slots", "slot_index", "slot_node", "node_index", "node_cpu_hz", "node_memory_mb", "node_rack")
OF_CLUSTER += ("node_usable", "node_capacity")
OF_WORKLOAD = ("executor_offset", "executor_topology", "topology_index", "component_limits", "resources")
OF_LOAD = ("loads", "executor_cpu_hz", "executor_memory_mb", "executor_demand")
OF_CURRENT = ("current_slot",)


def same(one: Problem, other: Problem, names: tuple[str, ...]) -> bool:
    return all(getattr(one, name) is getattr(other, name) for name in names)


@pytest.mark.long
@given(problems())
def test_new_placement_shares_cluster_workload_and_load(of):
    moved = of.with_current({})
    assert same(of, moved, OF_CLUSTER + OF_WORKLOAD + OF_LOAD)
    assert moved.current_slot is not of.current_slot


@pytest.mark.long
@given(problems())
def test_another_load_shares_all_but_the_load(of):
    loaded = of.with_load(LoadProfile({}))
    assert same(of, loaded, OF_CLUSTER + OF_WORKLOAD + OF_CURRENT)
    assert loaded.executor_cpu_hz is not of.executor_cpu_hz


@pytest.mark.long
@given(problems())
def test_changed_supervisors_share_workload_and_load(of):
    turned = replace(of, supervisors=of.supervisors[::-1])
    names = tuple(name for name in OF_WORKLOAD + OF_LOAD)
    assert same(of, turned, names)
    assert same(of, replace(of, name="other"), OF_CLUSTER + OF_WORKLOAD + OF_LOAD + OF_CURRENT)


def test_assumed_traffic_is_made_once_for_all_loads_and_not_for_cpu():
    made = []

    class EngineCounts(Topology):
        @property
        def component_index(self):
            made.append(self.id)
            return {component.id: index for index, component in enumerate(self.components)}

    components = (Component("a", "spout", 2), Component("b", "bolt", 2, (Grouping("a"),)))
    of = Problem(nodes(9.0), (EngineCounts("t", "t", 2, components, default_executor_runs(components)),))
    assert of.loads[0] is of.with_load(LoadProfile({})).loads[0]
    of = replace(of, topologies=(EngineCounts("u", "u", 2, components, default_executor_runs(components)),))
    made.clear()
    assert of.executor_cpu_hz.tolist() == [0.3e9] * 4
    assert of.executor_memory_mb.tolist() == [128.0] * 4
    assert made == [], "streams were looked at"


@pytest.mark.slow
def test_cost_of_a_new_placement_is_independent_of_cluster_size():
    components = (Component("a", "spout", 500), Component("b", "bolt", 500))
    runs = default_executor_runs(components)
    topologies = tuple(Topology(f"t{n}", f"t{n}", 10, components, runs) for n in range(100))
    of = Problem(nodes(*[9.0] * 2000), topologies)
    assert of.num_executors == 100_000
    assert len(of.slots) == 8000
    assert of.executor_cpu_hz.sum() > 0
    seconds = []
    for _ in range(20):
        start = time.process_time()
        moved = of.with_current({}).with_load(LoadProfile({}))
        seconds.append(time.process_time() - start)
        assert moved.executor_topology is of.executor_topology
    assert min(seconds) < 2e-3


def test_arrays_of_a_load_cannot_be_written_to_from_anywhere():
    mine = np.array([1.0, 2.0])
    of = replace(load(2), cpu_hz=mine)
    mine[0] = 9.0
    assert of.cpu_hz.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        of.cpu_hz[0] = 0.0
    assert replace(of, bytes_per_tuple=8.0).cpu_hz is of.cpu_hz, "what is frozen needs no copy"
    with pytest.raises(TypeError, match="should be an array of int32"):
        replace(of, pair_source=np.array([0.5]))


def test_equal_content_is_equal_and_nothing_has_a_hash():
    def build() -> Problem:
        return problem(nodes(9.0), (topology("t", 2, 1), load(2, [(0, 1, 5.0)])))

    assert build() == build()
    assert build() != replace(build(), name="other")
    assert build() != build().with_load(LoadProfile({"t": load(2, [(0, 1, 6.0)])}))
    assert load(2) == load(2)
    assert load(2) != load(3)
    slots = np.array([0, 0], np.int32)
    assert Assignment(slots) == Assignment(slots.copy())
    assert Assignment(slots) != Assignment(np.array([0, 1], np.int32))
    assert (build() == 3) is False
    for each in (build(), load(2), LoadProfile({}), Assignment(slots)):
        with pytest.raises(TypeError, match="unhashable type"):
            hash(each)


def test_assumed_loads_of_equal_topologies_are_equal():
    assert assumed_load(topology("t", 3, 1), 1e9) == assumed_load(topology("t", 3, 1), 1e9)


def test_assignment_to_missing_supervisor_counts_as_unplaced():
    of = problem(nodes(9.0), (topology("t", 2, 1), load(2)))
    gone = of.with_current({"t": TopologyAssignment((replace_supervisor(of, "gone"),), (0, 0))})
    assert gone.current_slot.tolist() == [-1, -1]


@pytest.mark.long
@given(st.data())
def test_current_slots_are_independent_of_earlier_placements(data):
    """Placements by turns, some sound and some not: two topologies in a slot, executors beyond the end."""
    before = data.draw(problems())
    several = data.draw(st.lists(placements(before), min_size=1, max_size=3))
    mixed = {name: data.draw(st.sampled_from(several)).get(name) for name in before.topology_index}
    odd = {name: replace(held, slot_of_executor=(9, *held.slot_of_executor[1:])) for name, held in several[0].items()}
    for current in (*several, {name: held for name, held in mixed.items() if held}, {}, odd, *several):
        new, faults = made(Problem, before.supervisors, before.topologies, current=current)
        changed, reported = made(before.with_current, current)
        assert reported == faults
        if new and changed:
            before = changed
            assert before.current_slot.tolist() == new.current_slot.tolist()
            assert before.running.owner == new.running.owner


def made(make: Callable[..., Problem], *of: Any, **more: Any) -> tuple[Problem | None, tuple[Fault, ...]]:
    """A problem, or its faults."""
    try:
        return make(*of, **more), ()
    except InputError as error:
        return None, error.faults


def test_mapping_modified_after_construction_is_validated_again():
    of = problem(nodes(9.0), (topology("t", 2, 1), load(2)))
    current: dict[str, TopologyAssignment] = {}
    of = replace(of, current=current)
    assert of.current_slot.tolist() == [-1, -1]
    current["t"] = TopologyAssignment((of.slots[1],), (0, 0))
    assert of.with_current(current).current_slot.tolist() == [1, 1]
    current["t"] = TopologyAssignment((of.slots[1],), (0, 7))
    with pytest.raises(InputError, match=r"assignments\.t\.slot_of_executor\[1\]"):
        of.with_current(current)


def test_placement_of_a_replaced_topology_is_validated_again():
    of = running(problem(nodes(9.0), (topology("t", 2, 1), load(2))), [0, 0])
    with pytest.raises(InputError, match="has 2 items for 3 executors"):
        replace(of, topologies=(topology("t", 3, 1),), load=None)


def test_one_changed_placement_costs_only_its_own_update():
    """A thousand topologies run; Nimbus asks each few seconds, and of most of them nothing has changed."""
    components = (Component("a", "spout", 50), Component("b", "bolt", 50))
    runs = default_executor_runs(components)
    topologies = tuple(Topology(f"t{n}", f"t{n}", 10, components, runs) for n in range(1000))
    of = Problem(nodes(*[9.0] * 5000), topologies)
    current = {
        t.id: TopologyAssignment(of.slots[10 * n : 10 * n + 10], tuple(e % 10 for e in range(100)))
        for n, t in enumerate(topologies)
    }
    of = of.with_current(current)
    assert (of.current_slot >= 0).all()
    seconds = []
    for n in range(5):
        start = time.process_time()
        less = of.with_current({name: held for name, held in current.items() if name != f"t{n}"})
        assert np.count_nonzero(less.current_slot < 0) == 100
        seconds.append(time.process_time() - start)
    assert min(seconds) < 5e-3


def replace_supervisor(of: Problem, name: str):
    return of.slots[0]._replace(supervisor=name)


def test_read_only_view_of_writable_array_is_copied():
    whole = np.ones(8)
    view = whole[:4]
    view.flags.writeable = False
    of = replace(load(4), cpu_hz=view)
    whole[0] = 7.0
    assert of.cpu_hz.tolist() == [1.0] * 4
    assert replace(of, memory_mb=of.memory_mb).memory_mb is of.memory_mb, "what nobody can write to is not"
