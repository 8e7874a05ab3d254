"""The order in which topologies that wait are served: against Storm's own answers, and by hand."""

from __future__ import annotations

from dataclasses import replace
from timeit import timeit

import pytest

from stormwright.errors import InputError
from stormwright.model import UNPLACED, Problem
from stormwright.model.problem import CHECKED
from stormwright.model.tenancy_config import POOLS, USERS
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.queue_order import in_order
from tests.case_files import all_cases, case_problem, placed_in, read_case
from tests.schedulers.builders import load, nodes, problem, running, topology

CASE = all_cases()["m23-oversubscribed-users"]


def of_users(*entries: tuple[str, float, dict], **more) -> Problem:
    """A topology of one executor for each user, CPU in GHz and configuration, in that order, on a roomy node."""
    placed = [
        (replace(topology(f"t{n}", 1, 1, **conf), owner=user, launch_time=100 - n), load(1, cpu_ghz=ghz))
        for n, (user, ghz, conf) in enumerate(entries)
    ]
    return problem(nodes(30.0, ports=20), *placed, **more)


def queue(of: Problem, order: str) -> list[int]:
    return in_order(of, range(len(of.topologies)), order)


@pytest.mark.parametrize("name", ["online", "optimizer", "binpack", "max_min"])
def test_pools_reject_the_same_topologies_as_storms_ras(name):
    """Three users, two with a pool; four of six topologies fit."""
    of = case_problem(CASE)
    _, theirs = placed_in(read_case(CASE)["answers"]["RAS-DefaultResourceAwareStrategy"], of)
    settings = {"iterations": 2000} if name == "optimizer" else {}
    answer = make_scheduler(name, {"order": "pools", **settings}).schedule(of)
    assert {executor.topology for executor in answer.unplaced} == set(theirs) == {"t4-4-1600000000", "t5-5-1600000000"}
    as_given = make_scheduler(name, settings).schedule(of)
    assert {executor.topology for executor in as_given.unplaced} != set(theirs)


def test_priority_is_storms():
    of = of_users(("a", 1, {}), ("a", 1, {"topology.priority": 5}), ("a", 1, {"topology.priority": 28}))
    assert queue(of, "priority") == [1, 2, 0]
    assert queue(of, "given") == [0, 1, 2]
    assert queue(of, "first_come") == [2, 1, 0]


def test_shortest_first_by_weight_is_the_rule_of_smith():
    """The published rule: p/w rising minimises the weighted sum of ends; all orders of four jobs tried."""
    from itertools import permutations

    jobs = [(3.0, 1), (1.0, 1), (4.0, 8), (2.0, 1)]
    of = of_users(*(("a", ghz, {"stormwright.weight": weight}) for ghz, weight in jobs))

    def weighted_ends(order) -> float:
        end, total = 0.0, 0.0
        for index in order:
            end += jobs[index][0]
            total += jobs[index][1] * end
        return total

    assert weighted_ends(queue(of, "shortest_first")) == min(map(weighted_ends, permutations(range(4))))


def test_fair_share_serves_the_user_with_least_usage_first():
    of = of_users(("a", 2, {}), ("a", 2, {}), ("b", 1, {}), ("b", 1, {}), ("b", 1, {}))
    assert queue(of, "fair_share") == [0, 2, 3, 1, 4]
    runs = running(of, [0, *[UNPLACED] * 4])
    assert in_order(runs, [1, 2, 3, 4], "fair_share") == [2, 3, 1, 4]


def test_fair_share_serves_the_most_urgent_of_a_user():
    of = of_users(("a", 1, {}), ("a", 1, {"topology.priority": 0}), ("b", 1, {}))
    assert queue(of, "fair_share") == [1, 2, 0]


def test_fair_shares_are_by_weights_of_users_and_of_topologies():
    """Of equal topologies the user with weight 3 gets three for one."""
    entries = [("a", 1, {})] * 6 + [("b", 1, {})] * 2
    of = replace(of_users(*entries), conf={USERS: {"a": {"weight": 3}}})
    users = [of.topologies[index].owner for index in queue(of, "fair_share")]
    assert users[:4].count("a") == users[4:].count("a") == 3
    light = of_users(*[("a", 1, {"stormwright.weight": 3})] * 6, *[("b", 1, {})] * 2)
    assert [light.topologies[index].owner for index in queue(light, "fair_share")][:4].count("a") == 3


@pytest.mark.parametrize("order", ["shortest_first", "fair_share"])
def test_invalid_weight_is_rejected_by_orders_using_it(order):
    of = of_users(("a", 1, {"stormwright.weight": "heavy"}), parts=CHECKED)
    with pytest.raises(InputError, match="a number above 0"):
        make_scheduler("online", {"order": order}).schedule(of)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("stormwright.order", "fast", "should be one of given"),
        ("stormwright.backfill", 1, "should be true or false"),
        (USERS, ["a"], "should be an object of users"),
        (USERS, {"a": 3}, "should be an object with some of executors, slots, cpu, memory, weight"),
        (USERS, {"a": {"slots": -1}}, "should be a number, at least 0"),
        (USERS, {"a": {"slots": True}}, "should be a number, at least 0"),
        (USERS, {"a": {"gpus": 1}}, "unknown key"),
        (USERS, {"a": {"weight": 0}}, "should be a number above 0"),
    ],
)
def test_cluster_configuration_of_users_and_pools_is_validated(key, value, expected):
    with pytest.raises(InputError, match=expected):
        problem(nodes(1.0), conf={key: value})


def test_invalid_pools_are_ignored():
    of = of_users(("a", 1, {}), ("b", 1, {}), conf={POOLS: {"b": {"cpu": 100, "memory": 4000}, "a": "all"}})
    assert queue(of, "pools") == [1, 0]


@pytest.mark.long
@pytest.mark.parametrize("order", ["fair_share", "pools"])
def test_an_order_by_users_takes_no_time_in_users_squared(order):
    """Nimbus waits 1.5 s: 2,000 topologies of as many users took 2.4 s by fair shares and 43 s by pools."""
    of = of_users(*((f"u{n}", 0.001 * (n % 7), {}) for n in range(2000)))
    assert sorted(queue(of, order)) == list(range(2000))
    assert timeit(lambda: queue(of, order), number=1) < 1.0
