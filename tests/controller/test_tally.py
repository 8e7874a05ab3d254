"""A drain ends exactly when no tree is pending and every live worker has been quiet."""

from __future__ import annotations

import time

from stormwright.controller.tally import Tally
from tests.controller.builders import record


def test_a_record_delivered_twice_counts_once() -> None:
    tally = Tally()
    tally.add([record("t", "n0", 0, trees=10, acked=4)])
    tally.add([record("t", "n0", 0, trees=10, acked=4), record("t", "n0", 1, acked=5, failed=1)])
    assert tally.pending("t") == 0
    assert (tally.totals("t").begun, tally.totals("t").acked, tally.totals("t").failed) == (10, 9, 1)


def test_pending_trees_survive_the_worker_that_began_them() -> None:
    tally = Tally()
    tally.add([record("t", "n0", 0, trees=10, acked=4)])
    tally.add([record("t", "n1", 0, trees=1, acked=1)])
    assert tally.pending("t") == 6


def test_trees_that_nobody_tracks_are_never_pending() -> None:
    untracked = record("t", "n0", 0, trees=0, acked=7)
    untracked["streams"] = []
    tally = Tally()
    tally.add([untracked])
    assert tally.pending("t") == 0
    assert tally.totals("t").acked == 7


def test_quiet_needs_every_live_worker_and_two_intervals() -> None:
    tally = Tally()
    live = [("n0", 6700), ("n1", 6700)]
    tally.add([record("t", "n0", 0, trees=3, acked=3), record("t", "n1", 0)])
    since = time.monotonic()
    tally.add([record("t", "n0", 1), record("t", "n1", 1)])
    assert not tally.quiet("t", live, since), "n0 may have begun a tree in an interval that began before"
    tally.add([record("t", "n0", 2)])
    assert tally.quiet("t", [("n0", 6700)], since)
    assert tally.quiet("t", live, since), "n1 was quiet twice by then as well"
    tally.add([record("t", "n1", 2, queue=0.1)])
    assert not tally.quiet("t", live, since)


def test_bolts_do_not_count_as_trees() -> None:
    tally = Tally()
    tally.add([record("t", "n0", 0, kind="bolt", acked=100, failed=3)])
    assert tally.pending("t") == 0
    assert tally.totals("t").failed == 0
