"""List rules that choose nodes, against published examples and the rules' own definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.errors import InputError
from stormwright.model import UNPLACED, Problem
from stormwright.model.problem import CHECKED
from stormwright.schedulers import make_scheduler
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, running, topology

WAITS = UNPLACED


def node_of(name: str, of: Problem, **given: object) -> list[int]:
    answer = make_scheduler(name, given).schedule(of)
    assert not answer.unplaced
    return of.slot_node[answer.slot_of_executor].tolist()


def jobs(cpu_ghz: list[float], *node_ghz: float) -> Problem:
    """Each job may have a worker of its own."""
    count = len(cpu_ghz)
    return problem(
        nodes(*node_ghz, ports=count, memory_mb=1e6), (topology("t", count, count), load(count, cpu_ghz=cpu_ghz))
    )


def busiest(of: Problem, node: list[int]) -> float:
    """The largest part of its CPU that a node uses."""
    return float(np.max(np.bincount(node, of.executor_cpu_hz, len(of.supervisors)) / of.node_cpu_hz))


def test_max_min_gives_the_longest_first_of_grahams_worst_case():
    """R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969, https://doi.org/10.1137/0117039.

    Jobs 5, 5, 4, 4, 3, 3, 3 on three machines: longest first ends at 11, the best schedule at 9: 4/3 - 1/9 of it.
    """
    of = jobs([3.0, 5.0, 4.0, 3.0, 5.0, 4.0, 3.0], 20, 20, 20)
    assert busiest(of, node_of("max_min", of)) * 20 == pytest.approx(11)


def test_min_min_places_the_longest_job_last():
    """M. Maheswaran et al., 1999: many short jobs and a long one, where Max-Min ends earlier."""
    of = jobs([4.0, 1.0, 1.0, 1.0, 1.0], 10, 10)
    ends = {name: busiest(of, node_of(name, of)) * 10 for name in ("min_min", "max_min")}
    assert ends == {"min_min": pytest.approx(6), "max_min": pytest.approx(4)}


@settings(deadline=None, max_examples=examples(60))
@given(
    cpu=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    node=st.lists(st.sampled_from([41, 67, 83, 97]), min_size=1, max_size=4),
    name=st.sampled_from(["min_min", "max_min"]),
)
def test_min_min_and_max_min_equal_their_definition(cpu, node, name):
    """By the definition: of all jobs not placed that whose least end is least, or most; then once more.

    Ends on nodes that differ are never the same: their CPUs are prime.
    """
    of = jobs([float(c) for c in cpu], *map(float, node))
    used, waiting, ends = [0.0] * len(node), list(range(len(cpu))), []
    best = min if name == "min_min" else max
    while waiting:
        least = {job: min((used[n] + cpu[job]) / node[n] for n in range(len(node))) for job in waiting}
        chosen = best(waiting, key=least.__getitem__)
        where = min(range(len(node)), key=lambda n: (used[n] + cpu[chosen]) / node[n])
        used[where] += cpu[chosen]
        ends.append(least[chosen])
        waiting.remove(chosen)
    assert busiest(of, node_of(name, of)) == pytest.approx(max(ends))


def test_shortest_processing_time_fills_the_fastest_cores_first():
    """Equal nodes by CPU, of 8, 2 and 4 cores: the second has the fastest, then the third."""
    supervisors = tuple(
        replace(node, resources={**node.resources, "cpu.pcore.percent": 100.0 * cores})
        for node, cores in zip(nodes(8, 8, 8), (8, 2, 4), strict=True)
    )
    of = problem(supervisors, (topology("t", 5, 3), load(5, cpu_ghz=3.0)))
    assert node_of("shortest_processing_time", of) == [1, 1, 2, 2, 0]


def test_shortest_processing_time_uses_nodes_without_declared_core_count():
    of = problem(nodes(9, 9), (topology("t", 2, 1), load(2)))
    assert node_of("shortest_processing_time", of) == [0, 0]


def test_earliest_available_ignores_executor_demand():
    """Used: 0.5 and 0.4 of the CPU. With 2 GHz more the first would be done sooner, but the second is free sooner."""
    old, new = (topology("old", 2, 2), load(2, cpu_ghz=np.array([5.0, 2.0]))), (topology("n", 1, 1), load(1, cpu_ghz=2))
    of = running(problem(nodes(10, 5), old, new), [0, 4, WAITS])
    assert node_of("earliest_available", of)[2] == 1
    assert node_of("min_min", of)[2] == 0


def delays(of: Problem, node: list[int], weight: list[float]) -> float:
    """Σ w u / (1 - U), summed up executor by executor."""
    use = np.bincount(node, of.executor_cpu_hz, len(of.supervisors)) / of.node_cpu_hz
    owner = of.executor_topology
    return sum(weight[owner[e]] * of.executor_cpu_hz[e] / of.node_cpu_hz[k] / (1 - use[k]) for e, k in enumerate(node))


@pytest.mark.long
@settings(deadline=None, max_examples=examples(60))
@given(
    old=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=4),
    new=st.integers(1, 6),
    weights=st.tuples(st.sampled_from([0.5, 1, 8]), st.sampled_from([0.5, 1, 8])),
)
def test_least_weighted_delay_is_the_least_of_all_nodes(old, new, weights):
    count = len(old)
    placed = (
        (topology("old", count, count, **{"stormwright.weight": weights[0]}), load(count, cpu_ghz=[c for _, c in old])),
        (topology("new", 1, 1, **{"stormwright.weight": weights[1]}), load(1, cpu_ghz=float(new))),
    )
    of = problem(nodes(40, 50, 60, ports=9, memory_mb=1e6), *placed)
    slots = [9 * node + position for position, (node, _) in enumerate(old)]
    found = node_of("least_weighted_delay", running(of, [*slots, WAITS]))
    each = [delays(of, [*found[:-1], node], list(weights)) for node in range(3)]
    assert delays(of, found, list(weights)) == pytest.approx(min(each))


def test_a_heavy_topology_is_avoided():
    """Equally busy nodes: what is new goes to where less weighs."""
    old = [(topology(f"o{n}", 1, 1, **{"stormwright.weight": w}), load(1, cpu_ghz=3)) for n, w in enumerate((9, 1))]
    of = running(problem(nodes(10, 10), *old, (topology("n", 1, 1), load(1))), [0, 4, WAITS])
    assert node_of("least_weighted_delay", of)[2] == 1


def test_invalid_weight_is_rejected():
    invalid = topology("t", 1, 1, **{"stormwright.weight": -1})
    of = problem(nodes(1), (invalid, load(1)), parts=CHECKED)
    with pytest.raises(InputError, match="should be a number above 0"):
        make_scheduler("least_weighted_delay").schedule(of)


@pytest.mark.long
@settings(deadline=None, max_examples=examples(60))
@given(
    there=st.lists(st.integers(0, 2), min_size=1, max_size=5),
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 99)), max_size=12),
)
def test_minimum_degree_is_the_least_of_all_nodes(there, pairs):
    """The degree counted pair by pair, however much they exchange."""
    count = len(there) + 1
    pairs = [(a % count, b % count, float(tps)) for a, b, tps in pairs if a % count != b % count]
    of = problem(nodes(50, 40, 30, ports=9, memory_mb=1e6), (topology("t", count, count), load(count, pairs)))
    slots = [9 * node + position for position, node in enumerate(there)]
    found = node_of("minimum_degree", running(of, [*slots, WAITS]))

    def degree(node: int) -> int:
        where = [*there, node]
        links = {frozenset(pair[:2]) for pair in pairs}
        return sum(1 for a, b in map(tuple, links) if where[a] != where[b] and node in (where[a], where[b]))

    assert degree(found[-1]) == min(map(degree, range(3)))


def test_minimum_degree_counts_its_own_placements():
    """A chain fills the first node, and only its end has a connection to the next."""
    pairs = [(n, n + 1, 1.0) for n in range(5)]
    of = problem(nodes(0.3, 0.3, ports=3), (topology("t", 6, 2), load(6, pairs)))
    assert node_of("minimum_degree", of) == [0, 0, 0, 1, 1, 1]
