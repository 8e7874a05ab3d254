"""What a placement is worth beside the one that runs: the same as predictions of both say."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from stormwright.controller.objectives.objective import PlacementAim
from stormwright.controller.objectives.outlook import BALANCED, LATENCY, NODES, THROUGHPUT, TRAFFIC, Outlooks
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.policy import DecisionTimes, decide
from stormwright.controller.requests import NoPlan
from stormwright.model import Assignment, LoadProfile, Problem, cost_of
from stormwright.model.humanize import readable
from stormwright.model.requests import CPU
from stormwright.model.topology_config import WEIGHT
from stormwright.plans.plan import Plan
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile
from stormwright.predict.gain import RateGain, rate_gain
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.testing.word_counts import WordCount, two_word_counts
from tests.controller.builders import searched

APART = np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0], np.int32)
TOGETHER = np.zeros(12, np.int32)

NODE_FULL = WordCount(cores=0.1)

#: Messages cost next to nothing: then three nodes do more than one.
CHEAP = Assumptions(
    Costs(serialise_us=0, serialise_us_per_kb=0, send_us=0, send_us_per_kb=0, receive_us=0, receive_us_per_kb=0)
)


#: Messages and workers that take more than by default.
DEAR = Costs(
    serialise_us=2.5, serialise_us_per_kb=1.0, send_us=2.5, send_us_per_kb=0.5, receive_us=4.0, receive_us_per_kb=1.5,
    worker_cores=0.02, overhead_bytes=30.0,
)  # fmt: skip


def running(word_count: WordCount, slots: np.ndarray) -> Problem:
    """With its load as measured in that place."""
    problem = word_count.problem()
    return problem.with_current(Assignment(slots).by_topology(problem))


@pytest.fixture
def apart() -> Problem:
    return running(NODE_FULL, APART)


@pytest.mark.long
def test_throughput_objective_uses_predicted_throughput() -> None:
    apart = running(replace(NODE_FULL, rate_tps=8_000.0), APART)
    outlook = Outlooks(apart, THROUGHPUT).of(TOGETHER)
    now, new = (predict(apart, slots).topologies[0] for slots in (APART, TOGETHER))
    assert outlook.worth == {now.topology: new.reachable_tps.value}
    gain = rate_gain(now, new)
    assert 1 < gain.value < new.reachable_tps.value / now.reachable_tps.value, "the best of many is partly chance"
    assert outlook.gain_percent == pytest.approx(100 * (gain.value - 1))
    assert outlook.at_least_percent == pytest.approx(100 * (gain.at_least - 1))
    figures = f"{now.reachable_tps.value:,.0f} → {new.reachable_tps.value:,.0f} trees/s"
    assert outlook.text == f"reachable throughput {figures}"
    assert Outlooks(apart, THROUGHPUT).of(APART).gain_percent == pytest.approx(0)


def test_more_than_twice_the_measured_rate_is_worth_no_more() -> None:
    """Who needs a tenth of what a placement sustains is not moved to where it would need a twentieth."""
    idle = running(WordCount(rate_tps=10.0), APART)
    outlook = Outlooks(idle, THROUGHPUT).of(TOGETHER)
    assert outlook.gain_percent == 0
    assert outlook.has_room
    assert decided(idle, TOGETHER, THROUGHPUT).reason == (
        "no move is worth it: every running topology already reaches at least twice its measured rate"
    )


def two_that_change_places(rate_tps: float, weights: tuple[float, float]) -> tuple[Problem, np.ndarray]:
    """What runs: the second on the slowest of the nodes; and a placement in which the first is there instead."""
    both = two_word_counts(cores=0.1, rate_tps=rate_tps)
    half = 0.5 * both.supervisors[2].resources[CPU]
    slow = replace(both.supervisors[2], resources={**both.supervisors[2].resources, CPU: half})
    topologies = (replace(t, conf={**t.conf, WEIGHT: w}) for t, w in zip(both.topologies, weights, strict=True))
    both = replace(both, supervisors=(*both.supervisors[:2], slow), topologies=tuple(topologies))
    now, new = (np.repeat(slots, 12).astype(np.int32) for slots in ([0, 4], [4, 0]))
    return both.with_current(Assignment(now).by_topology(both)), new


def reachable_tps(problem: Problem, slots: np.ndarray) -> list[float]:
    return [each.reachable_tps.value for each in predict(problem, slots).topologies]


def gains_of(problem: Problem, slots: np.ndarray) -> list[RateGain]:
    now, new = (predict(problem, each).topologies for each in (problem.current_slot, slots))
    return [rate_gain(*pair, shared=len(now) > 1) for pair in zip(now, new, strict=True)]


@pytest.mark.parametrize("weights", [(1.0, 9.0), (1.0, 1.0), (4.0, 0.5)])
def test_throughput_gain_is_averaged_by_topology_weight(weights: tuple[float, float]) -> None:
    both, new = two_that_change_places(8_000.0, weights)
    rises = np.log([gain.value for gain in gains_of(both, new)])
    assert rises[0] < -0.5 < 0.4 < rises[1]
    gain = 100 * np.expm1(np.average(rises, weights=weights))
    assert Outlooks(both, THROUGHPUT).of(new).gain_percent == pytest.approx(gain)


@pytest.mark.long
def test_heavier_topology_may_gain_beyond_twice_the_measured_rate() -> None:
    both, new = two_that_change_places(400.0, (1.0, 9.0))
    (fast, slow), (slower, faster) = (reachable_tps(both, slots) for slots in (both.current_slot, new))
    assert min(fast, slower) > 2 * 400, "the first has enough in both"
    assert 2 * 400 < slow < faster
    gain = 100 * (min(gains_of(both, new)[1].value, 3 * 2 * 400 / slow) ** 0.9 - 1)
    assert Outlooks(both, THROUGHPUT).of(new).gain_percent == pytest.approx(gain)


def test_latency_objective_uses_predicted_latency(apart: Problem) -> None:
    slow = running(WordCount(), APART)
    outlook = Outlooks(slow, LATENCY).of(TOGETHER)
    now, new = (predict(slow, slots).topologies[0].latency_ms for slots in (APART, TOGETHER))
    assert now is not None
    assert new is not None
    assert outlook.gain_percent == pytest.approx(100 * (1 - new.value / now.value))
    assert outlook.text == f"predicted latency {readable(now.value)} → {readable(new.value)} ms"


@pytest.mark.long
def test_fewer_nodes_count_as_gain_only_if_rate_is_sustained() -> None:
    enough = running(WordCount(rate_tps=10.0), APART)
    outlook = Outlooks(enough, NODES).of(TOGETHER)
    assert outlook.gain_percent == pytest.approx(200 / 3)
    assert outlook.gained == "2 of 3 nodes are no longer needed"
    assert set(outlook.worth.values()) == {-1.0}
    busy = running(replace(NODE_FULL, rate_tps=4_000.0, link_bps=None), APART)
    sustained = [predict(busy, slots, CHEAP).topologies[0].highest_tps.value for slots in (APART, TOGETHER)]
    assert sustained[1] < 4_000 < sustained[0]
    outlook = Outlooks(busy, NODES, CHEAP).of(TOGETHER)
    assert outlook.gain_percent == -inf
    assert outlook.text == "nodes 3 → 1, which would not surely sustain the rate of words"


def test_unlimited_rate_is_sustained() -> None:
    """As of a topology whose executors took no CPU that could be measured, once it sends no messages."""
    problem = running(WordCount(rate_tps=10.0, link_bps=None), APART)
    (load,) = problem.loads
    conf = {key: value for key, value in problem.topologies[0].conf.items() if key != "topology.max.spout.pending"}
    free = replace(problem, topologies=(replace(problem.topologies[0], conf=conf),))
    free = free.with_load(LoadProfile({"words-1-0": replace(load, cpu_hz=0 * load.cpu_hz)}))
    now, new = (predict(free, slots).topologies[0].reachable_tps.value for slots in (APART, TOGETHER))
    assert now < new == inf, "only messages take any CPU"
    assert Outlooks(free, NODES).of(TOGETHER).gain_percent == pytest.approx(200 / 3)


def test_traffic_objective_uses_cost_model(apart: Problem) -> None:
    outlook = Outlooks(apart, TRAFFIC).of(TOGETHER)
    assert outlook.gain_percent == 100
    assert outlook.text == f"inter-node traffic {readable(cost_of(apart, APART).inter_node)} → 0 tuples/s"


def test_costs_can_be_given(apart: Problem) -> None:
    dear = Assumptions(Costs(send_us=50.0, receive_us=50.0))
    gains = [Outlooks(apart, THROUGHPUT, costs).of(TOGETHER).gain_percent for costs in (None, dear)]
    assert gains[0] != gains[1]


def test_promises_are_relative_to_current_prediction(apart: Problem) -> None:
    (promise,) = Outlooks(apart, THROUGHPUT).promises(TOGETHER, {"words-1-0": 0}).values()
    now, new = (predict(apart, slots).topologies[0] for slots in (APART, TOGETHER))
    assert promise.inter_node == 0
    assert promise.sustained == pytest.approx(new.reachable_tps.value / now.reachable_tps.value)
    assert now.pending_latency_ms is not None
    assert new.pending_latency_ms is not None
    assert promise.full_latency == pytest.approx(new.pending_latency_ms.value / now.pending_latency_ms.value)
    assert promise.pending_limit == 2 * 200, "two spouts"
    assert promise.worth == new.reachable_tps.value
    assert promise.rate_tps == pytest.approx(1_000)


class To:
    """Puts executors into given slots."""

    def __init__(self, slots: np.ndarray) -> None:
        self._slots = slots

    def schedule(self, problem: Problem) -> Assignment:
        return Assignment(self._slots)


def decided(
    problem: Problem, slots: np.ndarray, objective: str, overload_s: float = 0.0, assumptions: Assumptions = CHEAP
) -> Plan | NoPlan:
    assert problem.load is not None
    loaded = problem.with_load(replace(problem.load, overload_s={"n1": overload_s}))
    triggers = TriggerParams(min_gain_percent=10)
    return decide(
        loaded, To(slots), triggers, MoveBudget(), DecisionTimes(1000, 0, 900), aim=PlacementAim(objective, assumptions)
    )


@pytest.mark.long
def test_move_saving_traffic_but_losing_throughput_needs_traffic_objective() -> None:
    problem = running(replace(NODE_FULL, rate_tps=2_500.0, link_bps=None), APART)
    assert Outlooks(problem, THROUGHPUT, CHEAP).of(TOGETHER).gain_percent < 0
    assert decided(problem, TOGETHER, TRAFFIC).moves
    refused = decided(problem, TOGETHER, THROUGHPUT)
    assert refused.moves == ()
    assert refused.code == "small_gain"


@pytest.mark.long
def test_consolidation_accounts_for_saved_message_cpu() -> None:
    """Messages between nodes take a part of that CPU."""
    problem = running(replace(NODE_FULL, rate_tps=1_600.0), APART)
    (load,) = problem.loads
    heavy = problem.with_load(LoadProfile({"words-1-0": replace(load, cpu_hz=3 * load.cpu_hz)}))
    assert heavy.executor_cpu_hz.sum() > 1.3 * heavy.supervisors[0].cpu_hz
    assert "words stays: no room" in decided(heavy, TOGETHER, TRAFFIC).reason
    unsure = decided(heavy, TOGETHER, THROUGHPUT, assumptions=Assumptions(DEAR))
    assert unsure.moves == (), "so much less CPU for a tree is predicted too roughly for a third more"
    dearer = Assumptions(replace(DEAR, send_us=20.0, receive_us=20.0))
    decision = decided(heavy, TOGETHER, THROUGHPUT, assumptions=dearer)
    assert isinstance(decision, Plan)
    (move,) = decision.moves
    assert [slot.supervisor for slot in move.after.slots] == ["n0"]
    sustained = decision.promises["words-1-0"].sustained
    assert sustained is not None
    assert sustained > 1.3


def test_overload_alone_does_not_justify_moves() -> None:
    problem = running(replace(NODE_FULL, rate_tps=4_000.0, link_bps=None), APART)
    decision = decided(problem, TOGETHER, THROUGHPUT, overload_s=99.0)
    assert searched(decision)
    assert decision.moves == ()


def test_rolled_back_placement_is_blocked_with_reason(apart: Problem) -> None:
    aim = PlacementAim(TRAFFIC, refuses=lambda problem, wanted, worth, rate: {"words-1-0": "it was taken back"})
    decision = decide(apart, To(TOGETHER), TriggerParams(), MoveBudget(), DecisionTimes(1000, 0, 900), aim=aim)
    assert decision.moves == ()
    assert decision.reason.startswith("nothing can move: words stays: it was taken back; ")


def test_where_no_trigger_fires_nothing_is_predicted(apart, monkeypatch) -> None:
    """What is looked at each time takes no longer for what is not requested."""
    monkeypatch.setattr(Profile, "of", lambda _: pytest.fail("nobody asked"))
    assert Outlooks(apart, THROUGHPUT).can_gain
    assert not Outlooks(apart.with_current({}), THROUGHPUT).can_gain


@pytest.mark.long
def test_least_cpu_for_a_tree_is_balanced() -> None:
    enough = running(WordCount(rate_tps=10.0), APART)
    outlook = Outlooks(enough, BALANCED).of(TOGETHER)
    now, new = (predict(enough, slots).topologies[0] for slots in (APART, TOGETHER))
    assert outlook.gain_percent == pytest.approx(100 * (1 - new.cpu_us / now.cpu_us))
    assert outlook.text == f"CPU of a tuple tree {now.cpu_us:,.1f} → {new.cpu_us:,.1f} µs"
    busy = running(replace(NODE_FULL, rate_tps=4_000.0, link_bps=None), APART)
    assert Outlooks(busy, BALANCED, CHEAP).of(TOGETHER).gain_percent == -inf


@pytest.mark.long
def test_uncertain_decision_moves_only_topologies_with_certain_gain() -> None:
    """The first would be much better off on one node; the second, where more was wanted of it, worse."""
    both = two_word_counts(cores=0.4, rate_tps=8_000.0)
    links = (7e6, 7e6, 1e9)
    nodes = tuple(replace(node, link_bps=bps) for node, bps in zip(both.supervisors, links, strict=True))
    both = replace(both, supervisors=nodes)
    first, second = np.array([0, 2] * 6, np.int32), np.array([4] * 12, np.int32)
    both = both.with_current(Assignment(np.concatenate([first, second])).by_topology(both))
    wanted = np.concatenate([np.zeros(12, np.int32), np.array([4, 5] * 6, np.int32)])
    outlook = Outlooks(both, THROUGHPUT, Assumptions()).of(wanted)
    assert outlook.gain_percent > 10
    assert not outlook.is_sure
    decision = decided(both, wanted, THROUGHPUT, assumptions=Assumptions())
    assert [move.topology for move in decision.moves] == [both.topologies[0].id]
    alone = decided(both, np.concatenate([first, wanted[12:]]), THROUGHPUT, assumptions=Assumptions())
    assert alone.moves == ()


def test_room_beside_a_full_node_is_not_reported() -> None:
    """Threads that poll fill a node, too: that a rate could double is no answer to a node at 97 % of its CPU."""
    idle = running(WordCount(rate_tps=10.0), APART)
    full = {node.id: 0.97 * node.cpu_hz for node in idle.supervisors}
    beside = idle.with_load(replace(idle.load, node_cpu_hz=full))
    assert Outlooks(idle, THROUGHPUT).of(TOGETHER).has_room
    assert not Outlooks(beside, THROUGHPUT).of(TOGETHER).has_room
    assert "already reaches" not in decided(beside, TOGETHER, THROUGHPUT).reason


@pytest.mark.slow
def test_decision_is_a_trial_where_the_model_explains_little_of_what_runs() -> None:
    both = two_word_counts(cores=0.4, rate_tps=1_500.0, link_bps=1e9)
    slots = np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0, 1, 3, 1, 3, 5, 1, 3, 5, 1, 3, 5, 1], np.int32)
    both = both.with_current(Assignment(slots).by_topology(both))
    full = {node.id: node.cpu_hz for node in both.supervisors}
    spouts = np.array([0.0] * 10 + [200.0, 200.0])
    loads = {name: replace(load, pending_trees=spouts) for name, load in both.load.topologies.items()}
    both = both.with_load(replace(both.load, topologies=loads, node_cpu_hz=full))
    found = Outlooks(both, THROUGHPUT).of(np.repeat([0, 2], 12).astype(np.int32))
    assert found.explained < 0.7
    assert not found.is_explained
    known = both.with_load(
        replace(both.load, node_cpu_hz={}, topologies={n: replace(v, pending_trees=None) for n, v in loads.items()})
    )
    assert Outlooks(known, THROUGHPUT).of(np.repeat([0, 2], 12).astype(np.int32)).is_explained
