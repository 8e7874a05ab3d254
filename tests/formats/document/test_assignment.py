"""`stormwright-assignment/1` for a given problem."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.formats import assignment_from_dict, assignment_to_dict, problem_from_dict
from stormwright.model import UNPLACED, Assignment, Unplaced, cost_of
from tests.formats.documents import SMALL, TOPOLOGY

PROBLEM = problem_from_dict(SMALL)
ANSWER = Assignment(
    slot_of_executor=np.array([2, 0, UNPLACED, 2], np.int32),
    unplaced=(Unplaced(TOPOLOGY, 2, "count", ("2 of 2 nodes: full",)),),
    status={TOPOLOGY: "1 of 4 executors unplaced"},
    scheduler="online",
    parameters={"alpha": 0.5},
    seconds=0.25,
)
DOCUMENT = assignment_to_dict(PROBLEM, ANSWER, cost_of(PROBLEM, ANSWER.slot_of_executor))


def faults(document) -> list[tuple[str, str]]:
    with pytest.raises(InputError) as error:
        assignment_from_dict(document, PROBLEM)
    return [(fault.path, fault.message) for fault in error.value.faults]


def test_assignment_document_follows_the_format():
    assert DOCUMENT["schema"] == "stormwright-assignment/1"
    assert DOCUMENT["assignments"] == {
        TOPOLOGY: {"slots": [["s1", 6700], ["s0", 6700]], "slot_of_executor": [0, 1, -1, 0]}
    }
    assert DOCUMENT["unplaced"] == [
        {"topology": TOPOLOGY, "executor": 2, "component": "count", "reasons": ["2 of 2 nodes: full"]}
    ]
    assert set(DOCUMENT["cost"]) == {
        "same_executor",
        "same_worker",
        "inter_worker",
        "inter_node",
        "inter_rack",
        "unplaced",
        "total",
    }


def test_assignment_round_trip_preserves_content():
    again = assignment_from_dict(DOCUMENT, PROBLEM)
    assert np.array_equal(again.slot_of_executor, ANSWER.slot_of_executor)
    assert assignment_to_dict(PROBLEM, again) == {key: value for key, value in DOCUMENT.items() if key != "cost"}
    with pytest.raises(ValueError, match="read-only"):
        again.slot_of_executor[0] = 1


def test_topology_left_out_is_unplaced():
    again = assignment_from_dict({**DOCUMENT, "assignments": {}}, PROBLEM)
    assert again.slot_of_executor.tolist() == [UNPLACED] * 4


@pytest.mark.parametrize(
    ("change", "at", "message"),
    [
        ({"schema": "x"}, "$.schema", "should be 'stormwright-assignment/1', got 'x'"),
        ({"more": 1}, "$.more", "unknown key"),
        ({"assignments": []}, "$.assignments", "should be an object, got []"),
        ({"assignments": {"other": {"slots": [], "slot_of_executor": []}}}, "$.assignments.other", "unknown topology"),
        (
            {"assignments": {TOPOLOGY: {"slots": [["s1", 1]], "slot_of_executor": [0, 0, 0, 0]}}},
            f'$.assignments["{TOPOLOGY}"].slots[0]',
            "the problem has no slot s1:1",
        ),
        (
            {"assignments": {TOPOLOGY: {"slots": [["s1", 6700]], "slot_of_executor": [0, 0, 0, 1]}}},
            f'$.assignments["{TOPOLOGY}"].slot_of_executor[3]',
            "should be -1 or the index of one of 1 slots, got 1",
        ),
        (
            {"unplaced": [{"topology": "other", "executor": 0, "component": "c", "reasons": []}]},
            "$.unplaced[0].topology",
            "unknown topology 'other'",
        ),
        (
            {"unplaced": [{"topology": TOPOLOGY, "executor": 4, "component": "c", "reasons": []}]},
            "$.unplaced[0].executor",
            f"{TOPOLOGY} has no executor 4",
        ),
        ({"unplaced": [{"topology": TOPOLOGY}]}, "$.unplaced[0].executor", "required field missing"),
        ({"cost": {"total": 1}}, "$.cost.inter_node", "required field missing"),
        ({"seconds": -1}, "$.seconds", "should be greater than or equal to 0, got -1"),
    ],
)
def test_a_fault_has_its_path(change, at, message):
    assert (at, message) in faults({**DOCUMENT, **change})


@pytest.mark.parametrize("document", [None, [], {}, "x"])
def test_non_assignment_document_is_rejected(document):
    assert faults(document)
