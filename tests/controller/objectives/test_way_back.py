"""Back to where a topology was: with the care of any move, and where that is no longer possible it is said why."""

from __future__ import annotations

from stormwright.controller.objectives.refusals import rollback_decision
from stormwright.history.evaluation.moves import MovedTopology, Worse
from stormwright.history.evaluation.verdict import Promise
from stormwright.model import TopologyAssignment
from tests.controller.builders import on, place, problem, topology

T, OTHER = topology("t"), topology("other")


def worse(before: TopologyAssignment | None, after: TopologyAssignment) -> Worse:
    promise = Promise(worth=300.0, rate_tps=1000.0)
    return Worse(MovedTopology(5, T.id, promise, 1000, 2000, before, after), "it is slow")


def test_rollback_restores_previous_placement_regardless_of_better_ones() -> None:
    now = problem([T], current={T.id: on("n2")})
    decision = rollback_decision(now, worse(on("n0", "n1"), on("n2")))
    (move,) = decision.plan.moves
    assert (move.before, move.after.slot_of_executor) == (on("n2"), on("n0", "n1").slot_of_executor)
    assert {slot.supervisor for slot in move.after.slots} == {"n0", "n1"}
    assert decision.rolls_back == {T.id}
    assert decision.reason == "t goes back to where it was: since its move it is slow"
    assert decision.promises.keys() == {T.id}


def test_another_slot_of_the_same_node_will_do() -> None:
    now = problem([T, OTHER], current={T.id: on("n2"), OTHER.id: on("n0")})
    (move,) = rollback_decision(now, worse(on("n0", "n1"), on("n2"))).plan.moves
    assert {(slot.supervisor, slot.port) for slot in move.after.slots} == {("n0", 6701), ("n1", 6700)}


def test_rollback_without_room_is_blocked_with_missing_resources() -> None:
    full = place([("n0", 6700), ("n0", 6701)], [0, 0, 1, 1])
    now = problem([T, OTHER], current={T.id: on("n2"), OTHER.id: full})
    decision = rollback_decision(now, worse(on("n0", "n1"), on("n2")))
    assert decision.plan.moves == ()
    assert decision.rolls_back == frozenset()
    assert decision.reason.endswith("but it stays, no room where it should move to: host0: slots short by 1")


def test_rollback_to_removed_node_is_blocked() -> None:
    now = problem([T], nodes=2, current={T.id: on("n1")})
    for before in (on("n0", "n2"), None):
        decision = rollback_decision(now, worse(before, on("n1")))
        assert decision.plan.moves == ()
        assert decision.reason.endswith("but it stays, as a node that it was on is gone")
