"""The load assumed without measurements, against rates worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import Component, Grouping, Problem, Supervisor, Topology, assumed_load, default_executor_runs
from stormwright.model.load import _sources_first
from stormwright.testing import oracles


def topology(*components: Component) -> Topology:
    return Topology("t", "t", 1, components, default_executor_runs(components))


def received(of: Topology) -> dict[str, float]:
    """Tuples/s that each component receives, by the oracle's spreading."""
    problem = Problem((Supervisor("s", "h", (1,), 1e9),), (of,))
    rates = oracles.traffic(problem, [-1] * of.num_executors)
    found = {component.id: 0.0 for component in of.components}
    for (_, target), tps in rates.items():
        found[of.components[of.executor_component[target]].id] += tps
    return {name: pytest.approx(tps) for name, tps in found.items()}


def test_assumed_spout_executor_emits_one_tuple_and_bolts_forward_input():
    chain = topology(
        Component("a", "spout", 3),
        Component("b", "bolt", 2, (Grouping("a", kind="shuffle"),)),
        Component("c", "bolt", 4, (Grouping("b", kind="fields"), Grouping("a", kind="fields"))),
    )
    assert received(chain) == {"a": 0, "b": 3, "c": 6}


def test_all_grouping_copies_tuples_and_global_grouping_sends_to_one_task():
    fan = topology(
        Component("a", "spout", 2),
        Component("b", "bolt", 3, (Grouping("a", kind="all"),)),
        Component("c", "bolt", 2, (Grouping("b", kind="global"),)),
    )
    assert received(fan) == {"a": 0, "b": 6, "c": 6}
    load = assumed_load(fan, 1e9)
    sinks = np.flatnonzero(fan.executor_component == 2)
    assert set(load.pair_target.tolist()) & set(sinks.tolist()) == {sinks[0]}


def test_order_of_the_components_has_no_influence():
    parts = (
        Component("c", "bolt", 1, (Grouping("b", kind="fields"),)),
        Component("b", "bolt", 1, (Grouping("a", kind="fields"),)),
        Component("a", "spout", 5),
    )
    assert received(topology(*parts)) == received(topology(*parts[::-1])) == {"a": 0, "b": 5, "c": 5}


def test_cycle_in_topology_carries_its_input_once():
    loop = topology(
        Component("a", "spout", 1),
        Component("b", "bolt", 1, (Grouping("a", kind="fields"), Grouping("c", kind="fields"))),
        Component("c", "bolt", 1, (Grouping("b", kind="fields"),)),
    )
    assert received(loop) == {"a": 0, "b": 2, "c": 1}


def test_self_subscription_does_not_amplify_traffic():
    own = topology(
        Component("a", "spout", 1), Component("b", "bolt", 2, (Grouping("a", kind="all"), Grouping("b", kind="all")))
    )
    assert received(own) == {"a": 0, "b": 2 + 4}


def test_assumed_cpu_and_memory_are_component_requests_or_storm_defaults():
    requesting = topology(
        Component("a", "spout", 1),
        Component(
            "b", "bolt", 2, resources={"cpu.pcore.percent": 50.0, "onheap.memory.mb": 64.0, "offheap.memory.mb": 8.0}
        ),
    )
    load = assumed_load(requesting, 2e9)
    assert load.cpu_hz.tolist() == [0.2e9, 1e9, 1e9]
    assert load.memory_mb.tolist() == [128.0, 72.0, 72.0]


def test_components_without_executors_send_and_receive_nothing():
    idle = topology(Component("a", "spout", 0), Component("b", "bolt", 1, (Grouping("a"),)), Component("c", "bolt", 0))
    load = assumed_load(idle, 1e9)
    assert len(load.pair_tps) == len(load.flow_tps) == 0
    assert len(assumed_load(topology(), 1e9).cpu_hz) == 0


def in_turn(sources: list[list[int]]) -> list[int]:
    """The same order, looking at all that waits each time."""
    done: list[int] = []
    waiting = list(range(len(sources)))
    while waiting:
        known = {target: [source in done for source in sources[target]] for target in waiting}
        ready = [target for target in waiting if all(known[target])]
        reached = [target for target in waiting if any(known[target])]
        done.append((ready or reached or waiting)[0])
        waiting.remove(done[-1])
    return done


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=8, max_size=8))
def test_source_first_order_holds_for_cycles(sources):
    assert list(_sources_first(sources)) == in_turn(sources)
