"""Drains of bolts that hold tuples: stateful ones until a checkpoint, windows until they end, or not at all."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from stormwright.base.clock import WallClock
from stormwright.controller.draining import USUAL, Draining, DrainPolicy, drain
from stormwright.controller.tally import Checkpoints, Tally
from stormwright.errors import MoveError
from stormwright.model.requests import CHECKPOINT_SPOUT
from tests.controller.builders import record

TICK_S = 0.5


class VirtualClock(WallClock):
    """Time that passes only while somebody waits, with a call in each tick."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.on_tick: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, changed: threading.Condition, timeout_s: float) -> None:
        self.now_s += TICK_S
        self.on_tick()


class Worker:
    """A worker with a spout and bolts that hold tuples, which reports each half second."""

    def __init__(self, rate_tps: float) -> None:
        self.clock = VirtualClock()
        self.tally = Tally(clock=self.clock)
        self.clock.on_tick = self.report
        self.calls: list[str] = []
        self.active, self.rate_tps = True, rate_tps
        self.held: list[float] = []
        self._seq = itertools.count()
        self.report()

    def activate(self, name: str) -> None:
        self.calls.append("activate")
        self.active = True

    def deactivate(self, name: str) -> None:
        self.calls.append("deactivate")
        self.active = False

    def report(self) -> None:
        """Report the tuples that arrived and were acked within a tick, and the steps of checkpoints."""
        new = round(self.rate_tps * TICK_S) if self.active else 0
        acked, steps = self.let_go()
        self.held += [self.clock.now_s] * new
        made = record("t", "n0", next(self._seq), trees=new, acked=acked, length_ms=1000 * TICK_S)
        checkpoint = {**made["executors"][0], "component": CHECKPOINT_SPOUT, "trees": steps, "acked": steps}
        made["executors"].append(checkpoint)
        self.tally.add([made])

    def let_go(self) -> tuple[int, int]:
        """Return the numbers of acked tuples and of completed steps."""
        return 0, 0

    def drain(self, policy: DrainPolicy, limit_s: float = 75.0) -> tuple[Draining, list[Draining]]:
        topology = Draining("t", "t", [("n0", 6700)], policy=policy)
        return topology, drain([topology], self, self.tally, limit_s)


class Stateful(Worker):
    """Acks at the commit of a checkpoint, of which each active second has one; `left` steps are open at the pause."""

    def __init__(self, rate_tps: float, left: int = 0) -> None:
        self.left, self.prepared, self.fails = left, 0, False
        super().__init__(rate_tps)

    def let_go(self) -> tuple[int, int]:
        if not self.active or self.fails:
            return 0, 0
        steps, acked = 2 + self.left, len(self.held)
        self.left = 0
        self.held.clear()
        return acked, steps


class Windows(Worker):
    """Acks a tuple when it leaves a window of some seconds."""

    def __init__(self, rate_tps: float, window_s: float) -> None:
        self.window_s = window_s
        super().__init__(rate_tps)

    def let_go(self) -> tuple[int, int]:
        gone = [at for at in self.held if self.clock.now_s - at >= self.window_s]
        self.held = self.held[len(gone) :]
        return len(gone), 0


def test_a_checkpoint_commits_all_tuples_from_before_the_pause() -> None:
    worker = Stateful(rate_tps=100)
    paused_s = worker.clock.now_s
    topology, left = worker.drain(DrainPolicy(checkpoint_s=20))
    assert left == []
    assert worker.calls[:3] == ["deactivate", "activate", "deactivate"]
    assert min(worker.held) > paused_s
    assert 0 < topology.pending(worker.tally) <= 100, "only those of the last tick of a turn"
    assert not worker.active


def test_checkpoints_are_repeated_only_while_they_leave_fewer_trees() -> None:
    worker = Stateful(rate_tps=100)
    worker.drain(DrainPolicy(checkpoint_s=20))
    assert worker.calls.count("activate") <= 3


def test_wait_for_a_checkpoint_does_not_count_as_drain() -> None:
    worker = Stateful(rate_tps=100)
    began_s, let_go = worker.clock.now_s, worker.let_go
    worker.let_go = lambda: let_go() if worker.clock.now_s > began_s + 100 else (0, 0)  # type: ignore[method-assign]
    assert worker.drain(DrainPolicy(checkpoint_s=150), limit_s=20)[1] == []


def test_stateful_topology_without_new_tuples_is_committed_entirely() -> None:
    worker = Stateful(rate_tps=100)
    worker.rate_tps = 0
    topology, left = worker.drain(DrainPolicy(checkpoint_s=20))
    assert left == []
    assert topology.pending(worker.tally) == 0
    assert worker.calls == ["deactivate", "activate", "deactivate"]


def test_stateful_topology_without_pending_trees_needs_no_further_checkpoint() -> None:
    worker = Stateful(rate_tps=0)
    assert worker.drain(DrainPolicy(checkpoint_s=20))[1] == []
    assert worker.calls == ["deactivate"]


def test_drain_without_completed_checkpoint_fails_and_leaves_the_spouts_to_the_caller() -> None:
    worker = Stateful(rate_tps=10)
    worker.fails = True
    with pytest.raises(MoveError, match="no checkpoint was completed within 20 s"):
        worker.drain(DrainPolicy(checkpoint_s=20))
    assert worker.calls == ["deactivate", "activate", "deactivate"]


def test_commit_that_was_left_from_before_is_no_checkpoint() -> None:
    before = Checkpoints(acked=7)
    assert not Checkpoints(8, rests=True).completed_since(before), "the commit of the former one"
    assert not Checkpoints(9, rests=False).completed_since(before), "perhaps commit and prepare"
    assert Checkpoints(9, rests=True).completed_since(before), "prepare and commit"
    assert Checkpoints(10, rests=False).completed_since(before), "commit, prepare and commit"


def test_recovery_is_no_checkpoint() -> None:
    before = Checkpoints(acked=7)
    assert not Checkpoints(9, failed=1, rests=True).completed_since(before), "rollback and initialize"
    assert Checkpoints(11, failed=1, rests=True).completed_since(before)


def test_windows_are_waited_for_beyond_the_usual_limit() -> None:
    worker = Windows(rate_tps=10, window_s=100)
    paused_s = worker.clock.now_s
    topology, left = worker.drain(DrainPolicy(windows=True, limit_s=130))
    assert left == []
    assert topology.pending(worker.tally) == 0
    assert 100 <= worker.clock.now_s - paused_s <= 125
    assert worker.calls.count("activate") <= 1, "each turn begins new windows"


def test_windows_longer_than_the_limit_are_left_pending_only_with_permission() -> None:
    worker = Windows(rate_tps=10, window_s=100)
    assert worker.drain(USUAL)[1] != []
    worker = Windows(rate_tps=10, window_s=100)
    topology, left = worker.drain(DrainPolicy(windows=True, limit_s=90, may_replay=True))
    assert left == []
    assert topology.pending(worker.tally) > 0


def test_windows_that_never_end_are_replayed_at_once() -> None:
    worker = Windows(rate_tps=10, window_s=float("inf"))
    paused_s = worker.clock.now_s
    topology, left = worker.drain(DrainPolicy(windows=True, may_replay=True, at_once=True))
    assert left == []
    assert worker.clock.now_s - paused_s < 5
    assert topology.pending(worker.tally) == 5
    assert worker.calls == ["deactivate"]


def test_stop_ends_the_wait() -> None:
    worker, stop = Windows(rate_tps=10, window_s=100), threading.Event()
    stop.set()
    topology = Draining("t", "t", [("n0", 6700)], policy=DrainPolicy(windows=True, limit_s=200))
    assert drain([topology], worker, worker.tally, 75.0, stop) == [topology]


def test_drain_fails_soon_if_a_worker_dies() -> None:
    worker = Windows(rate_tps=10, window_s=100)
    begin_s = worker.clock.now_s
    worker.clock.on_tick = lambda: None
    with pytest.raises(MoveError, match="1 of 1 workers died"):
        worker.drain(USUAL)
    assert worker.clock.now_s - begin_s < 12.0


def test_drain_fails_at_once_if_a_worker_is_replaced() -> None:
    worker = Windows(rate_tps=10, window_s=100)
    begin_s = worker.clock.now_s
    numbers = itertools.count()

    def report() -> None:
        made = record("t", "n0", next(numbers), kind="bolt", queue=0.1, length_ms=1000 * TICK_S)
        worker.tally.add([made | {"worker": {**made["worker"], "pid": 2, "start_ms": 1}}])

    worker.clock.on_tick = report
    with pytest.raises(MoveError, match="1 of 1 workers died"):
        worker.drain(USUAL)
    assert worker.clock.now_s - begin_s < 2.0
