"""What runs is never touched; what has no slot gets the ordered one, or the initial scheduler's."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model import Assignment, Problem, WorkerSlot
from stormwright.schedulers import make_scheduler
from stormwright.storm.bridge import Bridge, Failure, Order, Scheduler
from tests.controller.builders import on, place, problem, topology

A, B = topology("a", workers=1), topology("b", workers=1)
ON_N0 = on("n0")
ON_N1 = on("n1")


class FirstFreeSlot:
    """Puts each unplaced topology into the first slot that nobody has."""

    def schedule(self, problem: Problem) -> Assignment:
        slots = problem.current_slot.copy()
        for index in range(len(problem.topologies)):
            executors = problem.executors_of(index)
            if (slots[executors] == -1).any():
                slots[executors] = min(set(range(len(problem.slots))) - set(slots.tolist()))
        return Assignment(slots)


def bridge() -> Bridge:
    return Bridge(FirstFreeSlot(), "first-free")


def test_a_topology_that_runs_is_left_alone_whatever_was_ordered() -> None:
    asked = bridge()
    asked.order(A.id, Order(ON_N1, "better"))
    assert asked.answer(problem([A], current={A.id: ON_N0})).assignments == {}


def test_an_order_holds_once_the_topology_has_no_slots() -> None:
    asked = bridge()
    asked.order(A.id, Order(ON_N1, "better"))
    answer = asked.answer(problem([A]))
    assert answer.assignments == {A.id: ON_N1}
    assert answer.status == {A.id: "better"}


def test_without_an_order_the_initial_scheduler_places_around_what_runs() -> None:
    answer = bridge().answer(problem([A, B], current={A.id: ON_N0}))
    assert answer.assignments == {B.id: place([("n0", 6701)], [0] * 4)}
    assert answer.status[B.id] == "stormwright: placed by first-free"


def test_an_order_for_a_taken_or_vanished_slot_gives_way() -> None:
    for wanted in (ON_N0, on("gone")):
        asked = bridge()
        asked.order(B.id, Order(wanted, "better"))
        answer = asked.answer(problem([A, B], current={A.id: ON_N0}))
        assert answer.assignments[B.id].slots == (WorkerSlot("n0", 6701),)


def test_two_orders_for_one_slot_are_not_both_given() -> None:
    asked = bridge()
    for t in (A, B):
        asked.order(t.id, Order(ON_N1, "better"))
    answer = asked.answer(problem([A, B]))
    assert answer.assignments[A.id] == ON_N1
    assert answer.assignments[B.id].slots != ON_N1.slots


def test_the_snapshot_shows_the_answer() -> None:
    asked = bridge()
    asked.answer(problem([A]))
    snapshot = asked.snapshot()
    assert snapshot is not None
    assert np.all(snapshot.current_slot == 0)


def test_an_order_is_void_once_it_is_carried_out() -> None:
    """A rebalance by the operator afterwards is theirs."""
    asked = bridge()
    asked.order(A.id, Order(ON_N1, "better"))
    assert asked.answer(problem([A])).assignments == {A.id: ON_N1}
    asked.answer(problem([A], current={A.id: ON_N1}))
    assert asked.answer(problem([A])).assignments == {A.id: ON_N0}


def test_an_order_that_was_withdrawn_or_is_old_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = bridge()
    asked.order(A.id, Order(ON_N1, "better"))
    asked.withdraw(A.id)
    assert asked.answer(problem([A])).assignments == {A.id: ON_N0}
    asked.order(A.id, Order(ON_N1, "better"))
    monkeypatch.setattr("stormwright.storm.bridge.ORDER_S", 0.0)
    assert asked.answer(problem([A])).assignments == {A.id: ON_N0}


def test_a_topology_that_got_slots_elsewhere_is_no_longer_called_unplaced() -> None:
    class Nowhere:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot, status={A.id: "4 of 4 executors unplaced"})

    asked = Bridge(Nowhere(), "nowhere")
    assert asked.answer(problem([A])).status == {A.id: "4 of 4 executors unplaced"}
    assert asked.answer(problem([A], current={A.id: ON_N0})).status == {}


def failures_of(scheduler: Scheduler, asked: Problem) -> list[Failure]:
    told: list[Failure] = []
    Bridge(scheduler, "named", told.extend).answer(asked)
    return told


def test_failures_are_told_with_each_reason_once() -> None:
    """One node of one slot: Storm's own scheduler, and one that gives the same reasons to every executor."""
    full = problem([A, B], nodes=1, slots=1, current={A.id: ON_N0})
    for scheduler in (make_scheduler("even"), make_scheduler("binpack")):
        reasons = scheduler.schedule(full).unplaced[0].reasons
        assert failures_of(scheduler, full) == [Failure(B.id, "b", "named", reasons)]
        assert "slot" in reasons[0]


def test_a_scheduler_that_gives_no_reasons_has_a_status_or_nothing_to_tell() -> None:
    class Nowhere:
        def __init__(self, status: dict[str, str]) -> None:
            self._status = status

        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot, status=self._status)

    class OnWhatRuns:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.zeros(problem.num_executors, np.int32))

    asked = problem([A, B], current={A.id: ON_N0})
    assert failures_of(Nowhere({B.id: "full"}), asked) == [Failure(B.id, "b", "named", ("full",))]
    assert failures_of(Nowhere({}), asked) == [Failure(B.id, "b", "named", ("named: no slot for it",))]
    taken = "named wants slots that are taken, or to move what runs"
    assert failures_of(OnWhatRuns(), asked) == [Failure(B.id, "b", "named", (taken,))]


def test_no_failures_are_told_too() -> None:
    """What was told before is over then."""
    told: list[int] = []
    Bridge(FirstFreeSlot(), "first-free", lambda failures: told.append(len(failures))).answer(problem([A]))
    assert told == [0]
