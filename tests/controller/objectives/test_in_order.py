"""Several goals: a later one takes nothing from an earlier one."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.controller.objectives.gains import inter_node_tps, nodes_used
from stormwright.controller.objectives.objective import GIVEN_UP_PERCENT, LexicographicObjective
from stormwright.controller.objectives.outlook import Outlooks
from stormwright.model import Assignment, LoadProfile, Problem, cost_of
from stormwright.model.load import assumed_load
from stormwright.schedulers import make_scheduler
from tests.controller.builders import on, problem, topology

A, B = topology("a", workers=2), topology("b", workers=2)


def spread() -> Problem:
    """Two topologies on two nodes each; all of it would fit on one."""
    load = LoadProfile({t.id: assumed_load(t, 1e9) for t in (A, B)}, start_ms=0, end_ms=1000)
    return problem([A, B], nodes=4, slots=4, current={A.id: on("n0", "n1"), B.id: on("n2", "n3")}, load=load)


class PresetScheduler:
    """Returns preset answers, and records the questions."""

    def __init__(self, slots: list[int]) -> None:
        self._slots, self.problems = np.array(slots, dtype=np.int32), list[Problem]()

    def schedule(self, problem: Problem) -> Assignment:
        self.problems.append(problem)
        return Assignment(self._slots)


APART, TOGETHER, SPLIT = [0] * 4 + [4] * 4, [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 4, 4, 5, 5]


def test_later_objective_applies_when_earlier_ones_lose_nothing() -> None:
    schedulers = {"traffic": PresetScheduler(APART), "nodes": PresetScheduler(TOGETHER)}
    answer = LexicographicObjective(("traffic", "nodes"), schedulers.__getitem__).schedule(spread())
    assert answer.slot_of_executor.tolist() == TOGETHER, "as little traffic, and one node less"


def test_placement_harming_earlier_objective_is_rejected() -> None:
    crossing = [0, 0, 4, 4, 0, 0, 4, 4]
    schedulers = {"traffic": PresetScheduler(TOGETHER), "throughput": PresetScheduler(crossing)}
    answer = LexicographicObjective(("traffic", "throughput"), schedulers.__getitem__).schedule(spread())
    assert answer.slot_of_executor.tolist() == TOGETHER


def test_later_objective_starts_from_earlier_result_and_its_nodes() -> None:
    schedulers = {"nodes": PresetScheduler(TOGETHER), "throughput": PresetScheduler(SPLIT)}
    now = spread()
    answer = LexicographicObjective(("nodes", "throughput"), schedulers.__getitem__).schedule(now)
    (received,) = schedulers["throughput"].problems
    assert received.current_slot.tolist() == TOGETHER
    assert received.measured_slot.tolist() == now.current_slot.tolist(), "the load is as it was measured"
    assert received.node_usable.tolist() == [True, False, False, False]
    assert answer.slot_of_executor.tolist() == TOGETHER, "two nodes are not one"


@pytest.mark.long
@pytest.mark.parametrize("goals", [("nodes", "throughput"), ("throughput", "nodes"), ("latency", "nodes", "traffic")])
def test_optimizer_with_several_objectives_matches_single_first_objective(goals: tuple[str, ...]) -> None:
    now = spread()

    def optimizer(goal: str):
        return make_scheduler("optimizer", ("iterations=2000",), objective=goal)

    alone, both = optimizer(goals[0]).schedule(now), LexicographicObjective(goals, optimizer).schedule(now)
    gains = [Outlooks(now, goals[0]).of(each.slot_of_executor).gain_percent for each in (alone, both)]
    assert gains[1] >= gains[0] - GIVEN_UP_PERCENT
    if goals[-1] == "nodes":
        assert nodes_used(now, both.slot_of_executor) <= nodes_used(now, alone.slot_of_executor)
    if goals[-1] == "traffic":
        tps = [inter_node_tps(cost_of(now, each.slot_of_executor)) for each in (alone, both)]
        assert tps[1] <= tps[0]
