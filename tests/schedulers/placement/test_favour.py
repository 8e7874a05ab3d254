"""Favoured and unfavoured hosts: first and last to r_storm, a tie-break to others, and never a limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import Problem
from stormwright.model.problem import CHECKED
from stormwright.model.topology_config import FAVOURED_HOSTS, UNFAVOURED_HOSTS
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.placement.favoured_hosts import favour, most_favoured
from tests.schedulers.builders import load, nodes, problem, topology


def wishing(supervisors, executors: int, workers: int, favoured=(), unfavoured=(), **demand) -> Problem:
    conf = {FAVOURED_HOSTS: list(favoured), UNFAVOURED_HOSTS: list(unfavoured)}
    return problem(supervisors, (topology("t", executors, workers, **conf), load(executors, **demand)))


def used(of: Problem, name: str, **settings) -> list[int]:
    """Executors on every node."""
    slots = make_scheduler(name, settings).schedule(of).slot_of_executor
    return np.bincount(of.slot_node[slots], minlength=len(of.supervisors)).tolist()


def test_node_preferences_of_a_topology_map_to_favor_levels():
    three = nodes(9.0, 9.0, 9.0)
    assert favour(wishing(three, 1, 1), 0) is None
    assert favour(wishing(three, 1, 1, ["h2", "gone"], ["h0", "h2"]), 0).tolist() == [2, 1, 0]
    unchecked = replace(
        wishing(three, 1, 1), topologies=(topology("t", 1, 1, **{FAVOURED_HOSTS: "h1"}),), parts=CHECKED
    )
    assert favour(unchecked, 0) is None, "no list"


@pytest.mark.parametrize(
    ("nodes_", "rank", "best"),
    [
        ([1, 1, 1], [2, 1, 1], [0, 1, 1]),
        ([1, 0, 0], [2, 1, 1], [1, 0, 0]),
        ([0, 0, 0], [2, 1, 1], [0, 0, 0]),
        ([1, 1, 0], None, [1, 1, 0]),
    ],
)
def test_the_best_liked_of_some_nodes(nodes_, rank, best):
    found = most_favoured(np.array(nodes_, bool), None if rank is None else np.array(rank))
    assert found.tolist() == [bool(node) for node in best]


def test_r_storm_takes_favored_nodes_first_and_unfavored_ones_last():
    """Without wishes it takes the largest node; with them one that has far less to offer."""
    unequal = nodes(9.0, 1.0, 2.0)
    assert used(wishing(unequal, 4, 1), "r_storm") == [4, 0, 0]
    assert used(wishing(unequal, 4, 1, ["h1"]), "r_storm") == [0, 4, 0]
    assert used(wishing(unequal, 4, 1, unfavoured=["h0", "h1"]), "r_storm") == [0, 0, 4]


def test_a_wish_leaves_nothing_out():
    of = wishing(nodes(9.0, 0.2), 4, 2, ["h1"], ["h0"])
    assert used(of, "r_storm", soft_cpu=False) == [2, 2]
    assert used(wishing(nodes(9.0), 4, 2, unfavoured=["h0"]), "r_storm") == [4]


@pytest.mark.parametrize("name", ["least_executors", "binpack", "metis"])
def test_ties_go_to_favoured_nodes(name):
    alike = nodes(9.0, 9.0, 9.0)
    assert used(wishing(alike, 1, 1), name) == [1, 0, 0]
    assert used(wishing(alike, 1, 1, ["h2"]), name) == [0, 0, 1]
    assert used(wishing(alike, 1, 1, unfavoured=["h0"]), name) == [0, 1, 0]


def test_score_difference_takes_precedence_over_node_preference():
    assert used(wishing(nodes(9.0, 9.0), 4, 2, ["h1"]), "least_executors") == [2, 2]
