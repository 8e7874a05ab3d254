"""The generic schedulers, each against an answer worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.model import UNPLACED, Problem, Supervisor
from stormwright.model.problem import CHECKED
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import load, nodes, problem, running, topology

WAITS = UNPLACED


def node_of(name: str, of: Problem, **settings: object) -> list[int]:
    """Node of every executor."""
    answer = make_scheduler(name, settings).schedule(of)
    assert not answer.unplaced
    return of.slot_node[answer.slot_of_executor].tolist()


def with_meta(supervisors: tuple[Supervisor, ...], key: str, *values: str) -> tuple[Supervisor, ...]:
    return tuple(replace(s, scheduler_meta={key: value}) for s, value in zip(supervisors, values, strict=True))


def test_round_robin_nodes_take_turns():
    of = problem(nodes(1, 1, 1), (topology("t", 6, 6), load(6)))
    assert node_of("round_robin", of) == [0, 1, 2, 0, 1, 2]


def test_round_robin_executors_take_turns_among_workers():
    of = problem(nodes(1, 1, 1), (topology("t", 5, 2), load(5)))
    assert node_of("round_robin", of) == [0, 1, 0, 1, 0]


def test_round_robin_continues_across_topologies():
    of = problem(nodes(1, 1, 1), (topology("a", 2, 2), load(2)), (topology("b", 2, 2), load(2)))
    assert node_of("round_robin", of) == [0, 1, 2, 0]


def test_round_robin_passes_over_a_node_without_room():
    of = problem(nodes(1, 0.05, 1), (topology("t", 4, 4), load(4)))
    assert node_of("round_robin", of) == [0, 2, 0, 2]


def test_weighted_round_robin_reproduces_the_published_nginx_sequence():
    """Weights 5, 1, 1: a a b a c a a, in the message of the change that brought the rule."""
    of = problem(nodes(5, 1, 1, ports=7), (topology("t", 7, 7), load(7)))
    assert node_of("weighted_round_robin", of) == [0, 0, 1, 0, 2, 0, 0]


def test_dynamic_weighted_round_robin_weighs_by_free_capacity():
    """4 GHz each, 3 of them used on the first: weights 1 and 4, so one turn in five, the middle one."""
    old, new = (topology("old", 1, 1), load(1, cpu_ghz=3.0)), (topology("new", 5, 5), load(5, cpu_ghz=0.0))
    of = running(problem(nodes(4, 4, ports=6), old, new), [0, *[WAITS] * 5])
    assert node_of("dynamic_weighted_round_robin", of) == [0, 1, 1, 0, 1, 1]


def test_dynamic_weighted_round_robin_updates_weights_after_each_placement():
    """Gains before each turn: (2, 2), (-.5, 4), (1, 2), (2.5, 0)."""
    of = problem(nodes(2, 2), (topology("t", 4, 4), load(4, cpu_ghz=0.5)))
    assert node_of("dynamic_weighted_round_robin", of) == [0, 1, 1, 0]


def test_random_selects_each_node_equally_often():
    """400 draws among 4: 100 each, give or take five standard deviations of 8.7."""
    of = problem(nodes(50, 50, 50, 50, ports=400, memory_mb=1e6), (topology("t", 400, 400), load(400)))
    counts = np.bincount(node_of("random", of), minlength=4)
    assert counts.sum() == 400
    assert np.all(np.abs(counts - 100) < 44)


def test_random_depends_on_the_seed_alone():
    of = problem(nodes(9, 9, 9), (topology("t", 20, 9), load(20)))
    assert node_of("random", of, seed=1) == node_of("random", of, seed=1) != node_of("random", of, seed=2)


def test_least_executors():
    """Two, one and none run; ties go to the lower node."""
    old, new = (topology("old", 3, 2), load(3)), (topology("new", 4, 3), load(4))
    of = running(problem(nodes(9, 9, 9), old, new), [0, 0, 4, *[WAITS] * 4])
    assert node_of("least_executors", of)[3:] == [2, 1, 2, 0]


def test_nearest_average_load():
    """Loads of 0.5, 0.3 and 0, mean 0.27; with 0.1 more: 0.6, 0.4 and 0.1. The second is nearest, not the emptiest."""
    old, new = (topology("old", 2, 2), load(2, cpu_ghz=np.array([5.0, 3.0]))), (topology("n", 1, 1), load(1, cpu_ghz=1))
    of = running(problem(nodes(10, 10, 10), old, new), [0, 4, WAITS])
    assert node_of("nearest_average_load", of)[2] == 1


def test_spread_prefers_other_hosts_then_other_racks():
    """Two supervisors of one host, then a host in the same rack and one in another."""
    hosts, racks = ["h0", "h0", "h1", "h2"], ["a", "a", "a", "b"]
    supervisors = tuple(
        replace(node, host=host, rack=rack) for node, host, rack in zip(nodes(9, 9, 9, 9), hosts, racks, strict=True)
    )
    of = problem(supervisors, (topology("t", 4, 4), load(4)))
    assert node_of("spread", of) == [0, 3, 2, 3]


def test_spread_includes_running_executors():
    of = problem(nodes(9, 9, 9), (topology("t", 3, 3), load(3)))
    assert node_of("spread", running(of, [4, WAITS, WAITS])) == [1, 0, 2]


def test_binpack_selects_the_fullest_node_with_room():
    """The second is half full and takes one; the others do not fit there and share the next."""
    old, new = (topology("old", 1, 1), load(1, cpu_ghz=0.5)), (topology("new", 3, 2), load(3, cpu_ghz=0.3))
    of = running(problem(nodes(2, 1, 2), old, new), [4, *[WAITS] * 3])
    assert node_of("binpack", of)[1:] == [1, 0, 0]


def test_binpack_counts_memory_as_well():
    """By CPU the first is fuller (a tenth), by memory the second (half)."""
    old = topology("old", 2, 2), load(2, cpu_ghz=np.array([0.1, 0.0]), memory_mb=np.array([0.0, 500.0]))
    of = running(problem(nodes(1, 1, memory_mb=1000.0), old, (topology("new", 1, 1), load(1))), [0, 4, WAITS])
    assert node_of("binpack", of)[2] == 1


def test_cost_aware_fills_the_cheapest_before_the_next():
    supervisors = with_meta(nodes(1, 1, 1), "price.per.hour", "3", "1", "2.5")
    of = problem(supervisors, (topology("t", 3, 2), load(3, cpu_ghz=0.5)))
    assert node_of("cost_aware", of) == [1, 1, 2]


def test_cost_aware_prefers_nodes_already_in_use():
    supervisors = with_meta(nodes(1, 1, 1), "price.per.hour", "3", "1", "2.5")
    of = problem(supervisors, (topology("old", 1, 1), load(1)), (topology("new", 1, 1), load(1)))
    assert node_of("cost_aware", running(of, [0, WAITS])) == [0, 0]


def test_cost_aware_without_prices_counts_cores():
    """9, 3 and 6 GHz are 3, 1 and 2 cores."""
    of = problem(nodes(9, 3, 6), (topology("t", 1, 1), load(1)))
    assert node_of("cost_aware", of) == [1]


def test_cost_aware_names_all_bad_prices():
    supervisors = with_meta(nodes(1, 1, 1), "price.per.hour", "3", "free", "-1")
    with pytest.raises(InputError) as error:
        make_scheduler("cost_aware").schedule(problem(supervisors, (topology("t", 1, 1), load(1))))
    assert [fault.path for fault in error.value.faults] == [
        '$.supervisors[1].scheduler_meta["price.per.hour"]',
        '$.supervisors[2].scheduler_meta["price.per.hour"]',
    ]


@pytest.mark.parametrize(("growth", "node"), [(1, 0), (4, 1)])
def test_predictive_uses_the_forecast_load(growth, node):
    """0.5 GHz now against 1; with fourfold growth 2 against 1."""
    growing = topology("a", 1, 1, **{"stormwright.forecast.growth": growth}), load(1, cpu_ghz=0.5)
    steady, new = (topology("b", 1, 1), load(1, cpu_ghz=1.0)), (topology("c", 1, 1), load(1))
    assert node_of("predictive", running(problem(nodes(9, 9), growing, steady, new), [0, 4, WAITS]))[2] == node


def test_explicit_forecast_overrides_growth_factor():
    """Half a GHz now, 0.7 soon; growth would say 2. Beside it 1 GHz."""
    growing = topology("a", 1, 1, **{"stormwright.forecast.growth": 4}), load(1, cpu_ghz=0.5)
    steady, new = (topology("b", 1, 1), load(1, cpu_ghz=1.0)), (topology("c", 1, 1), load(1))
    assert node_of("predictive", running(problem(nodes(9, 9), growing, steady, new), [0, 4, WAITS]))[2] == 1
    foreseen = growing[0], replace(growing[1], forecast_cpu_hz=np.array([0.7e9]))
    assert node_of("predictive", running(problem(nodes(9, 9), foreseen, steady, new), [0, 4, WAITS]))[2] == 0


def test_predictive_counts_its_own_placements():
    """Forecasts of 0.4 each: they take turns though the nodes' speeds differ only a little."""
    of = problem(nodes(10, 9), (topology("t", 4, 2, **{"stormwright.forecast.growth": 4}), load(4)))
    assert node_of("predictive", of) == [0, 1, 0, 1]


@pytest.mark.parametrize("growth", ["fast", -1, True, float("nan")])
def test_predictive_names_a_bad_growth(growth):
    of = problem(nodes(1), (topology("t", 1, 1, **{"stormwright.forecast.growth": growth}), load(1)), parts=CHECKED)
    with pytest.raises(InputError, match=r"should be a number, at least 0, got .* @ \$\.topologies\[0\]\.conf"):
        make_scheduler("predictive").schedule(of)


GENERIC = (
    "binpack",
    "cost_aware",
    "dynamic_weighted_round_robin",
    "least_executors",
    "nearest_average_load",
    "predictive",
    "random",
    "round_robin",
    "spread",
    "weighted_round_robin",
)


@pytest.mark.parametrize("name", GENERIC)
def test_nodes_without_declared_capacity_are_usable(name):
    """Infinite CPU and memory are no fault."""
    supervisors = tuple(Supervisor(f"s{n}", f"h{n}", (6700, 6701), np.inf) for n in range(2))
    assert len(node_of(name, problem(supervisors, (topology("t", 4, 2), load(4))))) == 4


@pytest.mark.parametrize("name", GENERIC)
def test_unplaced_executors_have_reasons(name):
    of = problem(nodes(1, 1), (topology("t", 3, 3), load(3, cpu_ghz=0.6)))
    answer = make_scheduler(name).schedule(of)
    assert answer.unplaced[0].reasons == ("2 of 2 nodes: room for its largest worker, but not for all 3 together",)


@pytest.mark.parametrize("name", GENERIC)
def test_priority_order_determines_placed_topologies(name):
    low = topology("low", 2, 2, **{"topology.priority": 20}), load(2, cpu_ghz=0.9)
    high = topology("high", 2, 2, **{"topology.priority": 1}), load(2, cpu_ghz=0.9)
    answer = make_scheduler(name, {"order": "priority"}).schedule(problem(nodes(1, 1), low, high))
    assert {executor.topology for executor in answer.unplaced} == {"low"}


@pytest.mark.parametrize("priority", ["high", None, -1, True, 2.7])
def test_invalid_priority_is_rejected_only_by_priority_order(priority):
    of = problem(nodes(1), (topology("t", 1, 1, **{"topology.priority": priority}), load(1)), parts=CHECKED)
    assert node_of("binpack", of) == [0]
    with pytest.raises(InputError, match=r'an integer of at least 0, got .* @ \$\.topologies\[0\]\.conf\["topology'):
        make_scheduler("binpack", {"order": "priority"}).schedule(of)
