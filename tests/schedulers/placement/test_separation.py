"""Limits on components: a bound on workers, what nodes admit, and the search that moves executors apart."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stormwright.model import Component, Problem, Topology, default_executor_runs, violations
from stormwright.model.component_limits import NO_LIMIT, ComponentLimits
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.separate import separate_components
from stormwright.schedulers.placement.separation import ComponentCounts, fewest_workers, is_separated
from stormwright.testing import oracles
from stormwright.testing.shared import for_any
from stormwright.testing.strategies import component_limits
from tests.examples import examples
from tests.schedulers.builders import nodes, running

CONSTRAINTS = "topology.ras.constraints"


def constrained(parallelism: list[int], workers: int, supervisors=None, **conf) -> Problem:
    """One topology of components ``a``, ``b``, …, that ask for 0.3 GHz each, on roomy nodes."""
    components = tuple(Component("abcd"[n], "spout", count) for n, count in enumerate(parallelism))
    topology = Topology("t", "t", workers, components, default_executor_runs(components), conf=conf)
    return Problem(supervisors or nodes(9.0, 9.0, 9.0), (topology,))


def apart(*rules: tuple[str, str]) -> dict[str, object]:
    return {CONSTRAINTS: [list(pair) for pair in rules]}


def spread(**most: int) -> dict[str, object]:
    return {CONSTRAINTS: {name: {"maxNodeCoLocationCnt": count} for name, count in most.items()}}


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """So small that all placements can be tried; CPU and memory never matter."""
    parallelism = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda counts: sum(counts) <= 6))
    ports = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    supervisors = tuple(
        node for n, count in enumerate(ports) for node in nodes(*[99.0] * (n + 1), ports=count)[n : n + 1]
    )
    conf = draw(component_limits(["abcd"[n] for n in range(len(parallelism))]))
    return constrained(parallelism, draw(st.integers(1, 5)), supervisors, **conf)


def is_feasible(of: Problem) -> bool:
    """Whether any of all placements keeps every limit."""
    return any(oracles.is_valid(of, slots) for slots in product(range(len(of.slots)), repeat=of.num_executors))


def with_feasibility() -> st.SearchStrategy[tuple[Problem, bool]]:
    """Problems, and whether they are feasible."""
    few = small_problems().filter(lambda of: len(of.slots) ** of.num_executors <= 5000)
    return few.map(lambda of: (of, is_feasible(of)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["online", "round_robin", "binpack", "offline", "genetic", "optimizer"])
@for_any(examples(40), known=with_feasibility())
def test_topology_is_placed_iff_a_feasible_placement_exists(name, known):
    of, feasible = known
    answer = make_scheduler(name, {"iterations": 2000} if name == "optimizer" else {}).schedule(of)
    assert (not answer.unplaced) == feasible


@pytest.mark.slow
@settings(deadline=None)
@given(of=small_problems())
def test_worker_bound_rejects_only_infeasible_topologies(of):
    assume(len(of.slots) ** of.num_executors <= 5000)
    limits = of.component_limits.get(0)
    assume(limits is not None)
    (topology,) = of.topologies
    counts = np.bincount(topology.executor_component, minlength=len(topology.components))
    if fewest_workers(limits, counts, of.num_executors) > min(topology.num_workers, of.num_executors):
        assert not is_feasible(of)


@pytest.mark.parametrize(
    ("parallelism", "conf", "most", "fewest"),
    [
        ([4, 4], spread(a=1), 8, 4),
        ([4, 4], spread(a=3), 8, 2),
        ([4, 4], apart(("a", "b")), 8, 2),
        ([4, 4], apart(("a", "b")), 2, 4),
        ([1, 1, 1], apart(("a", "b"), ("b", "c")), 3, 2),
        ([1, 1, 1], apart(("a", "b"), ("b", "c"), ("a", "c")), 3, 3),
        ([3, 1], apart(("a", "a")), 4, 3),
        ([3, 3], {CONSTRAINTS: {"a": {"maxNodeCoLocationCnt": 1, "incompatibleComponents": ["b"]}}}, 6, 4),
    ],
)
def test_fewest_workers(parallelism, conf, most, fewest):
    of = constrained(parallelism, 8, **conf)
    assert fewest_workers(of.component_limits[0], np.array(parallelism), most) == fewest


def test_node_admits_component_executors_up_to_its_limit():
    of = constrained([3, 2], 3, **spread(a=2))
    crowd = ComponentCounts.of(of, 0, np.array([0, -1, -1, 1, 0]))
    assert crowd.admits([1]).tolist() == [True, True, True]
    assert crowd.admits([1, 2]).tolist() == [False, True, True]
    crowd.add([1], 0)
    assert crowd.admits([2]).tolist() == [False, True, True]
    assert crowd.admits([3, 4]).all()
    assert ComponentCounts.of(constrained([3, 2], 3), 0, np.zeros(5, np.int64)) is None


def test_running_placement_is_checked_for_separation():
    of = constrained([2, 1], 2, **apart(("a", "b")))
    assert is_separated(running(of, [0, 0, 1]), 0)
    assert not is_separated(running(of, [0, 1, 1]), 0)
    of = constrained([2, 1], 2, **spread(a=1))
    assert is_separated(running(of, [0, 4, 0]), 0)
    assert not is_separated(running(of, [0, 1, 0]), 0)


def partial_placement_of(of: Problem, workers: list[list[int]], on_nodes: list[int], fixed=()) -> PartialPlacement:
    placement = PartialPlacement.empty(of, of.node_usable)
    for number, (executors, node) in enumerate(zip(workers, on_nodes, strict=True)):
        placement.add_worker(0, executors, node, fixed=number in fixed)
    return placement


def test_arrangement_within_limits_is_unchanged():
    of = constrained([2, 2], 2, **apart(("a", "b")))
    placement = partial_placement_of(of, [[0, 1], [2, 3]], [2, 2])
    separate_components(placement)
    assert (placement.worker.tolist(), placement.node, placement.reasons) == ([0, 0, 1, 1], [2, 2], {})


def test_executors_change_workers():
    of = constrained([2, 2], 2, **apart(("a", "b")))
    placement = partial_placement_of(of, [[0, 2], [1, 3]], [0, 0])
    separate_components(placement)
    assert placement.worker[0] == placement.worker[1] != placement.worker[2] == placement.worker[3]
    assert placement.node == [0, 0]


def test_workers_in_conflict_spread_to_other_nodes():
    of = constrained([3], 3, **spread(a=1))
    placement = partial_placement_of(of, [[0], [1], [2]], [1, 1, 1])
    separate_components(placement)
    assert sorted(placement.node) == [0, 1, 2]
    assert placement.worker.tolist() == [0, 1, 2]


def test_fixed_worker_stays_and_others_are_separated():
    of = constrained([3], 3, **spread(a=1))
    placement = partial_placement_of(of, [[0], [1], [2]], [1, 1, 1], fixed={0})
    separate_components(placement)
    assert placement.node[0] == 1
    assert sorted(placement.node[1:]) == [0, 2]


@pytest.mark.parametrize("soft_cpu", [False, True])
def test_cpu_limit_applies_unless_soft(soft_cpu):
    """Both nodes are needed, and the second has room for one of the two executors only if CPU is soft."""
    of = constrained([2], 2, nodes(9.0, 0.1), **spread(a=1))
    placement = partial_placement_of(of, [[0], [1]], [0, 0])
    separate_components(placement, soft_cpu=soft_cpu)
    assert (placement.reasons == {}) == soft_cpu
    if not soft_cpu:
        text = "limits on components do not hold: 2 of 2 executors would be with others that they may not be with"
        assert placement.reasons == {0: (text,)}
        assert placement.worker.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (constrained([4], 4, **spread(a=1)), "4 executors of a, at most 1 a node: 3 usable nodes take 3"),
        (
            constrained([2, 2], 1, **apart(("a", "b"))),
            "components that may not be together need at least 2 workers, 1 wanted",
        ),
    ],
)
@pytest.mark.parametrize("name", ["online", "binpack", "metis", "annealing"])
def test_infeasible_topology_has_counted_reasons(name, of, reason):
    answer = make_scheduler(name).schedule(of)
    assert len(answer.unplaced) == of.num_executors
    assert answer.unplaced[0].reasons == (reason,)


def test_tag_aware_rejects_a_topology_if_its_grouping_breaks_constraints():
    answer = make_scheduler("tag_aware").schedule(constrained([2, 2], 2, **apart(("a", "b"))))
    assert answer.status["t"].startswith("tag_aware: limits on components do not hold: 4 of 4 executors")


def test_lost_executors_return_without_moving_running_ones():
    of = running(constrained([3, 3], 3, **spread(a=1)), [0, -1, 4, 0, 4, -1])
    for name in ("online", "round_robin", "t_storm"):
        slots = make_scheduler(name).schedule(of).slot_of_executor
        assert slots[[0, 2, 3, 4]].tolist() == [0, 4, 0, 4]
        assert slots[1] == slots[5] == 8


def test_search_leaves_constrained_topologies_in_place():
    of = constrained([3, 3], 3, **spread(a=1))
    start = make_scheduler("online").schedule(of).slot_of_executor
    for name in ("annealing", "genetic", "ant_colony"):
        slots = make_scheduler(name).schedule(of).slot_of_executor
        assert violations(of, slots) == []
        assert np.array_equal(slots, start)


def fewest_by_hand(limits: ComponentLimits, executors: np.ndarray, most: int) -> int:
    """Every set of components of which each two may not be together, one after the other."""
    count = len(executors)
    needs = [
        -(-int(n) // (1 if limits.incompatible[c, c] else min(int(limits.most_on_node[c]), most)))
        for c, n in enumerate(executors)
    ]
    sets = (which for which in product([False, True], repeat=count))
    together = [
        sum(needs[c] for c in range(count) if which[c])
        for which in sets
        if all(limits.incompatible[a, b] for a in range(count) for b in range(a) if which[a] and which[b])
    ]
    return max([*together, *needs, 0])


@given(data=st.data(), count=st.integers(1, 6))
def test_fewest_workers_equals_brute_force_result(data, count):
    incompatible = np.zeros((count, count), dtype=bool)
    for a, b in data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)))):
        incompatible[a, b] = incompatible[b, a] = True
    limits = ComponentLimits(np.full(count, NO_LIMIT), incompatible)
    executors = np.array(data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)))
    found, best = fewest_workers(limits, executors, 3), fewest_by_hand(limits, executors, 3)
    assert found <= best, "it is a bound"
    if incompatible.all():
        assert found == executors.sum()


@pytest.mark.long
def test_topology_with_2000_incompatible_components_is_placed_in_seconds():
    components = tuple(Component(f"c{n}", "spout" if n == 0 else "bolt", 1) for n in range(2_000))
    topology = Topology(
        "t",
        "t",
        2_000,
        components,
        default_executor_runs(components),
        conf={"topology.ras.one.executor.per.worker": True},
    )
    of = Problem(nodes(*[1e5] * 250, ports=10), (topology,))
    begin = time.process_time()
    placed = make_scheduler("round_robin").schedule(of)
    assert time.process_time() - begin < 15, "it was a minute"
    assert len(np.unique(placed.slot_of_executor)) == 2_000
    assert not violations(of, placed.slot_of_executor)
