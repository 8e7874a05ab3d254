"""What beta and delta say, against the formulas worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from stormwright.optimize.construction.greedy import Bins, Items
from stormwright.schedulers.online import NodeTargets, authors_wishes, default_wishes


def workers(*count: int, cpu_hz: float = 1.0) -> Items:
    """That number of each topology."""
    total = sum(count)
    group = np.repeat(np.arange(len(count)), count)
    return Items(np.full(total, cpu_hz), np.ones(total), csr_array((total, total)), group)


def nodes(*slots: int, cpu_hz: float = 100.0) -> Bins:
    count = len(slots)
    return Bins(np.array(slots, float), np.full(count, cpu_hz), np.full(count, np.inf), np.zeros(count, np.int64))


def test_weights_of_one_produce_no_node_targets():
    assert default_wishes(workers(3, 4), nodes(4, 4), [1.0, 1.0], [1.0, 1.0]) == NodeTargets()


@pytest.mark.parametrize(("beta", "most"), [(0.0, 2), (0.25, 3), (0.5, 4), (0.75, 5)])
def test_from_the_fewest_nodes_with_the_slots_to_all_of_them(beta, most):
    """Six workers: two nodes have four and three slots, five nodes have any."""
    assert default_wishes(workers(6), nodes(2, 4, 1, 0, 3, 1), [beta], [1.0]).most_nodes == {0: most}


def test_the_fewest_nodes_have_the_cpu_as_well():
    assert default_wishes(workers(4, cpu_hz=30.0), nodes(4, 4, 4, cpu_hz=60.0), [0.0], [1.0]).most_nodes == {0: 2}


def test_every_topology_has_its_own():
    wishes = default_wishes(workers(4, 4), nodes(4, 4, 4, 4), [1.0, 0.0], [0.0, 1.0])
    assert (wishes.most_nodes, wishes.on_node) == ({1: 1}, {0: 1})


@pytest.mark.parametrize(("delta", "most"), [(0.0, 2), (0.5, 5), (0.9, 8)])
def test_slots_of_a_node_from_where_equally_many_suffice(delta, most):
    """Seven workers: two slots of each node are six and one, so of four nodes with 8, 3, 2 and 1 all are two each."""
    assert default_wishes(workers(7), nodes(8, 3, 2, 1), [1.0], [delta]).on_node == {0: most}


@pytest.mark.parametrize(
    ("count", "slots", "beta", "delta", "used", "on_node"),
    [
        (4, [4] * 4, 1.0, 0.0, 4, 1),  # n = 4: 1 + 1 (4 - 1)
        (4, [4] * 4, 0.0, 0.0, 1, 4),  # ⌈4/4⌉ = 1
        (4, [4] * 4, 0.5, 0.0, 3, 2),  # 1 + ⌈1.5⌉
        (4, [4] * 4, 0.5, 1.0, 3, 2),  # 4 - 3 + 1
        (12, [4] * 5, 0.0, 0.0, 3, 4),  # n = 5: ⌈12/5⌉
        (12, [4] * 5, 0.0, 0.5, 3, 7),  # 4 + ⌈(10 - 4) / 2⌉
        (12, [4] * 5, 0.0, 1.0, 3, 10),  # 12 - 3 + 1
        (12, [4] * 5, 1.0, 0.0, 5, 3),
        (30, [9] * 5, 0.0, 0.0, 5, 6),  # ⌈30/5⌉ = 6 nodes, and there are 5
        (3, [4, 0, 4], 1.0, 0.0, 2, 2),  # a node without slots is none
        (1, [4], 0.0, 0.0, 1, 1),
    ],
)
def test_the_authors_formulas(count, slots, beta, delta, used, on_node):
    wishes = authors_wishes(workers(count), nodes(*slots), [beta], [delta])
    assert (wishes.least_nodes, wishes.on_node, wishes.most_nodes) == ({0: used}, {0: on_node}, {})
