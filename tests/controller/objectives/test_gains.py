"""Gains by hand: traffic between nodes, nodes, CPU of the busiest workers."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.controller.objectives.gains import gain_in
from stormwright.model import UNPLACED
from stormwright.schedulers.toolkit.triggers import BALANCE, NODES, TRAFFIC
from tests.schedulers.builders import load, nodes, problem, running, topology

#: A topology of three executors on two nodes, and one of one; four slots a node.
OF = running(
    problem(
        nodes(9, 9, 9),
        (topology("a", 3, 2), load(3, [(0, 1, 60.0), (1, 2, 40.0)], cpu_ghz=[1.0, 2.0, 3.0])),
        (topology("b", 1, 1), load(1, cpu_ghz=4.0)),
    ),
    [0, 4, 4, 1],
)


@pytest.mark.parametrize(
    ("kind", "slots", "percent", "text"),
    [
        (TRAFFIC, [0, 0, 4, 1], 100 * (1 - 40 / 60), "inter-node traffic 60 → 40 tuples/s"),
        (TRAFFIC, [0, 4, 8, 1], 100 * (1 - 100 / 60), "inter-node traffic 60 → 100 tuples/s"),
        (NODES, [0, 2, 2, 1], 50, "nodes 2 → 1"),
        (NODES, [0, 4, 4, 8], -50, "nodes 2 → 3"),
        # 2 + 3 GHz and 4 GHz become 1 + 2 or 3, and 4.
        (BALANCE, [0, 0, 4, 1], 100 * (1 - 7 / 9), "CPU of the busiest workers 9.00 → 7.00 GHz"),
        (BALANCE, [0, 0, 0, 1], 100 * (1 - 10 / 9), "CPU of the busiest workers 9.00 → 10.00 GHz"),
    ],
)
def test_gains_match_manual_calculation(kind, slots, percent, text):
    gain = gain_in(kind, OF, np.array(slots, np.int32))
    assert gain.percent == pytest.approx(percent)
    assert gain.text == text


def test_gain_of_empty_placement_is_zero():
    nothing = np.full(4, UNPLACED, np.int32)
    idle = OF.with_current({})
    assert [gain_in(kind, idle, nothing).percent for kind in (TRAFFIC, NODES, BALANCE)] == [0, 0, 0]
