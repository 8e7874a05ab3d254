"""Resources other than CPU and memory, such as GPUs: Storm's own case and answers, and all placements of small ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

from stormwright.explain.obstacles import status_texts
from stormwright.model import UNPLACED, Component, Problem, Supervisor, Topology, default_executor_runs, violations
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.registry import SCHEDULERS
from stormwright.testing import oracles
from stormwright.testing.shared import for_any
from tests.case_files import all_cases, case_problem, placed_in, read_case
from tests.examples import examples
from tests.schedulers.builders import running

GPU = "gpu.count"
CASE = all_cases()["m19-generic-gpu"]


def slots_in_case(name: str) -> np.ndarray:
    """Where Storm's scheduler of that name puts the executors, in the recorded answer."""
    of = case_problem(CASE)
    slots, _ = placed_in(read_case(CASE)["answers"][name], of)
    order = [slot for topology in of.topologies for slot in slots[topology.id]]
    return np.array([UNPLACED if slot is None else of.slot_index[slot] for slot in order], dtype=np.int32)


def test_storm_strategies_unaware_of_generic_resources_violate_them():
    of = case_problem(CASE)

    def lacking(name: str) -> list[str]:
        return [
            str(each)
            for each in violations(of, slots_in_case(name))
            if isinstance(each, ResourceOveruse) and each.resource == GPU
        ]

    assert lacking("RAS-GenericResourceAwareStrategy") == []
    assert lacking("EvenScheduler") == ["node-00000: gpu.count 1 of 0", "node-00002: gpu.count 1 of 0"]


@pytest.mark.parametrize("name", sorted(SCHEDULERS.keys() - {"even"}))
def test_schedulers_place_the_case_that_storms_gras_strategy_places(name):
    of = case_problem(CASE)
    answer = make_scheduler(name).schedule(of)
    assert answer.unplaced == ()
    assert violations(of, answer.slot_of_executor) == []
    assert oracles.is_valid(of, answer.slot_of_executor.tolist())


def clusters(*gpus: float | None, ports: int = 2) -> tuple[Supervisor, ...]:
    """Roomy nodes with that many GPUs; None for one that does not report."""
    return tuple(
        Supervisor(f"s{n}", f"h{n}", tuple(range(ports)), 9e9, resources={} if count is None else {GPU: count})
        for n, count in enumerate(gpus)
    )


def topology(parallelism: list[int], gpus: list[float], workers: int) -> Topology:
    components = tuple(
        Component("abcd"[n], "spout", count, resources={GPU: each} if each else {})
        for n, (count, each) in enumerate(zip(parallelism, gpus, strict=True))
    )
    return Topology("t", "t", workers, components, default_executor_runs(components))


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """So small that all placements can be tried; only GPUs are scarce."""
    parallelism = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda counts: sum(counts) <= 6))
    gpus = draw(st.lists(st.integers(0, 2), min_size=len(parallelism), max_size=len(parallelism)))
    have = draw(st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=3))
    supervisors = clusters(*have, ports=draw(st.integers(1, 2)))
    return Problem(supervisors, (topology(parallelism, [float(n) for n in gpus], draw(st.integers(1, 4))),))


def with_feasibility(of: Problem) -> tuple[Problem, bool]:
    """A problem, and whether any of all placements keeps every limit."""
    every = product(range(len(of.slots)), repeat=of.num_executors)
    return of, any(oracles.is_valid(of, slots) for slots in every)


@pytest.mark.parametrize("name", ["online", "round_robin", "binpack", "offline", "r_storm", "top_storm", "genetic"])
@for_any(
    examples(40),
    known=small_problems().filter(lambda of: len(of.slots) ** of.num_executors <= 5000).map(with_feasibility),
)
def test_topology_is_placed_iff_a_feasible_placement_exists(name, known):
    of, feasible = known
    answer = make_scheduler(name).schedule(of)
    assert (not answer.unplaced) == feasible
    assert answer.unplaced or oracles.is_valid(of, answer.slot_of_executor.tolist())


def test_reasons_are_counted():
    of = Problem(clusters(1.0, 1.0, None), (topology([3, 1], [1.0, 0.0], 2),))
    answer = make_scheduler("online").schedule(of)
    assert answer.status == {"t": "online: gpu.count short by 1 on 3 usable nodes together"}
    counted = "a: 1 of 3 nodes: gpu.count short by 1; 2 of 3: could take each one alone"
    assert status_texts(of, answer, ["t"])["t"].endswith(counted)
    of = Problem(clusters(1.0, 1.0, 0.0), (topology([1], [2.0], 1),))
    answer = make_scheduler("spread").schedule(of)
    assert answer.status == {"t": "spread: one executor asks for 2 of gpu.count, the largest usable node has 1"}


def test_topology_wide_generic_resource_request_applies():
    conf = {"topology.component.resources.map": {GPU: 1.0}}
    of = Problem(clusters(1.0, 2.0), (topology([3], [0.0], 2),), conf=conf)
    slots = make_scheduler("online").schedule(of).slot_of_executor
    assert np.bincount(of.slot_node[slots]).tolist() == [1, 2]


def test_overloaded_node_accepts_topology_without_generic_requests():
    greedy, modest = topology([2], [2.0], 1), replace(topology([1], [0.0], 1), id="u", name="u")
    of = running(Problem(clusters(1.0), (greedy, modest)), [0, 0, UNPLACED])
    for name in ("spread", "online"):
        assert make_scheduler(name).schedule(of).slot_of_executor.tolist() == [0, 0, 1]
