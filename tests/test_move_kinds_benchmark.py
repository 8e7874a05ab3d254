"""The turns of the benchmark of kinds of moves, and the oracle on the journals of a ledger from Kafka."""

from __future__ import annotations

import argparse
import struct
from pathlib import Path
from typing import Any

import pytest
from stormwright_lab.chaos.ledger import ViolationKind, read_ledger

from benchmarks.storm.move_kinds import CASES, SETTLE_S, faults_of, kinds_of, next_start_s, one_worker_moved
from stormwright.model import Problem
from tests.controller.builders import place, problem, topology

A, B = topology("a"), topology("b")
ACKED = 0x8000


def placed(a: list[tuple[str, int]], b: list[tuple[str, int]]) -> Problem:
    """Two topologies of two workers on two nodes of five slots."""
    current = {A.id: place(a, [0, 1, 0, 1]), B.id: place(b, [0, 1, 0, 1])}
    return problem([A, B], nodes=2, slots=5, current=current)


def nodes_after(state: Problem, latest: str) -> list[str]:
    """Return the node of each worker of `A` after a move, and check that each topology has slots of its own."""
    wanted, slots = one_worker_moved(state, A.id, latest).slot_of_executor, list(state.slot_index)
    a, b = ({int(each) for each in wanted[state.executors_of(number)]} for number in (0, 1))
    assert not a & b
    assert len(a) == len(b) == 2
    return sorted(slots[each].supervisor for each in a)


def test_worker_moves_away_from_the_node_that_received_the_latest_one():
    apart = placed([("n0", 6700), ("n1", 6700)], [("n0", 6701), ("n1", 6701)])
    assert nodes_after(apart, "n0") == ["n1", "n1"]
    assert nodes_after(apart, "n1") == ["n0", "n0"]


@pytest.mark.parametrize("latest", ["", "n0", "n1"])
def test_two_workers_on_one_node_are_separated(latest: str):
    together = placed([("n1", 6702), ("n1", 6703)], [("n0", 6700), ("n0", 6701)])
    assert nodes_after(together, latest) == ["n0", "n1"]


@pytest.mark.parametrize(
    ("begun", "ended", "own", "expected"),
    [
        (100.0, 104.0, 20.0, 115.0),  # from move to move
        (100.0, 112.0, 20.0, 112.0 + SETTLE_S),  # the move took long
        (100.0, 104.0, 103.0, 163.0),  # the only topology
        (float("-inf"), float("-inf"), float("-inf"), float("-inf")),  # the first move
    ],
)
def test_next_move_waits_for_the_last_one_and_for_the_rest_of_its_topology(begun, ended, own, expected):
    assert next_start_s(begun, ended, own, every_s=15.0, gap_s=60.0) == expected


def test_kinds_are_all_or_those_that_are_named():
    assert kinds_of("all") == list(CASES)
    assert kinds_of("kafka,drain,kafka") == ["kafka", "drain"]
    with pytest.raises(argparse.ArgumentTypeError, match="there is no kind sieve"):
        kinds_of("drain,sieve")


@pytest.mark.parametrize(
    ("more", "number"),
    [
        ({}, 0),
        ({"violations": ["lost: spout task 0: 3 (1, 2, 7)"]}, 1),
        ({"error": "move 3: Nimbus does not answer"}, 1),
        ({"moves": [{"complete": True}, {"complete": False}]}, 1),
    ],
)
def test_each_fault_of_a_cell_is_a_reason_for_exit_code_one(more: dict[str, Any], number: int):
    assert len(faults_of({"violations": [], "error": "", "moves": [{"complete": True}], **more})) == number


def journal(directory: Path, run: int, entries: list[int]) -> None:
    """Write a journal of partition 0 as ``KafkaJournal`` does: all of them begin with number 0."""
    content = b"LEDGER01" + struct.pack("<qqq", 0, 1_700_000_000_000, 0) + struct.pack(f"<{len(entries)}H", *entries)
    (directory / f"spout-0-{run}.journal").write_bytes(content)


def sink(directory: Path, *records: tuple[int, int, int]) -> None:
    """Write records of run, attempt and number."""
    content = b"".join(struct.pack("<qIHH", number, attempt, 0, run) for run, attempt, number in records)
    (directory / "sink-0-1.log").write_bytes(content)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Five numbers, of which three are committed; the second spout emits number 2 again, and then the last two."""
    (tmp_path / "ledger.properties").write_text("kind=drain\nkeys=4\nspouts=1\n")
    journal(tmp_path, 0, [ACKED, ACKED, ACKED, 0, 0])
    journal(tmp_path, 1, [1, 1, 1])
    journal(tmp_path, 2, [0, 0, 1, 1, 1])
    sink(tmp_path, (1, 1, 0), (1, 1, 1), (1, 1, 2), (2, 1, 2), (2, 1, 3), (2, 1, 4))
    return tmp_path


def test_replays_are_emissions_by_later_spouts(ledger: Path):
    found = read_ledger(ledger)
    assert found.violations() == []
    assert (found.emitted, found.acked, found.replays, found.surplus) == (5, 3, 1, 1)


def test_committed_number_that_no_sink_has_is_lost(ledger: Path):
    sink(ledger, (1, 1, 0), (1, 1, 2), (2, 1, 3))
    (violation,) = read_ledger(ledger).violations()
    assert (violation.kind, violation.examples) == (ViolationKind.LOST, (1,))


def test_produced_number_that_no_spout_has_emitted_is_unfinished(ledger: Path):
    journal(ledger, 0, [ACKED] * 5 + [0, 0])
    (violation,) = read_ledger(ledger).violations(drained=True)
    assert (violation.kind, violation.examples) == (ViolationKind.UNFINISHED, (5, 6))


def test_committed_number_that_no_spout_has_emitted_is_lost(ledger: Path):
    journal(ledger, 0, [ACKED] * 6)
    (violation,) = read_ledger(ledger).violations(drained=True)
    assert (violation.kind, violation.examples) == (ViolationKind.LOST, (5,))
