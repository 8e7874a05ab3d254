"""Draining of topologies: spouts are paused until no tuple tree is pending.

A spout whose tuple finds a full queue keeps it for its next turn, and a paused spout has no turns (Storm's
``SpoutExecutor`` flushes its ``pendingEmits`` only while it is active). Such a tree would be pending until it times
out, half a minute to a minute later, and be replayed. So where trees are pending although nothing happens any more,
spouts get a short turn: the queues are empty by then.

Stateful bolts ack a tuple when a checkpoint that contains it is committed. The spout of checkpoints is paused with the
others and can only be activated together with them. So a drain of stateful bolts is: pause; wait until idle; activate
until a checkpoint that began since is committed; pause; wait until idle. This commits all tuples from before the first
pause. Those that arrived between the last checkpoint and the second pause are pending: if there are none, all state is
committed; else a further checkpoint may leave fewer, and at last they are replayed. Storm's recovery restores the state
of the last commit, so they count once in bolts that are restarted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stormwright.base.clock import Clock
from stormwright.controller.tally import Tally
from stormwright.errors import MoveError
from stormwright.perflog.records import WorkerId

log = logging.getLogger(__name__)

#: Maximum seconds between checks, also during a turn of spouts.
_POLL_S, _PEEK_S = 1.0, 0.1

#: Idle seconds until spouts get a turn, doubled each time; and the maximum number of turns.
_STUCK_S, _TURNS = 2.0, 3

#: Maximum seconds of a turn: on a busy machine spouts are activated late, and only records show that they were.
_TURN_S = 5.0


#: Seconds of silence from which a worker is taken to have died, rather than to be late.
_DEAD_S = 8.0

#: Maximum number of checkpoints for one move: each admits the tuples that arrive meanwhile.
_CHECKPOINTS = 3


class SpoutControl(Protocol):
    """Activates and deactivates the spouts of a topology."""

    def activate(self, name: str) -> None: ...

    def deactivate(self, name: str) -> None: ...


@dataclass(frozen=True)
class DrainPolicy:
    """How a topology is drained; by default until no tuple tree is pending.

    Parameters
    ----------
    checkpoint_s
        Time limit for a checkpoint, which its stateful bolts need to ack tuples; None without stateful bolts.
    windows
        Whether trees are pending until windows end. Spouts get one turn only, as its tuples begin new windows.
    limit_s
        Time limit in seconds, if it is longer than the usual one; else None.
    may_replay
        Whether trees that are pending after the time limit are left to be replayed.
    at_once
        Whether they are left as soon as the topology is idle.
    """

    checkpoint_s: float | None = None
    windows: bool = False
    limit_s: float | None = None
    may_replay: bool = False
    at_once: bool = False


#: Policy of topologies whose bolts ack tuples soon.
USUAL = DrainPolicy()


@dataclass
class Draining:
    """A topology whose spouts are paused.

    Parameters
    ----------
    id, name
        Id and name of the topology.
    live
        Workers of the topology (supervisor, port).
    since
        Time of the last pause of its spouts, by `Clock.monotonic`.
    policy
        How it is drained.
    turns
        Number of turns since the first pause.
    checkpoints
        Pending trees before each checkpoint that was completed since the first pause.
    """

    id: str
    name: str
    live: Collection[tuple[str, int]]
    since: float = 0.0
    policy: DrainPolicy = USUAL
    turns: int = 0
    checkpoints: list[int] = field(default_factory=list)

    def pause(self, spouts: SpoutControl, clock: Clock) -> None:
        """Pause the spouts."""
        self.since = clock.monotonic()
        spouts.deactivate(self.name)

    def is_drained(self, tally: Tally) -> bool:
        """Return whether the topology is idle and no tree is pending, except those that are to be replayed."""
        if not self._is_quiet(tally):
            return False
        pending = self.pending(tally)
        return pending == 0 or self.policy.at_once or self._is_committed(pending)

    def is_replayable(self, tally: Tally) -> bool:
        """Return whether it is idle, and its pending trees may be replayed."""
        return self.policy.may_replay and self._is_quiet(tally)

    def pending(self, tally: Tally) -> int:
        """Return the number of pending trees."""
        return tally.pending(self.id, self.live)

    def _is_committed(self, pending: int) -> bool:
        """Return whether further checkpoints would leave no fewer trees pending."""
        done = self.checkpoints
        return bool(done) and (len(done) >= _CHECKPOINTS or pending >= done[-1])

    def is_stuck(self, tally: Tally) -> bool:
        """Return whether trees are pending but the topology has been idle long enough for a turn to help."""
        if self.policy.checkpoint_s is not None:
            return False  # a checkpoint is a turn, too
        wait_s = _STUCK_S * 2**self.turns
        late = self.turns < (1 if self.policy.windows else _TURNS) and tally.clock.monotonic() > self.since + wait_s
        return late and self._is_quiet(tally) and tally.stuck(self.id, self.live, self.since)

    def flush_blocked_tuples(self, spouts: SpoutControl, tally: Tally) -> None:
        """Activate the spouts for a moment to emit tuples that were blocked by full queues."""
        self.turns += 1
        log.info("%s: pending tuple trees make no progress; spouts are activated for a moment", self.name)
        spouts.activate(self.name)
        until = tally.clock.monotonic() + _TURN_S
        while tally.clock.monotonic() < until and tally.stuck(self.id, self.live, self.since):
            tally.wait(_PEEK_S)
        self.pause(spouts, tally.clock)

    def needs_checkpoint(self, tally: Tally) -> bool:
        """Return whether trees are pending that only a checkpoint completes."""
        return self.policy.checkpoint_s is not None and self._is_quiet(tally) and not self.is_drained(tally)

    def complete_checkpoint(self, spouts: SpoutControl, tally: Tally, stop: threading.Event | None) -> None:
        """Activate the spouts until a checkpoint that began since then is committed, and pause them.

        The checkpoint spout is paused with all others, cannot be activated without them, and begins each step (prepare,
        commit) only while it is active.

        Raises
        ------
        MoveError
            No checkpoint was completed within the time limit.
        """
        log.info("%s: spouts are activated until a checkpoint is completed", self.name)
        self.checkpoints.append(self.pending(tally))
        before, limit_s = tally.checkpoints(self.id), self.policy.checkpoint_s or 0.0
        until = tally.clock.monotonic() + limit_s
        spouts.activate(self.name)
        while not (done := tally.checkpoints(self.id).completed_since(before)):
            if tally.clock.monotonic() >= until or (stop and stop.is_set()):
                break
            tally.wait(_PEEK_S)
        self.pause(spouts, tally.clock)
        if not done and not (stop and stop.is_set()):
            raise MoveError(f"{self.id}: no checkpoint was completed within {limit_s:g} s; nothing was moved")

    def require_workers(self, lives: Collection[WorkerId], tally: Tally) -> None:
        """Raise MoveError if a worker of `lives` has died.

        The one that replaces it processes nothing until the topology is active (``BoltExecutor.init`` of Storm waits
        for that): ticks stay in its queues, and it would not be drained before the time limit.
        """
        replaced = set(lives) - set(tally.lives(self.id, self.live))
        if dead := len(replaced) or len(tally.unheard(self.id, self.live, _DEAD_S)):
            count = f"{dead} of {len(self.live)} workers"
            raise MoveError(f"{self.id}: {count} died while it was paused; nothing was moved")

    def _is_quiet(self, tally: Tally) -> bool:
        return tally.quiet(self.id, self.live, self.since)


def drain(
    topologies: Sequence[Draining],
    spouts: SpoutControl,
    tally: Tally,
    limit_s: float,
    stop: threading.Event | None = None,
) -> list[Draining]:
    """Pause topologies and wait until all their trees are complete.

    Parameters
    ----------
    topologies
        Active topologies to pause.
    spouts
        Activates or deactivates spouts.
    tally
        Counts the records of the workers.
    limit_s
        Usual time limit in seconds; longer if a policy says so.
    stop
        Event that ends the wait early.

    Returns
    -------
    left
        Topologies with pending trees that are not to be replayed.

    Raises
    ------
    MoveError
        No checkpoint was completed in time, or a worker has died.
    """
    lives = [tally.lives(each.id, each.live) for each in topologies]
    for each in topologies:
        each.pause(spouts, tally.clock)
    limit_s = max(limit_s, *(each.policy.limit_s or 0.0 for each in topologies), 0.0)
    next_check_s = tally.clock.monotonic()
    deadline = next_check_s + limit_s
    while left := [each for each in topologies if not each.is_drained(tally)]:
        now_s = tally.clock.monotonic()
        left_s = deadline - now_s
        if stop and stop.is_set():
            break
        if left_s <= 0:
            return [each for each in left if not each.is_replayable(tally)]
        if now_s >= next_check_s:  # not at each record: it scans all workers of the cluster
            next_check_s = now_s + _POLL_S
            for each, known in zip(topologies, lives, strict=True):
                each.require_workers(known, tally)
        for each in left:
            if each.needs_checkpoint(tally):
                each.complete_checkpoint(spouts, tally, stop)
                deadline = tally.clock.monotonic() + limit_s  # the spouts were not paused meanwhile
            elif each.is_stuck(tally):
                each.flush_blocked_tuples(spouts, tally)
        tally.wait(min(left_s, _POLL_S))
    return left
