"""How busy nodes are, against loops over names."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model import UNPLACED
from stormwright.schedulers.templates.utilisation import Utilisation
from tests.schedulers.builders import load, nodes, problem, topology
from tests.schedulers.search_problems import busy_parts, tiny

HOP_CYCLES = 3e6


@pytest.mark.parametrize("passed_on", ["workers", "nodes"])
@pytest.mark.parametrize("seed", range(5))
def test_many_placements_at_once(seed, passed_on):
    of = tiny(seed)
    slots = np.random.default_rng(seed).integers(len(of.slots), size=(7, of.num_executors))
    node = of.slot_node[slots]
    busy, _ = Utilisation(of, HOP_CYCLES).of(slots if passed_on == "workers" else node, node)
    expected = [list(busy_parts(of, row, HOP_CYCLES, passed_on).values()) for row in slots.tolist()]
    assert busy == pytest.approx(np.array(expected))


def test_traffic_between_nodes():
    """Of 5 + 3 + 2 tuples/s, 3 stay on their node and 2 go to an executor without one."""
    of = problem(nodes(1, 1), (topology("t", 4, 2), load(4, [(0, 1, 5), (1, 2, 3), (2, 3, 2)])))
    node = np.array([[0, 1, 1, UNPLACED]])
    busy, between = Utilisation(of, 0.0).of(node, node)
    assert between.tolist() == [5.0]
    assert busy.tolist() == [pytest.approx([0.1, 0.2])]
