"""Overloaded nodes, by how much and by whom."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.explain.overloads import overloads
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.model.constraints.violations import violations
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of
from tests.schedulers.builders import load, nodes, problem, topology


def test_overload_text_lists_amounts_and_causing_components():
    of = problem(
        nodes(2, 1, memory_mb=500),
        (topology("t", 3, 1), load(3, cpu_ghz=[0.5, 0.5, 0.75], memory_mb=100)),
        (topology("u", 1, 1), load(1, cpu_ghz=2, memory_mb=300)),
    )
    cpu, memory = overloads(of, np.array([0, 0, 0, 1], np.int32))
    assert (cpu.supervisor, cpu.host, str(cpu)) == ("s0", "h0", "CPU 3.75 of 2.0 GHz, over by 1.75 GHz")
    assert cpu.by_whom == ["2.0 GHz by 1 executor of c, u", "1.75 GHz by 3 executors of c, t"]
    assert str(memory) == "memory 600 of 500 MB, over by 100 MB"
    assert overloads(of, np.array([0, 0, -1, 4], np.int32))[0].by_whom == ["2.0 GHz by 1 executor of c, u"]
    assert overloads(of, np.array([0, 0, -1, -1], np.int32)) == []


@pytest.mark.long
@given(problems(), st.data())
def test_overloads_equal_brute_force_overloads(of, data):
    slots = data.draw(slots_of(of)).tolist()
    by_name = defaultdict(float)
    for e, slot in enumerate(slots):
        if slot >= 0:
            name, _ = oracles.executors(of)[e]
            by_name[of.slots[slot].supervisor, name] += float(of.executor_cpu_hz[e])
    found = {o.supervisor: o for o in overloads(of, np.array(slots, np.int32)) if o.resource == "CPU"}
    for node in of.supervisors:
        used = {name: cpu for (supervisor, name), cpu in by_name.items() if supervisor == node.id}
        assert (node.id in found) == (sum(used.values()) > node.cpu_hz * (1 + 1e-9))
        if node.id in found:
            reported = defaultdict(float)
            for share in found[node.id].shares:
                reported[share.topology] += share.used
            assert reported == pytest.approx(used)
            assert found[node.id].used == pytest.approx(sum(used.values()))
    over = [each for each in violations(of, np.array(slots, np.int32)) if isinstance(each, ResourceOveruse)]
    assert [(each.node, each.resource, each.amount) for each in over] == [
        (each.node, each.resource, each.used) for each in overloads(of, np.array(slots, np.int32))
    ]
