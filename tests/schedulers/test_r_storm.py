"""R-Storm: order of executors, reference node and distances, followed by hand."""

from __future__ import annotations

from math import hypot

import pytest

from stormwright.model import Component, Grouping, Problem, Supervisor, Topology, default_executor_runs
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import GHZ, load, nodes, problem, running, topology


def node(name: str, rack: str, cpu_ghz: float, memory_mb: float, ports: int = 4) -> Supervisor:
    resources = {"memory.mb": memory_mb}
    return Supervisor(name, f"h-{name}", tuple(range(6700, 6700 + ports)), cpu_ghz * GHZ, rack, resources=resources)


def placed(of: Problem, **settings: object) -> list[int]:
    """Node of every executor."""
    slots = make_scheduler("r_storm", settings).schedule(of).slot_of_executor
    return of.slot_node[slots].tolist()


def test_passes_take_one_executor_per_component_breadth_first():
    """spout a (2), then b and c that subscribe to it, then d; the last in name order is placed first where it fits.

    Each node takes one executor, so the order of placing is the order of the nodes' distances: the reference node is
    the largest, and the others of the rack are nearer the smaller they are.
    """
    components = (
        Component("z", "spout", 2),
        Component("b", "bolt", 1, (Grouping("z"),)),
        Component("a", "bolt", 2, (Grouping("b"),)),
    )
    t = Topology("t", "t", 5, components, default_executor_runs(components))
    sizes = [1.0, 1.1, 1.2, 1.3, 1.4]
    of = problem(
        tuple(node(f"n{i}", "r", size, 1000 * size, ports=1) for i, size in enumerate(sizes)),
        (t, load(5, cpu_ghz=0.9, memory_mb=900.0)),
    )
    at = placed(of)
    # Executors in Storm's order: a0, a1 (0, 1), b (2), z0, z1 (3, 4). Passes: z0 b a0, then z1 a1.
    assert [at[e] for e in (3, 2, 0, 4, 1)] == [4, 0, 1, 2, 3]


def test_the_reference_is_the_richest_node_of_the_richest_rack():
    """The single largest node is in a rack that has less in all."""
    cluster = (
        node("a", "small", 9.0, 9000),
        node("b", "large", 5.0, 5000),
        node("c", "large", 6.0, 6000),
    )
    of = problem(cluster, (topology("t", 1, 1), load(1)))
    assert placed(of) == [2]


def test_node_distance_equals_manual_calculation():
    """After the reference node is full, what is near in CPU and memory is weighed against the rack."""
    cluster = (node("ref", "r", 10.0, 1000), node("here", "r", 8.0, 800), node("far", "q", 1.0, 100))
    of = problem(cluster, (topology("t", 2, 2), load(2, cpu_ghz=[9.5, 1.0], memory_mb=[950.0, 100.0])))
    # In parts of the largest node the second executor asks for (0.1, 0.1).
    here = hypot(0.8 - 0.1, 0.8 - 0.1, 0.5)
    far = hypot(0.1 - 0.1, 0.1 - 0.1, 1.0)
    assert far < here
    assert placed(of) == [0, 2]
    # With the network twice as heavy in the squared distance: 0.98 + 0.5 against 2.
    assert placed(of, network_weight=2.0) == [0, 1]


def test_raw_units_let_memory_decide():
    """In MB and percent of a core, 60 MB more count for more than the rack and a whole free core less."""
    cluster = (node("ref", "r", 30.0, 4000), node("cpu", "r", 3.0, 700), node("mem", "q", 6.0, 550))
    of = problem(cluster, (topology("t", 2, 2), load(2, cpu_ghz=[29.5, 2.9], memory_mb=[3950.0, 500.0])))
    raw_cpu, raw_mem = hypot(3.3, 200, 0.5), hypot(103.3, 50, 1.0)
    assert raw_mem < raw_cpu
    assert placed(of, units="raw") == [0, 2]
    assert placed(of) == [0, 1]


def test_memory_is_hard_and_cpu_soft():
    """CPU of the cluster is enough in all, but no node has enough for the last executor."""
    of = problem(nodes(1.0, 1.0, 1.0), (topology("t", 4, 3), load(4, cpu_ghz=0.7)))
    assert make_scheduler("r_storm", {"soft_cpu": False}).schedule(of).unplaced
    at = placed(of)
    assert sorted(at.count(n) for n in range(3)) == [1, 1, 2]
    of = problem(nodes(9.0, 9.0, 9.0, memory_mb=1000), (topology("t", 4, 3), load(4, memory_mb=700.0)))
    answer = make_scheduler("r_storm").schedule(of)
    assert len(answer.unplaced) == 4
    assert "memory short" in answer.status["t"]


def test_wanted_worker_count_is_reached_and_running_executors_stay():
    of = problem(nodes(9.0, 9.0), (topology("t", 6, 3), load(6)))
    slots = make_scheduler("r_storm").schedule(of).slot_of_executor.tolist()
    assert len(set(slots)) == 3
    assert set(of.slot_node[slots].tolist()) == {0}
    of = running(of, [0, 0, 1, 1, -1, -1])
    again = make_scheduler("r_storm").schedule(of).slot_of_executor.tolist()
    assert again[:4] == [0, 0, 1, 1]
    assert again[4] == again[5] not in (0, 1)


def test_repeated_schedule_grants_no_additional_cpu():
    """a overloads the node that has memory; what it takes beyond is not free elsewhere at the next call."""
    cluster = (node("s0", "r", 1.0, 9000, ports=2), node("s1", "r", 4.0, 100, ports=2))
    a, b = (
        (topology("a", 3, 1), load(3, cpu_ghz=1.0, memory_mb=500.0)),
        (topology("b", 3, 1), load(3, cpu_ghz=1.0, memory_mb=10.0)),
    )
    of = problem(cluster, a, b)
    answer = make_scheduler("r_storm").schedule(of)
    assert answer.status["b"] == "r_storm: CPU short by 1.0 GHz on 2 usable nodes together"
    again = make_scheduler("r_storm").schedule(running(of, answer.slot_of_executor.tolist()))
    assert again.slot_of_executor.tolist() == answer.slot_of_executor.tolist() == [0, 0, 0, -1, -1, -1]


def test_executor_without_cpu_demand_is_placed_on_overloaded_cluster():
    """The load of what runs has grown beyond all that there is."""
    of = problem(
        nodes(1.0), (topology("old", 1, 1), load(1, cpu_ghz=2.0)), (topology("new", 1, 1), load(1, cpu_ghz=0.0))
    )
    assert placed(running(of, [0, -1])) == [0, 0]


@pytest.mark.parametrize("units", ["normalised", "raw"])
def test_node_without_declared_memory_is_usable(units):
    silent = Supervisor("s", "h", (6700, 6701), 4 * GHZ)
    of = problem((silent,), (topology("t", 4, 2), load(4)))
    assert placed(of, units=units) == [0, 0, 0, 0]
