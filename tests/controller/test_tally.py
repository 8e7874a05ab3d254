"""A drain ends exactly when no tree is pending and every live worker has been quiet."""

from __future__ import annotations

import itertools

import pytest

from stormwright.base.clock import WallClock
from stormwright.controller.tally import MAX_AHEAD, MIN_SILENT_S, Tally, WorkerTally
from tests.controller.builders import record


class Clock(WallClock):
    """Time that passes for who sleeps, and a little at each look: however busy the machine is."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def monotonic(self) -> float:
        self._now_s += 1e-6
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_record_delivered_twice_counts_once() -> None:
    tally = Tally()
    tally.add([record("t", "n0", 0, trees=10, acked=4)])
    tally.add([record("t", "n0", 0, trees=10, acked=4), record("t", "n0", 1, acked=5, failed=1)])
    assert tally.unaccounted("t") == 0
    assert (tally.totals("t").begun, tally.totals("t").acked, tally.totals("t").failed) == (10, 9, 1)


def test_pending_trees_outlive_the_worker_with_their_spout() -> None:
    tally = Tally()
    tally.add([record("t", "n0", 0, trees=10, acked=4)])
    tally.add([record("t", "n1", 0, trees=1, acked=1)])
    assert tally.unaccounted("t") == 6


def test_untracked_trees_are_never_pending() -> None:
    untracked = record("t", "n0", 0, trees=0, acked=7)
    untracked["streams"] = []
    tally = Tally()
    tally.add([untracked])
    assert tally.unaccounted("t") == 0
    assert tally.totals("t").acked == 7


def test_standbys_are_those_of_the_worker_that_has_looked_last(clock: Clock) -> None:
    """Each looks every ten seconds: of a standby that a new worker has used, another one does not know yet."""
    tally, sequence = Tally(clock=clock), itertools.count()

    def report(worker: str, count: int) -> None:
        of_host = record(worker, "n0", next(sequence))
        of_host["worker"]["host"], of_host["node"] = "host", {"standbys": count}
        tally.add([of_host])

    report("old", 1)
    report("new", 0)
    report("old", 1)
    assert tally.missing_standbys({"host": 1}) == {"host": 1}
    report("old", 0)
    clock.sleep(13)
    report("old", 1)
    assert tally.missing_standbys({"host": 1}) == {}, "the other one has ended"
    clock.sleep(61)
    assert tally.standbys() == {}


def test_a_node_that_has_just_begun_to_load_standbys_is_waited_for(clock: Clock) -> None:
    tally = Tally(clock=clock)
    first = record("t", "n0", 0)
    first["worker"]["host"], first["node"] = "host", {"standbys": 0}
    tally.add([first])
    assert tally.missing_standbys({"host": 2, "without": 1}) == {"host": 1}
    clock.sleep(200)
    tally.add([{**first, "seq": 1}])
    assert tally.missing_standbys({"host": 2}) == {}, "it loads none"


def test_quiet_needs_every_live_worker_and_two_intervals(clock: Clock) -> None:
    tally = Tally(clock=clock)
    live = [("n0", 6700), ("n1", 6700)]
    tally.add([record("t", "n0", seq, length_ms=20) for seq in (0, 1)])
    since = clock.monotonic()
    tally.add([record("t", "n0", 2, length_ms=20), record("t", "n1", 2, length_ms=20)])
    assert not tally.quiet("t", live, since), "either may have begun a tree in an interval that began before"
    tally.add([record("t", "n0", 3, length_ms=20)])
    assert not tally.quiet("t", live[:1], since), "a backlog tells of earlier times"
    clock.sleep(0.02)
    tally.add([record("t", "n0", 4, length_ms=20)])
    assert tally.quiet("t", live[:1], since)
    assert not tally.quiet("t", live, since)
    tally.add([record("t", "n1", 3, length_ms=20)])
    assert tally.quiet("t", live, since)
    tally.add([record("t", "n1", 4, queue=0.1, length_ms=20)])
    assert tally.quiet("t", live, since), "a paused spout looks at its queue twice a second"
    tally.add([record("t", "n1", 5, kind="bolt", queue=0.1, length_ms=20)])
    assert not tally.quiet("t", live, since)


def test_late_record_does_not_override_newer_pending_count() -> None:
    tally = Tally()
    newer, older = record("t", "n0", 7, trees=5), record("t", "n0", 6, trees=2, acked=2)
    newer["executors"][0]["pending"], older["executors"][0]["pending"] = 5, 0
    tally.add([newer])
    tally.add([older])
    assert tally.pending("t", [("n0", 6700)]) == 5
    assert tally.totals("t").begun == 7


def test_worker_counts_as_ended_after_its_report_or_timeout(clock: Clock) -> None:
    tally = Tally(clock=clock)
    tally.add([record("t", "n0", 0, length_ms=20), record("t", "n1", 0, length_ms=20, last=1)])
    (alive,), (ended,) = tally.lives("t", [("n0", 6700)]), tally.lives("t", [("n1", 6700)])
    assert not tally.has_ended(alive, MIN_SILENT_S)
    assert tally.has_ended(ended, MIN_SILENT_S)
    clock.sleep(MIN_SILENT_S)
    assert tally.has_ended(alive, MIN_SILENT_S)
    assert not tally.has_ended(alive, 2 * MIN_SILENT_S)
    assert tally.unheard("t", [("n0", 6700), ("n9", 6700)]) == [("n0", 6700), ("n9", 6700)]


def test_bolts_do_not_count_as_trees() -> None:
    tally = Tally()
    tally.add([record("t", "n0", 0, kind="bolt", acked=100, failed=3)])
    assert tally.unaccounted("t") == 0
    assert tally.totals("t").failed == 0


def test_pending_count_is_last_value_reported_by_live_workers() -> None:
    """The service came late: it has heard of 5 trees, acked after 9 of which it never heard the beginning."""
    tally = Tally()
    late = record("t", "n0", 7000, trees=5, acked=11)
    late["executors"][0]["pending"] = 3
    tally.add([late])
    assert tally.pending("t", [("n0", 6700)]) == 3
    over = record("t", "n0", 7001, acked=3)
    over["executors"][0]["pending"] = 0
    tally.add([over])
    assert tally.pending("t", [("n0", 6700)]) == 0
    assert tally.unaccounted("t") < 0, "counts alone never come to zero"


def test_pending_count_excludes_ended_workers() -> None:
    tally = Tally()
    tally.add([record("t", "n0", 0, trees=10, acked=4), record("t", "n1", 0, trees=1)])
    assert tally.pending("t", [("n1", 6700)]) == 1


def test_lost_records_cost_no_memory() -> None:
    worker = WorkerTally()
    assert all(worker.is_new(seq) for seq in range(5, 5 + 3 * MAX_AHEAD))
    assert len(worker.received_ahead) <= MAX_AHEAD
    assert not worker.is_new(3 * MAX_AHEAD)


def test_workers_of_long_ago_are_only_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormwright.controller.tally.FORGOTTEN_S", -1.0)
    monkeypatch.setattr("stormwright.controller.tally.SWEEP_S", 0.0)
    tally = Tally()
    tally.add([record("t", "n0", 0, trees=10, acked=4)])
    assert tally.unaccounted("t") == 6
    assert not tally.lives("t", [("n0", 6700)])


def test_implausible_sequence_number_does_not_silence_a_worker(clock: Clock) -> None:
    tally = Tally(clock=clock)
    tally.add([record("t", "n0", seq, trees=1, acked=1) for seq in range(3)])
    tally.add([record("t", "n0", 10**15, length_ms=20)])
    since = clock.monotonic()
    tally.add([record("t", "n0", 3, trees=5, length_ms=20)])
    assert tally.pending("t", [("n0", 6700)]) == 5
    assert tally.reports("t", "n0", 6700, frozenset(), since)
    for seq in (4, 5):
        clock.sleep(0.02)
        tally.add([record("t", "n0", seq, length_ms=20)])
    assert tally.quiet("t", [("n0", 6700)], since)
    tally.add([record("t", "n0", 5, trees=100), record("t", "n0", 10**15, trees=100)])
    assert tally.totals("t").begun == 8, "each still counts once"


def test_a_worker_crashes_if_it_ends_at_each_start_and_no_tree_completes(clock: Clock) -> None:
    tally, live = Tally(clock=clock), [("n0", 6700), ("n1", 6700)]

    def life(node: str, started_ms: int, seq: int = 0, **counts: int) -> None:
        one = record("t", node, seq, **counts)
        tally.add([one | {"worker": one["worker"] | {"start_ms": started_ms}}])

    life("n0", 0, acked=5)
    life("n1", 0)
    clock.sleep(25)
    assert not tally.crashes("t", live), "nothing is heard of any worker: the reports may be lost"
    for seq in range(1, 30):
        life("n0", 0, seq)
        clock.sleep(1)
    assert not tally.crashes("t", live), "one is silent, and may work"
    life("n1", 25_000)
    assert not tally.crashes("t", live), "it was replaced once, as by a move"
    life("n1", 35_000)
    assert tally.crashes("t", live)
    assert not tally.crashes("t", live[:1]), "another worker has that slot now"
    life("n0", 0, 30, acked=1)
    assert not tally.crashes("t", live), "trees complete"
    clock.sleep(21)
    assert tally.crashes("t", live)
    clock.sleep(160)
    assert not tally.crashes("t", live), "the last start is long ago"


def test_a_topology_stalls_if_new_workers_complete_nothing_as_the_old_ones_did(clock: Clock) -> None:
    tally, live = Tally(clock=clock), [("n1", 6700)]
    for seq in range(20):
        tally.add([record("t", "n0", seq, trees=5, acked=5)])
        clock.sleep(1)
    assert not tally.stalls("t", [("n0", 6700)]), "it has no earlier workers"
    for seq in range(25):
        tally.add([record("t", "n1", seq, trees=5 if seq < 4 else 0)])
        assert not tally.stalls("t", live) or seq > 19
        clock.sleep(1)
    assert tally.stalls("t", live)
    tally.add([record("t", "n1", 25, acked=1)])
    assert not tally.stalls("t", live), "a tree has completed"
    clock.sleep(21)
    assert tally.stalls("t", live)
    tally.add([record("t", "n1", 26, acked=19)])
    clock.sleep(21)
    assert not tally.stalls("t", live), "none is pending: nothing came"


def test_a_topology_of_few_trees_does_not_stall(clock: Clock) -> None:
    tally = Tally(clock=clock)
    for seq in range(10):
        tally.add([record("t", "n0", seq, trees=1, acked=1)])
        clock.sleep(30)
    tally.add([record("t", "n1", 0, trees=1)])
    clock.sleep(60)
    assert not tally.stalls("t", [("n1", 6700)])
