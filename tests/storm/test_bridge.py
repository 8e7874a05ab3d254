"""What runs is never touched; what has no slot gets the ordered one, or the initial scheduler's."""

from __future__ import annotations

import re
import threading
import time

import numpy as np
import pytest

from stormwright.errors import Fault, InputError
from stormwright.model import Assignment, Problem, WorkerSlot
from stormwright.schedulers import make_scheduler
from stormwright.storm.bridge import Bridge, Failure, Scheduler
from stormwright.storm.occupancy import Order
from tests.controller.builders import on, place, problem, topology

A, B = topology("a", workers=1), topology("b", workers=1)
ON_N0 = on("n0")
ON_N1 = on("n1")


class FirstFreeSlot:
    """Puts each unplaced topology into the first free slot."""

    def schedule(self, problem: Problem) -> Assignment:
        slots = problem.current_slot.copy()
        for index in range(len(problem.topologies)):
            executors = problem.executors_of(index)
            if (slots[executors] == -1).any():
                slots[executors] = min(set(range(len(problem.slots))) - set(slots.tolist()))
        return Assignment(slots)


def bridge() -> Bridge:
    return Bridge(FirstFreeSlot(), "first-free")


def test_running_topology_is_left_unchanged_despite_an_order() -> None:
    nimbus_bridge = bridge()
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    assert nimbus_bridge.answer(problem([A], current={A.id: ON_N0})).assignments == {}


def test_an_order_holds_once_the_topology_has_no_slots() -> None:
    nimbus_bridge = bridge()
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    answer = nimbus_bridge.answer(problem([A]))
    assert answer.assignments == {A.id: ON_N1}
    assert answer.status == {A.id: "better"}


def test_status_of_answer_that_nimbus_did_not_use_is_not_repeated() -> None:
    nimbus_bridge = bridge()
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    nimbus_bridge.answer(problem([A]))
    assert nimbus_bridge.answer(problem([A], current={A.id: ON_N0})).status == {}
    assert nimbus_bridge.answer(problem([A])).status == {A.id: "better"}
    assert nimbus_bridge.answer(problem([A], current={A.id: ON_N1})).status == {A.id: "better"}


def test_initial_scheduler_places_new_topologies_around_running_ones() -> None:
    answer = bridge().answer(problem([A, B], current={A.id: ON_N0}))
    assert answer.assignments == {B.id: place([("n0", 6701)], [0] * 4)}
    assert answer.status[B.id] == "stormwright: placed by first-free"


KEEPS = {"storm.scheduler": "stormwright.PlacementScheduler", "stormwright.fallback": "a.b.ResourceAwareScheduler"}


def test_cluster_fallback_scheduler_places_topologies_without_orders() -> None:
    nimbus_bridge = Bridge(FirstFreeSlot(), "even")
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    answer = nimbus_bridge.answer(problem([A, B], conf=KEEPS))
    assert answer.assignments == {A.id: ON_N1}
    assert answer.status == {A.id: "better", B.id: "stormwright: left to ResourceAwareScheduler"}
    # What the class says of it is in Storm's status then, and stays there.
    assert nimbus_bridge.answer(problem([A, B], current={A.id: ON_N1, B.id: ON_N0}, conf=KEEPS)).status == {
        A.id: "better"
    }
    answer = nimbus_bridge.answer(problem([A], conf=KEEPS))
    assert answer.status == {A.id: "stormwright: left to ResourceAwareScheduler"}
    assert nimbus_bridge.answer(problem([A], current={A.id: ON_N0}, conf=KEEPS)).status == {}


@pytest.mark.parametrize("fallback", ["even", "none", "org.apache.storm.scheduler.EvenScheduler", False])
def test_where_the_cluster_keeps_no_class_the_initial_scheduler_places(fallback: object) -> None:
    conf = {**KEEPS, "stormwright.fallback": fallback}
    assert Bridge(FirstFreeSlot(), "even").answer(problem([A], conf=conf)).assignments


def test_explicit_initial_scheduler_overrides_cluster_fallback() -> None:
    assert bridge().answer(problem([A], conf=KEEPS)).assignments


def test_an_order_for_a_taken_or_vanished_slot_gives_way() -> None:
    for wanted in (ON_N0, on("gone")):
        nimbus_bridge = bridge()
        nimbus_bridge.order(B.id, Order(wanted, "better"))
        answer = nimbus_bridge.answer(problem([A, B], current={A.id: ON_N0}))
        assert answer.assignments[B.id].slots == (WorkerSlot("n0", 6701),)


def test_conflicting_orders_for_one_slot_are_resolved() -> None:
    nimbus_bridge = bridge()
    for t in (A, B):
        nimbus_bridge.order(t.id, Order(ON_N1, "better"))
    answer = nimbus_bridge.answer(problem([A, B]))
    assert answer.assignments[A.id] == ON_N1
    assert answer.assignments[B.id].slots != ON_N1.slots


def test_the_snapshot_shows_the_answer() -> None:
    nimbus_bridge = bridge()
    nimbus_bridge.answer(problem([A]))
    snapshot = nimbus_bridge.snapshot()
    assert snapshot is not None
    assert np.all(snapshot.current_slot == 0)


def test_order_expires_once_executed() -> None:
    """A rebalance by the operator afterwards is theirs."""
    nimbus_bridge = bridge()
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    assert nimbus_bridge.answer(problem([A])).assignments == {A.id: ON_N1}
    nimbus_bridge.answer(problem([A], current={A.id: ON_N1}))
    assert nimbus_bridge.answer(problem([A])).assignments == {A.id: ON_N0}


def test_withdrawn_or_old_order_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    nimbus_bridge = bridge()
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    nimbus_bridge.withdraw([A.id])
    assert nimbus_bridge.answer(problem([A])).assignments == {A.id: ON_N0}
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    monkeypatch.setattr("stormwright.storm.bridge.ORDER_S", 0.0)
    assert nimbus_bridge.answer(problem([A])).assignments == {A.id: ON_N0}


def test_status_is_cleared_after_placement_by_others() -> None:
    class Nowhere:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot, status={A.id: "4 of 4 executors unplaced"})

    nimbus_bridge = Bridge(Nowhere(), "nowhere")
    assert nimbus_bridge.answer(problem([A])).status == {A.id: "4 of 4 executors unplaced"}
    assert nimbus_bridge.answer(problem([A], current={A.id: ON_N0})).status == {}


def failures_of(scheduler: Scheduler, question: Problem) -> list[Failure]:
    failures: list[Failure] = []
    Bridge(scheduler, "named", failures.extend).answer(question)
    return failures


def test_failure_lists_each_reason_once() -> None:
    """One node of one slot: Storm's own scheduler, and one that gives the same reasons to every executor."""
    full = problem([A, B], nodes=1, slots=1, current={A.id: ON_N0})
    for scheduler in (make_scheduler("even"), make_scheduler("binpack")):
        reasons = scheduler.schedule(full).unplaced[0].reasons
        assert failures_of(scheduler, full) == [Failure(B.id, "b", "named", reasons)]
        assert "slot" in reasons[0]


def test_scheduler_without_reasons_reports_status_or_default_text() -> None:
    class Nowhere:
        def __init__(self, status: dict[str, str]) -> None:
            self._status = status

        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(problem.current_slot, status=self._status)

    class OnWhatRuns:
        def schedule(self, problem: Problem) -> Assignment:
            return Assignment(np.zeros(problem.num_executors, np.int32))

    question = problem([A, B], current={A.id: ON_N0})
    assert failures_of(Nowhere({B.id: "full"}), question) == [Failure(B.id, "b", "named", ("full",))]
    assert failures_of(Nowhere({}), question) == [Failure(B.id, "b", "named", ("named: no slot for it",))]
    taken = "named wants slots that are taken, or to move what runs"
    assert failures_of(OnWhatRuns(), question) == [Failure(B.id, "b", "named", (taken,))]


def test_absence_of_failures_is_reported() -> None:
    """What was reported before is over then."""
    counts: list[int] = []
    Bridge(FirstFreeSlot(), "first-free", lambda failures: counts.append(len(failures))).answer(problem([A]))
    assert counts == [0]


def test_topology_with_faulty_configuration_is_skipped_alone() -> None:
    """One node of two slots: what is left out takes none that another can have."""
    failures: list[Failure] = []
    nimbus_bridge = Bridge(FirstFreeSlot(), "first-free", failures.extend)
    nimbus_bridge.order(A.id, Order(ON_N0, "better"))
    answer = nimbus_bridge.answer(problem([A, B], nodes=1, slots=1), {A.id: ("conf.x: wrong", "conf.y: wrong, too")})
    assert answer.assignments == {B.id: ON_N0}
    text = "2 faults in its configuration: conf.x: wrong; conf.y: wrong, too"
    assert answer.status == {A.id: f"stormwright: {text}", B.id: "stormwright: placed by first-free"}
    assert failures == [Failure(A.id, "a", "first-free", ("conf.x: wrong", "conf.y: wrong, too"))]
    assert nimbus_bridge.unfit() == {A.id: text}, "so that the controller leaves it where it is"


def test_slots_of_topology_with_faulty_configuration_stay_occupied() -> None:
    half = place([("n0", 6700)], [0, 0, -1, -1])
    answer = bridge().answer(problem([A, B], nodes=1, current={A.id: half}), {A.id: ("conf.x: wrong",)})
    assert answer.assignments == {}, "its answer for a is not told, and b finds no third slot"
    whole = place([("n0", 6700)], [0, 0, 0, 0])
    answer = bridge().answer(problem([A, B], nodes=1, current={A.id: whole}), {A.id: ("conf.x: wrong",)})
    assert answer.assignments == {B.id: place([("n0", 6701)], [0] * 4)}
    assert set(answer.status) == {B.id}, "what runs completely lacks nothing"


class EventNotifier:
    """Returns a preset answer."""

    def __init__(self, slots: object) -> None:
        self._slots = slots

    def schedule(self, problem: Problem) -> Assignment:
        return Assignment(self._slots)  # type: ignore[arg-type]  # whatever a plugin may answer


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (np.full(8, -5), "named returned an invalid answer: slots -5 to -5, there are 0 to 5"),
        (np.full(8, 6), "slots 6 to 6, there are 0 to 5"),
        (np.zeros(3, int), r"shape \(3,\) for the slots of 8 executors"),
        (np.zeros(8), "numbers of type float64"),
        (None, "numbers of type object"),
        ([[0], [1, 2]], "for the slots of 8 executors"),
        (np.array([0, 0, 1, 1, 2, 2, 3, 4]), "wants 3 workers where 2 are requested"),
        (np.array([0, 0, 1, 1, 2, 2, 2, 2]), "wants 1 worker where 2 are requested"),
        (np.array([0, 0, 1, 1, 1, 1, 2, 2]), "wants slots that are taken, or to move what runs"),
    ],
)
def test_impossible_placements_are_not_passed_on(slots: object, expected: str) -> None:
    """Six slots; the second of two topologies of two workers each gets what cannot be."""
    question = problem([topology("a"), topology("b")])
    answer = Bridge(EventNotifier(slots), "named").answer(question)
    second = question.topologies[1].id
    assert second not in answer.assignments
    assert re.search(expected, answer.status[second])


def test_an_order_is_given_whatever_the_scheduler_cannot_use() -> None:
    """A tag of one node that is none is no reason to leave one without slots that is moved just now."""

    class Picky:
        def schedule(self, problem: Problem) -> Assignment:
            raise InputError("nodes", [Fault("should be a text", "tags")])

    nimbus_bridge = Bridge(Picky(), "picky")
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    answer = nimbus_bridge.answer(problem([A, B]))
    assert answer.assignments == {A.id: ON_N1}
    assert answer.status[B.id] == "nodes: 1 fault; tags: should be a text"
    shown = nimbus_bridge.snapshot()
    assert shown is not None
    assert shown.current == {A.id: ON_N1}


def test_storms_own_scheduler_may_have_fewer_workers_where_slots_are_short() -> None:
    question = problem([topology("a", workers=3)], nodes=1, slots=2)
    answer = Bridge(make_scheduler("even"), "even").answer(question)
    assert len(answer.assignments[question.topologies[0].id].slots) == 2


class Hanging:
    """The first call never returns, in terms of a test."""

    def __init__(self) -> None:
        self.called, self.over = threading.Event(), threading.Event()

    def schedule(self, problem: Problem) -> Assignment:
        self.called.set()
        self.over.wait(60)
        return FirstFreeSlot().schedule(problem)


def test_while_the_scheduler_hangs_orders_are_taken_and_given() -> None:
    hanging = Hanging()
    nimbus_bridge = Bridge(hanging, "slow")
    nimbus = threading.Thread(target=nimbus_bridge.answer, args=(problem([A, B]), None, 60.0))
    nimbus.start()
    assert hanging.called.wait(10)
    began = time.monotonic()
    nimbus_bridge.order(A.id, Order(ON_N1, "better"))
    assert nimbus_bridge.wait_for_snapshot(began, 0.01) is None
    assert nimbus.is_alive(), "the order does not wait for the scheduler"
    hanging.over.set()
    nimbus.join(10)
    hanging.over.clear()
    answer = nimbus_bridge.answer(problem([A, B]), None, 0.1)
    assert answer.assignments == {A.id: ON_N1}
    assert answer.status[B.id] == "slow had no answer within 0.1 s"
    answer = nimbus_bridge.answer(problem([A, B], current={A.id: ON_N1}), None, 60.0)
    assert answer.status[B.id] == "slow still decides about an earlier state of the cluster"
    hanging.over.set()


@pytest.mark.parametrize("waiting", [0, 1, 40])
def test_batch_answer_equals_sequential_answers(waiting: int) -> None:
    """Round robin over nodes of two slots: every slot given once, to those that have none."""
    many = [topology(f"t{number}", workers=1) for number in range(40)]
    placed = {t.id: on(f"n{number}") for number, t in enumerate(many[: 40 - waiting])}
    question = problem(many, nodes=40, current=placed)
    answer = Bridge(make_scheduler("even"), "even").answer(question)
    assert set(answer.assignments) == {t.id for t in many[40 - waiting :]}
    slots = [slot for given in (*placed.values(), *answer.assignments.values()) for slot in given.slots]
    assert len(set(slots)) == 40
