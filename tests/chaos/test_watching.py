"""Moments of a move, and what names a fault."""

from __future__ import annotations

import time
from typing import Any

import pytest
from stormwright_lab.chaos.faults import InjectedFault, MoveParts
from stormwright_lab.chaos.invariants import WorkerPlace
from stormwright_lab.chaos.scenarios import FaultKind, FaultTarget, Moment, PlannedFault
from stormwright_lab.chaos.watching import MomentWatch, StatusText, StatusWatch, words_of

from stormwright.errors import NimbusError
from stormwright.plans.plan import Plan

PARTS = MoveParts(
    "node1", "node2", "node3", WorkerPlace("chaos-a-1-99", "node1", 6700), WorkerPlace("chaos-a-1-99", "node2", 6701)
)
ADDRESSES = {f"node{n}": f"198.18.0.1{n}" for n in (1, 2, 3)}


class FakeNimbus:
    """Answers with one status after the other, and keeps to the last."""

    def __init__(self, *statuses: str) -> None:
        self._statuses = list(statuses)

    def cluster(self) -> dict[str, Any]:
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        if status == "away":
            raise NimbusError("no answer")
        return {"topologies": [{"id": "a-1-0", "status": status}, {"id": "other", "status": "INACTIVE"}]}


def plan(state: str) -> Plan:
    return Plan.model_validate(
        {"id": "p", "state": state, "why": "", "origin": "person", "goal": "", "by": "", "reason": ""}
        | {"created_ms": 0, "age_s": 0}
    )


def looks_until(watch: MomentWatch, moment: Moment, state: str = "applying") -> int:
    return next(number for number in range(1, 20) if watch.reached(moment, plan(state)))


@pytest.mark.parametrize(
    ("moment", "looks"),
    [(Moment.BEFORE, 1), (Moment.PAUSED, 3), (Moment.ORDERED, 5), (Moment.RESUMING, 7)],
)
def test_moments_follow_the_statuses_of_nimbus(moment: Moment, looks: int) -> None:
    nimbus = FakeNimbus("ACTIVE", "away", "INACTIVE", "INACTIVE", "REBALANCING", "INACTIVE", "ACTIVE")
    assert looks_until(MomentWatch(nimbus, {"a-1-0"}, lambda: True), moment) == looks


def test_worker_that_has_ended_while_paused_is_swapping() -> None:
    alive = iter([True, False])
    watch = MomentWatch(FakeNimbus("INACTIVE"), {"a-1-0"}, lambda: next(alive))
    assert looks_until(watch, Moment.SWAPPING) == 2


def test_moment_that_was_missed_counts_as_reached() -> None:
    """A rebalance takes milliseconds."""
    watch = MomentWatch(FakeNimbus("INACTIVE"), {"a-1-0"}, lambda: False)
    assert looks_until(watch, Moment.ORDERED) == 1


def test_evaluation_is_known_by_the_plan() -> None:
    watch = MomentWatch(FakeNimbus("away"), {"a-1-0"}, lambda: True)
    assert not watch.reached(Moment.EVALUATING, plan("applying"))
    assert watch.reached(Moment.EVALUATING, plan("evaluating"))


@pytest.mark.parametrize(
    ("kind", "target", "word"),
    [
        (FaultKind.CUT, FaultTarget.TARGET_NODE, "198.18.0.12"),
        (FaultKind.STOP, FaultTarget.SOURCE_SUPERVISOR, "supervisor of node1"),
        (FaultKind.STOP, FaultTarget.MOVING_WORKER, "worker chaos-a on 198.18.0.12:6701"),
        (FaultKind.KILL, FaultTarget.SERVICE, "no service answers"),
        (FaultKind.CUT, FaultTarget.SERVICE, "this service"),
        (FaultKind.FILL_DISK, FaultTarget.SERVICE, "disk"),
    ],
)
def test_words_name_the_target(kind: FaultKind, target: FaultTarget, word: str) -> None:
    assert word in words_of(PlannedFault(kind, target), PARTS, ADDRESSES)


@pytest.mark.parametrize(
    ("kind", "target", "text"),
    [
        (FaultKind.STOP, FaultTarget.MOVING_WORKER, "chaos-a stays: a worker of it has moved"),
        (FaultKind.STOP, FaultTarget.SOURCE_SUPERVISOR, "the supervisor of node2 has not reported"),
        (FaultKind.CUT, FaultTarget.SERVICE, "nimbus has not answered, nor have probes"),
        (FaultKind.CUT, FaultTarget.SOURCE_NODE, "a supervisor has not reported"),
    ],
)
def test_general_text_names_nothing(kind: FaultKind, target: FaultTarget, text: str) -> None:
    assert not any(word in text for word in words_of(PlannedFault(kind, target), PARTS, ADDRESSES))


def test_text_before_the_fault_does_not_name_it() -> None:
    watch = StatusWatch(list)
    now_s = time.monotonic()
    watch.texts = [StatusText(now_s - 1, "Nimbus is away"), StatusText(now_s + 4, "Nimbus has not asked")]
    injected = InjectedFault(PlannedFault(FaultKind.STOP, FaultTarget.NIMBUS, 12.0), now_s, now_s + 12)
    assert watch.naming(injected, PARTS, ADDRESSES).named_s == 4.0
    watch.texts.pop()
    assert watch.naming(injected, PARTS, ADDRESSES).named_s is None
