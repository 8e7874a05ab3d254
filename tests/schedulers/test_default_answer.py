"""The default answer where no load was measured: public questions, random topologies, and limits that it keeps.

Reachable rates are those of `stormwright predict`, which the scheduler does not compute itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stormwright as sw
from benchmarks.schedulers.default_answer import CASES, drawn, imported
from stormwright.model import UNPLACED, Problem, violations
from stormwright.model.constraints.violations import broken_limits, other_worker_counts
from stormwright.schedulers import make_scheduler
from tests.case_files import case_name, case_problem, small_cases
from tests.schedulers.builders import load, nodes, problem, topology

CRAWLER, SMALL = (("01-default-answer-not-sustained", name) for name in ("crawler", "small"))
TWO, ISOLATED = ("02-whatif-same-parallelism", "two"), ("18-isolation-uses-one-machine", "topo1")


def public(case: tuple[str, str], supervisors: int, cluster: str = "") -> Problem:
    directory = CASES / case[0] / "input"
    return imported(directory / f"{case[1]}.yaml", directory / cluster if cluster else None, supervisors)


def reached(of: Problem, placement: sw.Assignment) -> float:
    """The smallest factor by which a rate can grow."""
    return min(one.reachable_tps.value / one.measured_tps for one in sw.predict(of, placement).topologies)


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "supervisors", "trees_tps"), [(CRAWLER, 4, 23.1), (SMALL, 2, 19.9), (TWO, 2, 19.9)], ids=lambda each: each
)
def test_public_topologies_reach_what_even_reaches(case, supervisors, trees_tps):
    of = public(case, supervisors)
    found = sw.place(of)
    (one,) = sw.predict(of, found).topologies
    assert one.reachable_tps.value >= trees_tps
    assert one.sustained == "yes"
    assert violations(of, found.slot_of_executor) == []


@pytest.mark.long
def test_isolated_topology_uses_all_its_machines():
    """As Storm's IsolationScheduler divides the workers: two on each of the two machines."""
    of = public(ISOLATED, 4, "storm.yaml")
    slots = np.unique(sw.place(of).slot_of_executor)
    assert sorted(np.bincount(of.slot_node[slots]).tolist(), reverse=True)[:2] == [2, 2]
    assert len(slots) == 4
    found = sw.compare(of, "online,r_storm,optimizer")
    assert found.best is not None
    assert found.best.name == "optimizer"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_default_answer_is_never_below_even_on_random_topologies(seed):
    of = drawn(7_000_000 + seed)
    found, even = sw.place(of), make_scheduler("even").schedule(of)
    assert violations(of, found.slot_of_executor) == []
    if not broken_limits(of, even.slot_of_executor):
        assert reached(of, found) >= reached(of, even) * (1 - 1e-3)


@pytest.mark.slow
def test_a_running_placement_that_does_not_sustain_the_rates_is_left_for_one_that_reaches_what_even_reaches():
    of = public(CRAWLER, 4)
    runs = of.with_current(sw.place(of, objective="traffic").by_topology(of))
    even = make_scheduler("even").schedule(of)
    assert reached(runs, sw.place(runs)) >= reached(runs, even) * (1 - 1e-3)
    settled = of.with_current(sw.place(runs).by_topology(of))
    assert np.array_equal(sw.place(settled).slot_of_executor, settled.current_slot), "a good placement stays"


@pytest.mark.long
@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_default_answer_keeps_limits_and_reaches_more_than_the_one_by_traffic(path):
    of = case_problem(path)
    found, by_traffic = sw.place(of), sw.place(of, objective="traffic")
    assert found.parameters["objective"] == "throughput"
    assert violations(of, found.slot_of_executor) == []
    assert reached(of, found) >= reached(of, by_traffic) * (1 - 1e-3)


@pytest.mark.slow
def test_numbers_of_workers_are_as_requested_unless_a_service_measured_the_load():
    of = public(CRAWLER, 4)
    assert len(np.unique(sw.place(of).slot_of_executor)) == 8
    (free,) = other_worker_counts(of, sw.place(of, workers="free").slot_of_executor)
    assert free.workers < free.wanted == 8


def test_cpu_stays_a_limit_if_no_service_measured_the_load():
    """Room for three of four topologies: of each, four executors of 1 GHz."""
    of = problem(nodes(4, 4, 4), *((topology(f"t{k}", 4, 1), load(4, [(0, 1, 5)], cpu_ghz=1)) for k in range(4)))
    answer = sw.place(of)
    assert broken_limits(of, answer.slot_of_executor) == []
    assert len(answer.status) == 1


def test_topologies_without_any_traffic_are_placed_by_traffic():
    of = problem(nodes(4, 4), (topology("t", 4, 2), load(4)))
    assert sw.place(of).parameters["objective"] == "traffic"


@pytest.mark.slow
def test_prices_and_limits_of_moves_decide_by_traffic():
    of = public(TWO, 2)
    for settings in ({"max_moves": 3}, {"node_price": 1.0}, {"bound": True}):
        assert sw.place(of, **settings).parameters["objective"] == "traffic"


def test_nothing_is_searched_if_nothing_known_limits_the_rates():
    of = problem(nodes(4, 4), (topology("t", 4, 2), load(4, [(0, 1, 5)], cpu_ghz=0.0)))
    found = sw.place(replace(of, supervisors=of.supervisors))
    assert np.all(found.slot_of_executor != UNPLACED)
    assert found.throughput is not None
    assert found.throughput.factor > 1e6


@pytest.mark.long
def test_a_placement_that_does_not_sustain_the_rates_is_marked():
    of = public(CRAWLER, 4)
    slow = sw.place(of, objective="traffic")
    assert slow.throughput is not None
    assert slow.throughput.factor == pytest.approx(reached(of, slow))
    assert not slow.throughput.is_sustained
    assert "not sustained: crawler-1-0 can reach 3.85 of the assumed 10 trees/s" in slow.summary()
    good = sw.place(of)
    assert good.throughput is not None
    assert good.throughput.is_sustained
    assert "not sustained" not in good.summary()
