"""Weights of nodes that an operator sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import load, nodes, problem, topology


def weighted(supervisors, *weights: str):
    return tuple(
        replace(node, scheduler_meta={"stormwright.weight": weight})
        for node, weight in zip(supervisors, weights, strict=True)
    )


@pytest.mark.parametrize("name", ["weighted_round_robin", "min_min", "earliest_available", "nearest_average_load"])
def test_equal_nodes_share_by_their_weights(name):
    of = problem(weighted(nodes(9, 9, ports=8), "3", "1"), (topology("t", 8, 8), load(8)))
    node = of.slot_node[make_scheduler(name).schedule(of).slot_of_executor]
    assert Counter(node.tolist()) == {0: 6, 1: 2}


@pytest.mark.parametrize("name", ["online", "optimizer", "binpack", "metis"])
def test_any_scheduler_gives_a_node_no_more_than_its_part(name):
    settings = {"iterations": 2000} if name == "optimizer" else {}
    of = problem(weighted(nodes(1, 1), "0.3", "1"), (topology("t", 6, 2), load(6)))
    node = of.slot_node[make_scheduler(name, settings).schedule(of).slot_of_executor]
    assert np.count_nonzero(node == 0) <= 3


def test_weights_are_wishes():
    of = problem(weighted(nodes(1, 1), "0", "1"), (topology("t", 2, 2), load(2, cpu_ghz=0.9)))
    assert not make_scheduler("online").schedule(of).unplaced


def test_equal_weights_change_nothing():
    of = problem(nodes(1, 1), (topology("t", 6, 2), load(6)))
    same = replace(of, supervisors=weighted(of.supervisors, "5", "5"))
    slots = [make_scheduler("online").schedule(each).slot_of_executor.tolist() for each in (of, same)]
    assert slots[0] == slots[1]


@pytest.mark.parametrize("weight", ["heavy", "-1", "nan"])
def test_invalid_node_weight_is_rejected(weight):
    of = problem(weighted(nodes(1, 1), weight, "1"), (topology("t", 1, 1), load(1)))
    with pytest.raises(InputError, match="should be a number, at least 0"):
        make_scheduler("even").schedule(of)
