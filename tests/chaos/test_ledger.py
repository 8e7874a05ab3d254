"""The oracle of ledgers, on files made by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from stormwright_lab.chaos.ledger import Ledger, ViolationKind, read_ledger
from stormwright_lab.chaos.ledger_files import LedgerKind
from stormwright_lab.chaos.ledger_workload import LedgerWorkload

from stormwright.errors import InputError

ACKED = 0x8000


@dataclass(frozen=True)
class Files:
    """Writes a ledger as the topology does, from the documented formats."""

    directory: Path

    def facts(self, kind: str, keys: int = 4, **more: object) -> None:
        values = {"kind": kind, "keys": keys, "spouts": 1, **more, "id": "x"}
        lines = [f"{name}={value}\n" for name, value in values.items()]
        (self.directory / "ledger.properties").write_text("".join(lines))

    def journal(self, entries: Sequence[int], task: int = 0, run: int = 0, first: int = 0) -> None:
        header = b"LEDGER01" + struct.pack("<qqq", first, 1_700_000_000_000, 0)
        path = self.directory / f"spout-{task}-{run}.journal"
        path.write_bytes(header + struct.pack(f"<{len(entries)}H", *entries))

    def sink(self, *records: tuple[int, int, int, int], started_ms: int = 1, torn: bytes = b"") -> None:
        """Write records of task, run, attempt and number."""
        path = self.directory / f"sink-0-{started_ms}.log"
        path.write_bytes(b"".join(map(_record, records)) + torn)

    def windows(self, *windows: Sequence[tuple[int, int, int, int]], torn: bytes = b"", started_ms: int = 1) -> None:
        content = b""
        for number, window in enumerate(windows):
            content += _record((0xFFFF, 0, number, len(window))) + b"".join(map(_record, window))
        (self.directory / f"window-0-{started_ms}.log").write_bytes(content + torn)

    def state(self, tallies: Mapping[int, str], task: int = 3) -> None:
        (self.directory / "state").mkdir(exist_ok=True)
        lines = ["7\n", *(f"{key}\ttext\t{tally}\n" for key, tally in tallies.items())]
        (self.directory / "state" / f"count-{task}.committed").write_text("".join(lines))


def _record(record: tuple[int, int, int, int]) -> bytes:
    task, run, attempt, number = record
    return struct.pack("<qIHH", number, attempt, task, run)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def found(ledger: Ledger, drained: bool = True) -> dict[ViolationKind, tuple[int, ...]]:
    return {violation.kind: violation.examples for violation in ledger.violations(drained)}


def test_drained_ledger_without_faults_has_no_violation(files):
    files.facts("drain")
    files.journal([ACKED | 1] * 3)
    files.journal([ACKED | 1] * 2, task=1)
    files.sink((0, 0, 1, 2), (1, 0, 1, 0), (0, 0, 1, 0))
    files.sink((1, 0, 1, 1), (0, 0, 1, 1), started_ms=2)
    ledger = read_ledger(files.directory)
    assert ledger.violations(drained=True) == []
    assert (ledger.emitted, ledger.acked, ledger.replays, ledger.surplus, ledger.undelivered) == (5, 5, 0, 0, 0)
    assert [spout.emitted for spout in ledger.spouts] == [3, 2]


def test_acked_number_without_delivery_is_lost(files):
    files.facts("drain")
    files.journal([ACKED | 1] * 4)
    files.sink((0, 0, 1, 0), (0, 0, 1, 3))
    assert found(read_ledger(files.directory)) == {ViolationKind.LOST: (1, 2)}


def test_number_without_ack_is_unfinished_only_when_drained(files):
    files.facts("drain")
    files.journal([ACKED | 1, 1, ACKED | 1, 2])
    files.sink((0, 0, 1, 0), (0, 0, 1, 2))
    ledger = read_ledger(files.directory)
    assert ledger.violations() == []
    assert found(ledger) == {ViolationKind.UNFINISHED: (1, 3)}
    assert ledger.spouts[0].low == 1


def test_surplus_of_replays_is_no_violation(files):
    """Number 0 was delivered by both emissions, number 1 by the second, number 2 by the third."""
    files.facts("drain")
    files.journal([ACKED | 2, ACKED | 2, ACKED | 3])
    files.sink((0, 0, 1, 0), (0, 0, 2, 0), (0, 0, 2, 1), (0, 0, 3, 2))
    ledger = read_ledger(files.directory)
    assert ledger.violations(drained=True) == []
    assert (ledger.replays, ledger.surplus, ledger.undelivered) == (4, 1, 3)


def test_emission_that_is_delivered_twice_is_a_duplicate(files):
    files.facts("drain")
    files.journal([0, ACKED | 2, ACKED | 1], task=1)
    files.journal([ACKED | 1, ACKED | 1])
    files.sink((0, 0, 1, 0), (0, 0, 1, 1), (1, 0, 2, 1), (1, 0, 2, 1), (1, 0, 1, 2))
    (violation,) = read_ledger(files.directory).violations()
    assert (violation.kind, violation.place, violation.examples) == (ViolationKind.DUPLICATE, "spout task 1", (1,))


@pytest.mark.parametrize("record", [(0, 0, 2, 0), (0, 0, 0, 0), (0, 0, 1, 9), (0, 1, 1, 0), (5, 0, 1, 0)])
def test_delivery_that_was_never_emitted_is_unknown(files, record):
    files.facts("drain")
    files.journal([ACKED | 1])
    files.sink((0, 0, 1, 0), record)
    assert found(read_ledger(files.directory)) == {ViolationKind.UNKNOWN: (record[3],)}


def test_runs_of_a_task_are_joined(files):
    """The first run was killed with numbers 2 and 4 pending; the second emitted them again, from number 2 on."""
    files.facts("drain")
    files.journal([ACKED | 1, ACKED | 1, 1, ACKED | 1, 1])
    files.journal([ACKED | 1, 0, ACKED | 1, ACKED | 1], run=1, first=2)
    files.sink((0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 1, 3), (0, 0, 1, 4))
    files.sink((0, 1, 1, 2), (0, 1, 1, 4), (0, 1, 1, 5), started_ms=2)
    ledger = read_ledger(files.directory)
    assert ledger.violations(drained=True) == []
    assert (ledger.emitted, ledger.replays, ledger.surplus, ledger.undelivered) == (6, 2, 1, 1)
    assert ledger.spouts[0].runs == 2
    files.sink((0, 1, 1, 2), (0, 1, 1, 4), (0, 1, 1, 5), (0, 1, 1, 3), started_ms=2)
    assert found(read_ledger(files.directory)) == {ViolationKind.UNKNOWN: (3,)}


def test_incomplete_end_of_a_killed_writer_is_accepted(files):
    files.facts("drain")
    files.journal([ACKED | 1, 1])
    files.sink((0, 0, 1, 0), torn=_record((0, 0, 1, 1))[:11])
    (files.directory / "spout-0-1.journal").write_bytes(b"LEDG")
    ledger = read_ledger(files.directory)
    assert ledger.violations() == []
    assert ledger.spouts[0].delivered.tolist() == [True, False]


def test_directory_without_a_ledger_is_an_input_error(files):
    with pytest.raises(InputError, match="has no ledger"):
        read_ledger(files.directory)
    files.facts("sieve")
    with pytest.raises(InputError, match="sieve"):
        read_ledger(files.directory)
    files.facts("drain")
    (files.directory / "spout-0-0.journal").write_bytes(bytes(40))
    with pytest.raises(InputError, match="is no journal"):
        read_ledger(files.directory)


def test_ledger_that_has_not_begun_has_no_violation(files):
    for kind in LedgerKind:
        files.facts(kind.value, keys=2)
        assert read_ledger(files.directory).violations(drained=True) == []


def checkpoint(files: Files, tallies: Mapping[int, str], entries: Sequence[int]) -> Ledger:
    files.facts("checkpoint", keys=2)
    files.journal(entries)
    files.sink(*((0, 0, 1, number) for number in range(len(entries))))
    files.state(tallies)
    return read_ledger(files.directory)


def test_state_with_all_numbers_has_no_violation(files):
    ledger = checkpoint(files, {0: "3 0:3:", 1: "2 0:2:"}, [ACKED | 1] * 5)
    assert ledger.violations(drained=True) == []
    assert ledger.state_surplus == 0


def test_acked_number_that_no_committed_state_has_is_lost(files):
    """Key 1 has ranks 0 and 2: numbers 1 and 5, but not 3."""
    ledger = checkpoint(files, {0: "3 0:3:", 1: "2 0:1:2"}, [ACKED | 1] * 6)
    assert found(ledger) == {ViolationKind.STATE_LOST: (3,)}


def test_state_may_count_replays_again_but_not_more(files):
    entries = [ACKED | 1, ACKED | 2, ACKED | 1, ACKED | 1]
    assert checkpoint(files, {0: "2 0:2:", 1: "3 0:2:"}, entries).violations(drained=True) == []
    ledger = checkpoint(files, {0: "3 0:2:", 1: "4 0:2:"}, entries)
    assert [(each.kind, each.place, each.count) for each in ledger.violations()] == [
        (ViolationKind.STATE_COUNT, "state of key 0", 1),
        (ViolationKind.STATE_COUNT, "state of key 1", 2),
    ]
    ledger = checkpoint(files, {0: "1 0:2:", 1: "2 0:2:"}, entries)
    assert found(ledger) == {ViolationKind.STATE_COUNT: ()}


def test_number_in_a_state_that_was_never_emitted_is_unknown(files):
    ledger = checkpoint(files, {0: "5 0:3:4 8:1:", 1: "1 0:1:"}, [ACKED | 1] * 3)
    assert found(ledger) == {ViolationKind.UNKNOWN: (0, 4, 8)}


def numbers(*all_of_them: int) -> list[tuple[int, int, int, int]]:
    return [(0, 0, 1, number) for number in all_of_them]


def test_number_in_no_window_is_lost(files):
    files.facts("window", window=1000, slide=500, unit="ms")
    files.journal([ACKED | 1, ACKED | 1, ACKED | 1, 1])
    files.windows(numbers(0, 2), numbers(2))
    assert found(read_ledger(files.directory), drained=False) == {ViolationKind.LOST: (1,)}


def test_number_of_an_incomplete_window_is_not_delivered(files):
    files.facts("window", window=1000, slide=500, unit="ms")
    files.journal([ACKED | 1, 1, 1])
    torn = _record((0xFFFF, 0, 1, 2)) + _record((0, 0, 1, 1)) + _record((0, 0, 1, 2))[:3]
    files.windows(numbers(0), torn=torn)
    ledger = read_ledger(files.directory)
    assert ledger.violations() == []
    assert ledger.spouts[0].delivered.tolist() == [True, False, False]


def test_sliding_windows_are_recomputed(files):
    files.facts("window", window=4, slide=2, unit="tuples")
    files.journal([1] * 8)
    files.windows(numbers(0, 3), numbers(0, 3, 1, 2), numbers(1, 2, 5, 4))
    assert read_ledger(files.directory).violations() == []
    files.windows(numbers(0, 3), numbers(0, 3, 1, 2), numbers(1, 5, 4, 6))
    assert found(read_ledger(files.directory), drained=False) == {ViolationKind.WINDOW_CONTENT: (2,)}
    files.windows(numbers(0, 3), numbers(0, 3, 1))
    assert found(read_ledger(files.directory), drained=False) == {ViolationKind.WINDOW_CONTENT: (1,)}


def test_emission_in_windows_of_two_instances_is_a_duplicate(files):
    files.facts("window", window=1000, slide=500, unit="ms")
    files.journal([ACKED | 1])
    files.windows(numbers(0), numbers(0))
    assert read_ledger(files.directory).violations() == []
    files.windows(numbers(0), started_ms=2)
    assert found(read_ledger(files.directory)) == {ViolationKind.DUPLICATE: (0,)}


@pytest.fixture
def batches(files: Files) -> Files:
    """Write two partitions of numbers 0 to 9 and 0 to 5, in transactions 1 to 3; two keys."""
    files.facts("batch", keys=2)
    (files.directory / "batch-0-1.log").write_text("1 0 0 4\n2 0 4 7\n2 1 4 7\n3 0 7 10\n4 0 10 1")
    (files.directory / "batch-1-1.log").write_text("1 0 0 3\n2 0 3 5\n3 0 5 6\n")
    return files


def count(files: Files, lines: str) -> Ledger:
    (files.directory / "counts-0.txt").write_text(lines)
    return read_ledger(files.directory)


def test_counts_of_batches_are_exact(batches):
    ledger = count(batches, "0\t8\t3\n1\t8\t3\n")
    assert ledger.violations(drained=True) == []
    assert (ledger.emitted, ledger.acked) == (16, 16)


def test_batch_that_is_counted_twice_is_found(batches):
    ledger = count(batches, "0\t8\t3\n1\t9\t3\n")
    assert [(each.kind, each.place, each.count) for each in ledger.violations()] == [
        (ViolationKind.BATCH_COUNT, "key 1", 1)
    ]


def test_batch_that_is_not_counted_is_found(batches):
    """Key 1 is at transaction 1 (1, 3 of partition 0, 1 of partition 1), while transaction 2 was committed."""
    assert found(count(batches, "0\t8\t3\n1\t3\t1\n"), drained=False) == {ViolationKind.LOST: ()}
    assert found(count(batches, "0\t8\t3\n"), drained=False) == {ViolationKind.LOST: ()}


def test_last_transaction_may_be_partly_committed_unless_drained(batches):
    ledger = count(batches, "0\t8\t3\n1\t5\t2\n")
    assert ledger.violations() == []
    assert found(ledger) == {ViolationKind.UNFINISHED: ()}


def test_batch_that_does_not_continue_the_one_before_is_found(batches):
    (batches.directory / "batch-1-1.log").write_text("1 0 0 3\n2 0 4 5\n3 0 5 6\n")
    assert ViolationKind.BATCH_GAP in found(count(batches, ""))


def test_last_attempt_of_a_batch_counts(batches):
    """An attempt that was interrupted before Trident had its range in ZooKeeper may differ."""
    (batches.directory / "batch-1-1.log").write_text("1 0 0 3\n2 0 3 9\n")
    (batches.directory / "batch-1-2.log").write_text("2 1 3 5\n3 0 5 6\n")
    assert count(batches, "0\t8\t3\n1\t8\t3\n").violations(drained=True) == []


def test_random_ledger_agrees_with_plain_python(files):
    """Deliveries of random emissions of three runs, counted by dictionaries."""
    random = np.random.default_rng(7)
    files.facts("drain")
    emissions = random.integers(0, 4, (3, 50))
    acked = random.random(50) < 0.7
    for run, row in enumerate(emissions):
        files.journal([int(times) | (ACKED if acked[n] and run == 0 else 0) for n, times in enumerate(row)], run=run)
    made = [(0, run, a, n) for run in range(3) for n in range(50) for a in range(1, emissions[run, n] + 1)]
    records = [made[i] for i in random.integers(0, len(made), 150)]
    files.sink(*records)
    ledger = read_ledger(files.directory)
    times = {record: records.count(record) for record in records}
    delivered = {number for _, _, _, number in records}
    by_kind = {each.kind: each.count for each in ledger.violations()}
    assert by_kind[ViolationKind.DUPLICATE] == sum(each > 1 for each in times.values())
    assert by_kind[ViolationKind.LOST] == len(set(np.flatnonzero(acked)) - delivered)
    assert ledger.surplus == 150 - len(delivered)
    assert ledger.undelivered == len(made) - len(times)


def test_workload_passes_its_arguments(tmp_path):
    workload = LedgerWorkload(tmp_path, LedgerKind.WINDOW, "w", 500, 2, {"slide": 100})
    assert workload.arguments() == [
        *("kind=window", "name=w", f"directory={tmp_path}", "rate=500", "workers=2", "slide=100")
    ]
