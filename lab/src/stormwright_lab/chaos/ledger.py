"""Oracle of the ledger workload: whether moves and faults have lost or duplicated a number.

``read_ledger(directory).violations()`` is empty if

1. every acked number was delivered: a sink or a window has it, and the committed state of its key;
2. every delivery is one that a spout has recorded before it was made, and is delivered once: the surplus of a number is
   at most its replays, and of all numbers it is the replays less those that were lost on their way;
3. the committed state counts a key at least as often as it has numbers, and at most by its replays more;
4. of a batch ledger, each batch begins where the one before ends, and the count of each key is exactly that of the
   batches up to its transaction.

With ``drained=True``, for a topology that was drained and has ended, all that was emitted was also acked or counted.

A ledger can be read while its topology runs: journals are read once before the deliveries, for acks, and once after
them, for emissions.

Storm guarantees that tuples are delivered at least once, and Trident's transactional states that batches are counted
once. Within these guarantees:

- Windows by time whose sliding interval is their length lose tuples if their trigger is late (see ``LedgerWindow``):
  the only case in which Storm acks a number that rule 1 then misses.
- A checkpoint counts a replay again if a worker ended between a commit and its acks. Rule 3 permits that.
- A checkpoint ledger does not drain while it is inactive: Storm's checkpoint spout is inactive too, and acks wait for a
  checkpoint. What is pending is emitted again after the message timeout, and is counted again if its worker lives on.
- While the old and the new instance of a moved task run side by side, both may emit the next numbers: these count as
  replays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stormwright_lab.chaos.ledger_files import (
    KeyCount,
    KeyTally,
    LedgerBatch,
    LedgerFacts,
    LedgerJournal,
    LedgerKind,
    WindowLog,
    read_batch_replays,
    read_batches,
    read_counts,
    read_facts,
    read_journals,
    read_sinks,
    read_tallies,
    read_windows,
)

#: Numbers that a violation names.
_EXAMPLES = 5


class ViolationKind(StrEnum):
    """The rule of a ledger that is violated."""

    #: An acked number, or a committed batch, was not delivered.
    LOST = "lost"
    #: An acked number is not in the committed state of its key.
    STATE_LOST = "state_lost"
    #: One emission was delivered twice.
    DUPLICATE = "duplicate"
    #: A delivery, or a number in a state, that no spout has emitted.
    UNKNOWN = "unknown"
    #: A key is counted more often than it was emitted, or less often than it has numbers.
    STATE_COUNT = "state_count"
    #: A window leaves out a tuple between two others, or has the wrong size.
    WINDOW_CONTENT = "window_content"
    #: The count of a key is not that of the batches up to its transaction.
    BATCH_COUNT = "batch_count"
    #: A batch does not begin where the one before ends.
    BATCH_GAP = "batch_gap"
    #: Emitted and not acked, or not counted; only of a drained ledger.
    UNFINISHED = "unfinished"


@dataclass(frozen=True)
class LedgerViolation:
    """One kind of fault of a ledger, at one place.

    Parameters
    ----------
    kind
        The rule that is violated.
    place
        Where: a spout task or a key.
    count
        How many numbers or tuples.
    examples
        The first of them, ascending.
    """

    kind: ViolationKind
    place: str
    count: int
    examples: tuple[int, ...] = ()

    def __str__(self) -> str:
        examples = ", ".join(map(str, self.examples))
        more = ", …" if self.examples and self.count > len(self.examples) else ""
        return f"{self.kind.value}: {self.place}: {self.count:,}" + (f" ({examples}{more})" if examples else "")


@dataclass(frozen=True)
class SpoutLedger:
    """Numbers of one spout task.

    Parameters
    ----------
    task
        Index of the task.
    runs
        How often it was opened.
    emissions
        Emissions of each number by all runs, shape (numbers,).
    acked
        Whether each number had an ack before the deliveries were read, shape (numbers,).
    delivered
        Whether each number was delivered to a sink or in a window, shape (numbers,).
    duplicates
        Numbers of the emissions that were delivered more than once.
    """

    task: int
    runs: int
    emissions: NDArray[np.int64]
    acked: NDArray[np.bool_]
    delivered: NDArray[np.bool_]
    duplicates: NDArray[np.int64]

    @property
    def emitted(self) -> int:
        """Number after the highest emitted one."""
        return len(self.emissions)

    @property
    def low(self) -> int:
        """Lowest number without an ack; `emitted` if there is none."""
        return self.emitted if self.acked.all() else int(np.argmin(self.acked))

    @property
    def replays(self) -> int:
        """Emissions besides the first one of each number."""
        return int(self.emissions.sum() - np.count_nonzero(self.emissions))


@dataclass(frozen=True)
class Ledger:
    """Records of a ledger workload.

    Parameters
    ----------
    facts
        Arguments of the workload.
    spouts
        Numbers of every spout task; none of a batch ledger.
    deliveries
        How often each emission was delivered, shape (emissions,): in order of task, run, number and attempt.
    unknown
        Numbers of deliveries that no spout has recorded.
    windows
        Windows of every log, of a window ledger.
    tallies
        Committed state by key, of a checkpoint ledger.
    batches, counts
        Batches by spout task, and counts by key, of a batch ledger.
    batch_replays
        Numbers of all attempts of batches besides the last one of each.
    """

    facts: LedgerFacts
    spouts: tuple[SpoutLedger, ...] = ()
    deliveries: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    unknown: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    windows: Sequence[WindowLog] = ()
    tallies: Mapping[int, Sequence[KeyTally]] = field(default_factory=dict)
    batches: Mapping[int, Sequence[LedgerBatch]] = field(default_factory=dict)
    counts: Mapping[int, Sequence[KeyCount]] = field(default_factory=dict)
    batch_replays: int = 0

    @property
    def emitted(self) -> int:
        """Numbers emitted by all tasks."""
        if self.facts.kind is LedgerKind.BATCH:
            return sum(batches[-1].stop for batches in self.batches.values() if batches)
        return sum(spout.emitted for spout in self.spouts)

    @property
    def acked(self) -> int:
        """Numbers acked; of a batch ledger, numbers counted."""
        if self.facts.kind is LedgerKind.BATCH:
            return sum(count.tuples for counts in self.counts.values() for count in counts)
        return sum(int(np.count_nonzero(spout.acked)) for spout in self.spouts)

    @property
    def replays(self) -> int:
        """Emissions besides the first one of each number."""
        return sum(spout.replays for spout in self.spouts) + self.batch_replays

    @property
    def surplus(self) -> int:
        """Deliveries besides the first one of each number."""
        delivered = sum(int(np.count_nonzero(spout.delivered)) for spout in self.spouts)
        return int(self.deliveries.sum()) - delivered

    @property
    def undelivered(self) -> int:
        """Emissions that were not delivered: lost on their way, or still on it."""
        return int(np.count_nonzero(self.deliveries == 0))

    @property
    def state_surplus(self) -> int:
        """Tuples that the committed state counts besides the first one of each number."""
        return sum(tally.tuples - _distinct(tally) for tallies in self.tallies.values() for tally in tallies)

    def violations(self, drained: bool = False) -> list[LedgerViolation]:
        """Return all that contradicts the rules of this module.

        Parameters
        ----------
        drained
            Whether the topology was drained and has ended, so that nothing may be unfinished.
        """
        if self.facts.kind is LedgerKind.BATCH:
            return list(_batch_violations(self.facts.keys, self.batches, self.counts, drained))
        found = [*_delivery_violations(self, drained)]
        if self.facts.kind is LedgerKind.WINDOW:
            found += _window_violations(self.facts, self.windows)
        if self.facts.kind is LedgerKind.CHECKPOINT:
            found += _state_violations(self.facts.keys, self.spouts, self.tallies)
        return found


def read_ledger(directory: Path) -> Ledger:
    """Read the files of a ledger workload, of one that runs or has ended.

    Parameters
    ----------
    directory
        Argument ``directory`` of the workload.

    Raises
    ------
    InputError
        The directory has no ledger, or a file has another format.
    """
    facts = read_facts(directory)
    if facts.kind is LedgerKind.BATCH:
        counts = read_counts(directory)  # first: a batch is in the journal before it can be counted
        replays = read_batch_replays(directory)
        return Ledger(facts, batches=read_batches(directory), counts=counts, batch_replays=replays)
    before = read_journals(directory)
    windows = read_windows(directory) if facts.kind is LedgerKind.WINDOW else []
    logs = [log.records for log in windows] or [read_sinks(directory)]
    tallies = read_tallies(directory) if facts.kind is LedgerKind.CHECKPOINT else {}
    emissions = _Emissions(read_journals(directory))
    return _ledger(facts, emissions, before, logs, windows, tallies)


def _ledger(
    facts: LedgerFacts,
    emissions: _Emissions,
    before: Sequence[LedgerJournal],
    logs: Sequence[np.ndarray],
    windows: Sequence[WindowLog],
    tallies: Mapping[int, Sequence[KeyTally]],
) -> Ledger:
    deliveries = np.zeros(emissions.total, np.int64)
    unknown = []
    delivered = {task: np.zeros(length, np.bool_) for task, length in emissions.lengths.items()}
    for records in logs:
        index = emissions.locate(records)
        found = index >= 0
        each = np.bincount(index[found], minlength=emissions.total)
        # A sliding window has a tuple again: a delivery to a log counts once.
        deliveries += np.minimum(each, 1) if windows else each
        unknown.append(records["number"][~found])
        for task, numbers in delivered.items():
            numbers[records["number"][found & (records["task"] == task)]] = True
    acked = _acked(before, emissions.lengths)
    twice = emissions.numbers(np.flatnonzero(deliveries > 1))
    spouts = tuple(
        SpoutLedger(task, emissions.runs[task], emissions.by_number(task), acked[task], delivered[task], twice[task])
        for task in sorted(emissions.lengths)
    )
    return Ledger(facts, spouts, deliveries, np.concatenate([np.empty(0, np.int64), *unknown]), windows, tallies)


class _Emissions:
    """Emissions of all journals, each with an index: in order of task, run, number and attempt."""

    def __init__(self, journals: Sequence[LedgerJournal]) -> None:
        self._journals = journals
        self.lengths: dict[int, int] = {}
        self.runs: dict[int, int] = {}
        for journal in journals:
            end = journal.first + len(journal.emissions)
            self.lengths[journal.task] = max(end, self.lengths.get(journal.task, 0))
            self.runs[journal.task] = self.runs.get(journal.task, 0) + 1
        self._entries = np.concatenate([np.empty(0, np.int64), *(journal.emissions for journal in journals)])
        #: Index of the first emission of each entry.
        self._starts = np.cumsum(self._entries) - self._entries
        self.total = int(self._entries.sum())
        # Journals by task and run: the first number, the number of entries, and the place of the first entry.
        shape = (max(self.lengths, default=0) + 1, max((journal.run for journal in journals), default=0) + 1)
        self._first, self._length, self._offset = (np.zeros(shape, np.int64) for _ in range(3))
        offset = 0
        for journal in journals:
            at = journal.task, journal.run
            self._first[at], self._length[at], self._offset[at] = journal.first, len(journal.emissions), offset
            offset += len(journal.emissions)

    def locate(self, records: np.ndarray) -> NDArray[np.int64]:
        """Return the index of the emission of each record, -1 for one that is in no journal."""
        index = np.full(len(records), -1, np.int64)
        tasks, runs = self._first.shape
        known = np.flatnonzero((records["task"] < tasks) & (records["run"] < runs))
        task, run = records["task"][known], records["run"][known]
        entry = records["number"][known] - self._first[task, run]
        within = (entry >= 0) & (entry < self._length[task, run])
        known, entry = known[within], (entry + self._offset[task, run])[within]
        attempt = records["attempt"][known].astype(np.int64)
        made = (attempt >= 1) & (attempt <= self._entries[entry])
        index[known[made]] = self._starts[entry[made]] + attempt[made] - 1
        return index

    def numbers(self, index: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
        """Return the numbers of emissions, by task."""
        entry = np.searchsorted(self._starts, index, side="right") - 1
        numbers = {task: np.empty(0, np.int64) for task in self.lengths}
        offset = 0
        for journal in self._journals:
            own = entry[(entry >= offset) & (entry < offset + len(journal.emissions))] - offset + journal.first
            numbers[journal.task] = np.concatenate([numbers[journal.task], own])
            offset += len(journal.emissions)
        return numbers

    def by_number(self, task: int) -> NDArray[np.int64]:
        """Return the emissions of each number of a task by all runs."""
        total = np.zeros(self.lengths[task], np.int64)
        for journal in self._journals:
            if journal.task == task:
                total[journal.first : journal.first + len(journal.emissions)] += journal.emissions
        return total


def _acked(journals: Sequence[LedgerJournal], lengths: Mapping[int, int]) -> dict[int, NDArray[np.bool_]]:
    acked = {task: np.zeros(length, np.bool_) for task, length in lengths.items()}
    for journal in journals:
        acked[journal.task][: journal.first] = True
        acked[journal.task][journal.first : journal.first + len(journal.acked)] |= journal.acked
    return acked


def _violation(kind: ViolationKind, place: str, numbers: NDArray[np.int64]) -> Iterator[LedgerViolation]:
    """Yield a violation by all of the numbers, if there are any."""
    if len(numbers):
        yield LedgerViolation(kind, place, len(numbers), tuple(np.sort(numbers)[:_EXAMPLES].tolist()))


def _delivery_violations(ledger: Ledger, drained: bool) -> Iterator[LedgerViolation]:
    """Yield violations of rules 1 and 2."""
    for spout in ledger.spouts:
        place = f"spout task {spout.task}"
        yield from _violation(ViolationKind.LOST, place, np.flatnonzero(spout.acked & ~spout.delivered))
        yield from _violation(ViolationKind.DUPLICATE, place, spout.duplicates)
        if drained:
            yield from _violation(ViolationKind.UNFINISHED, place, np.flatnonzero(~spout.acked))
    yield from _violation(ViolationKind.UNKNOWN, "deliveries", ledger.unknown)


def _distinct(tally: KeyTally) -> int:
    return sum(progress.mark + len(progress.later) for progress in tally.progress)


def _state_violations(
    keys: int, spouts: Sequence[SpoutLedger], tallies: Mapping[int, Sequence[KeyTally]]
) -> Iterator[LedgerViolation]:
    """Yield violations of rules 1 and 3."""
    applied = {spout.task: np.zeros(spout.emitted, np.bool_) for spout in spouts}
    replays = np.zeros(keys, np.int64)
    for spout in spouts:
        again = np.maximum(spout.emissions - 1, 0)
        replays += np.bincount(np.arange(spout.emitted) % keys, weights=again, minlength=keys).astype(np.int64)
    for key, several in sorted(tallies.items()):
        place = f"state of key {key}"
        unknown: list[int] = []
        for task, mark, later in (progress for tally in several for progress in tally.progress):
            numbers = applied.get(task, np.empty(0, np.bool_))
            end = key + mark * keys
            numbers[key:end:keys] = True
            beyond = list(range(key, end, keys)[len(numbers[key:end:keys]) :])
            for number in (key + rank * keys for rank in later):
                if number < len(numbers):
                    numbers[number] = True
                else:
                    beyond.append(number)
            unknown += beyond
        yield from _violation(ViolationKind.UNKNOWN, place, np.array(unknown, np.int64))
        surplus = sum(tally.tuples - _distinct(tally) for tally in several)
        if key >= keys or not 0 <= surplus <= replays[key]:
            yield LedgerViolation(ViolationKind.STATE_COUNT, place, surplus)
    for spout in spouts:
        lost = np.flatnonzero(spout.acked & ~applied[spout.task])
        yield from _violation(ViolationKind.STATE_LOST, f"spout task {spout.task}", lost)


def _window_violations(facts: LedgerFacts, windows: Sequence[WindowLog]) -> Iterator[LedgerViolation]:
    """Yield windows that differ from those of the stream of tuples that the log has, recomputed."""
    for number, log in enumerate(windows):
        if not len(log.sizes):
            continue
        order = _arrival_order(log.records)
        begins = np.cumsum(log.sizes) - log.sizes
        # The tuples of a window are consecutive in the stream, and windows do not go back.
        inner = np.ones(len(order), np.bool_)
        inner[begins] = False
        wrong = np.flatnonzero(inner[1:] & (np.diff(order) != 1)) + 1
        faulty = set(np.searchsorted(begins, wrong, side="right") - 1)
        faulty |= set(np.flatnonzero(np.diff(order[begins]) < 0) + 1)
        if facts.unit == "tuples":
            expected = np.minimum((np.arange(len(log.sizes)) + 1) * facts.slide, facts.window)
            faulty |= set(np.flatnonzero(log.sizes != expected))
        yield from _violation(
            ViolationKind.WINDOW_CONTENT, f"windows of log {number}", np.array(sorted(faulty), np.int64)
        )


def _arrival_order(records: np.ndarray) -> NDArray[np.int64]:
    """Return the place of each tuple in the stream: by its first window."""
    # Few combinations of all but the number: with their codes, an emission is one integer, which sorts fast.
    other = records["task"].astype(np.int64) << 48 | records["run"].astype(np.int64) << 32 | records["attempt"]
    combinations, code = np.unique(other, return_inverse=True)
    _, first, inverse = np.unique(records["number"] * len(combinations) + code, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[inverse]


def _batch_violations(
    keys: int, batches: Mapping[int, Sequence[LedgerBatch]], counts: Mapping[int, Sequence[KeyCount]], drained: bool
) -> Iterator[LedgerViolation]:
    """Yield violations of rule 4."""
    for task, several in batches.items():
        stops = [0, *(batch.stop for batch in several)]
        gaps = [batch.start for batch, stop in zip(several, stops, strict=False) if batch.start != stop]
        yield from _violation(ViolationKind.BATCH_GAP, f"spout task {task}", np.array(gaps, np.int64))
    ranges = [np.array(several, np.int64).reshape(-1, 3).T for several in batches.values()]

    def expected(key: int, transaction: int) -> int:
        """Return the numbers of a key in all batches up to a transaction."""
        numbers = 0
        for transactions, starts, stops in ranges:
            upto = np.searchsorted(transactions, transaction, side="right")
            # Below n there are ceil((n - key) / keys) numbers of a key.
            below = -((key - np.maximum((starts[:upto], stops[:upto]), key)) // keys)
            numbers += int((below[1] - below[0]).sum())
        return numbers

    last_emitted = max((several[-1].transaction for several in batches.values() if several), default=0)
    last = max((each.transaction for known in counts.values() for each in known), default=0)
    for key in sorted({*range(keys), *counts}):
        place = f"key {key}"
        known = counts.get(key, ())
        count = sum(each.tuples for each in known)
        transaction = max((each.transaction for each in known), default=0)
        difference = count - expected(key, transaction)
        if difference or len(known) > 1 or key >= keys:
            yield LedgerViolation(ViolationKind.BATCH_COUNT, place, difference)
        # Batches are committed in order: all before the last one were.
        elif (behind := expected(key, last - 1) - count) > 0:
            yield LedgerViolation(ViolationKind.LOST, place, behind)
        elif drained and (open_numbers := expected(key, last_emitted) - count) > 0:
            yield LedgerViolation(ViolationKind.UNFINISHED, place, open_numbers)
