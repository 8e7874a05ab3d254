"""Invariants, with observations made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stormwright_lab.chaos.invariants import FaultNaming, Invariant, RunObservation, WorkerPlace, violations
from stormwright_lab.chaos.ledger import LedgerViolation, ViolationKind

A, B = WorkerPlace("a-1-0", "node1", 6700), WorkerPlace("a-1-0", "node2", 6701)
GOOD = RunObservation(
    statuses={"a": "ACTIVE"},
    assigned=(A, B),
    running=(B, A),
    unplaced={"a": 0},
    plans={"p": "done", "q": "rolled_back"},
)


def found(**changes: object) -> list[Invariant]:
    return [each.invariant for each in violations(replace(GOOD, **changes))]  # type: ignore[arg-type]


def test_good_observation_violates_nothing() -> None:
    assert violations(GOOD) == []


@pytest.mark.parametrize(
    ("kind", "invariant"),
    [
        (ViolationKind.LOST, Invariant.NUMBERS),
        (ViolationKind.DUPLICATE, Invariant.NUMBERS),
        (ViolationKind.STATE_COUNT, Invariant.STATE),
        (ViolationKind.BATCH_COUNT, Invariant.STATE),
    ],
)
def test_violations_of_the_ledger_are_of_numbers_or_state(kind: ViolationKind, invariant: Invariant) -> None:
    assert found(ledger=[LedgerViolation(kind, "spout task 0", 3)]) == [invariant]


def test_paused_topology_is_a_violation() -> None:
    assert found(statuses={"a": "INACTIVE"}) == [Invariant.PAUSED]
    assert found(statuses={"a": "gone"}) == [Invariant.PAUSED]


def test_worker_that_is_missing_or_runs_twice_is_a_violation() -> None:
    assert found(running=(A,)) == [Invariant.EXECUTORS]
    assert found(running=(A, B, B)) == [Invariant.EXECUTORS]
    assert found(running=(A, B._replace(port=6702))) == [Invariant.EXECUTORS, Invariant.EXECUTORS]
    assert found(unplaced={"a": 2}) == [Invariant.EXECUTORS]


def test_nimbus_that_does_not_answer_is_one_violation() -> None:
    assert found(nimbus_error="no answer", assigned=(), statuses={}) == [Invariant.NIMBUS]


@pytest.mark.parametrize("state", ["applying", "evaluating", "stopped", "waiting", "rolling_back", "planning"])
def test_plan_in_progress_is_a_violation(state: str) -> None:
    assert found(plans={"p": state}) == [Invariant.JOURNAL]


def test_leftovers_and_missing_recovery_are_violations() -> None:
    assert found(leftovers=["process 7"], recovered=False) == [Invariant.RECOVERY, Invariant.LEFTOVERS]


@pytest.mark.parametrize(
    ("in_force_s", "words", "named_s", "violated"),
    [
        (12.0, ("nimbus",), 3.0, False),
        (12.0, ("nimbus",), 11.0, True),
        (12.0, ("nimbus",), None, True),
        (3.0, ("nimbus",), None, False),
        (12.0, (), None, False),
    ],
)
def test_long_fault_has_to_be_named_within_ten_seconds(
    in_force_s: float, words: tuple[str, ...], named_s: float | None, violated: bool
) -> None:
    assert found(namings=[FaultNaming("stop nimbus", in_force_s, words, named_s)]) == [Invariant.NAMED] * violated
