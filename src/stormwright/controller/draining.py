"""Draining of topologies: spouts are paused until no tuple tree is pending.

A spout whose tuple finds a full queue keeps it for its next turn, and a paused spout has no turns (Storm's
``SpoutExecutor`` flushes its ``pendingEmits`` only while it is active). Such a tree would be pending until it times
out, half a minute to a minute later, and be replayed. So where trees are pending although nothing happens any more,
spouts get a short turn: the queues are empty by then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from stormwright.clock import Clock
from stormwright.controller.tally import Tally

log = logging.getLogger(__name__)

#: Maximum seconds between checks, also during a turn of spouts.
_POLL_S, _PEEK_S = 1.0, 0.1

#: Idle seconds until spouts get a turn, doubled each time; and the maximum number of turns.
_STUCK_S, _TURNS = 2.0, 3

#: Maximum seconds of a turn: on a busy machine spouts are activated late, and only records show that they were.
_TURN_S = 5.0


class SpoutControl(Protocol):
    """Activates and deactivates the spouts of a topology."""

    def activate(self, name: str) -> None: ...

    def deactivate(self, name: str) -> None: ...


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
    turns
        Number of turns since the first pause.
    """

    id: str
    name: str
    live: Collection[tuple[str, int]]
    since: float = 0.0
    turns: int = 0

    def pause(self, spouts: SpoutControl, clock: Clock) -> None:
        """Pause the spouts."""
        self.since = clock.monotonic()
        spouts.deactivate(self.name)

    def is_drained(self, tally: Tally) -> bool:
        """Return whether the topology is idle and no tree is pending."""
        return self._is_quiet(tally) and tally.pending(self.id, self.live) == 0

    def is_stuck(self, tally: Tally) -> bool:
        """Return whether trees are pending but the topology has been idle long enough for a turn to help."""
        wait_s = _STUCK_S * 2**self.turns
        late = self.turns < _TURNS and tally.clock.monotonic() > self.since + wait_s
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
        Time limit in seconds.
    stop
        Event that ends the wait early.

    Returns
    -------
    left
        Topologies with pending trees.
    """
    for each in topologies:
        each.pause(spouts, tally.clock)
    deadline = tally.clock.monotonic() + limit_s
    while left := [each for each in topologies if not each.is_drained(tally)]:
        left_s = deadline - tally.clock.monotonic()
        if left_s <= 0 or (stop and stop.is_set()):
            break
        for each in left:
            if each.is_stuck(tally):
                each.flush_blocked_tuples(spouts, tally)
        tally.wait(min(left_s, _POLL_S))
    return left
