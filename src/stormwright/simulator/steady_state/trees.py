"""Trees of a steady state that begins and ends: how many are pending, acked, failed and lost.

Trees begun at λ per second, of which each takes L seconds, are λ L pending (Little's law); from one rate to the next
their number goes on exponentially, as from a queue that serves everyone at once. What is begun beyond what a placement
completes queues up, and is completed at that rate.
"""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray

#: Fewer pending trees are none; no tree takes less time, in seconds; and what is lost in sums.
_NONE, _SHORTEST_S, _ROUNDING = 0.5, 1e-6, 1e-6


class Trees:
    """Trees of all spouts' executors since the beginning, in whole numbers; a tree that nobody answers times out.

    Parameters
    ----------
    spouts, topology
        Executors of spouts, and the topology of each, shape (S,).
    topologies
        How many there are.
    timeout_s
        Seconds after which a spout gives up what nobody answers.

    Attributes
    ----------
    begun, acked, failed
        By executor, shape (S,).
    lost
        Trees that lost a tuple, by topology, shape (T,).
    """

    def __init__(self, spouts: IndexArray, topology: IndexArray, topologies: int, timeout_s: float) -> None:
        self.spouts, self._topology, self._timeout_s = spouts, topology, timeout_s
        self.begun, self.acked, self.failed = (np.zeros(len(spouts), np.int64) for _ in range(3))
        self.lost = np.zeros(topologies, np.int64)
        self._pending = np.zeros(topologies)
        self._begun, self._share = np.zeros(len(spouts)), np.zeros(len(spouts))
        # Of those that nobody answers: whom the spout will give up, until when, and whom it knows no longer.
        self._gone, self._forgotten = (np.zeros(len(spouts), np.int64) for _ in range(2))
        self._until_s = np.full(len(spouts), np.inf)

    def share(self, handled: FloatArray) -> None:
        """Which part of its topology's trees each executor begins from now on, by any unit; shape (S,)."""
        whole = np.bincount(self._topology, handled, len(self._pending))[self._topology]
        self._share = np.divide(handled, whole, out=np.zeros(len(handled)), where=whole > 0)

    def unanswered(self) -> FloatArray:
        """Trees that take a place among those that may be pending though nobody works on them, shape (T,)."""
        return np.bincount(self._topology, self._gone, len(self._pending)).astype(np.float64)

    def pending(self) -> FloatArray:
        """Trees that are worked on, shape (T,)."""
        return self._pending

    def go_on(
        self, seconds: float, now_s: float, begin_tps: FloatArray, reach_tps: FloatArray, stay_s: FloatArray
    ) -> FloatArray:
        """Let time pass; how many trees were completed, shape (T,).

        Parameters
        ----------
        seconds, now_s
            How long, and what time it is then.
        begin_tps, reach_tps
            Trees/s that are begun, and that could be completed, shape (T,).
        stay_s
            How long each takes where nothing queues up, shape (T,).
        """
        begun = begin_tps * seconds
        after = _after(seconds, self._pending, begin_tps, reach_tps, np.maximum(stay_s, _SHORTEST_S))
        done = np.maximum(self._pending + begun - after, 0.0)
        self._pending = self._pending + begun - done
        self._begun += begun[self._topology] * self._share
        over = self._until_s <= now_s
        self.failed[over] += self._gone[over]
        self._gone[over], self._until_s[over] = 0, np.inf
        self._count()
        return done

    def lose(self, topologies: BoolArray, restarted: BoolArray, now_s: float) -> None:
        """All that some topologies are working on is lost, shape (T,); spouts that start anew know of nothing, (S,)."""
        self._count()
        of = topologies[self._topology]
        open_ = np.where(of, self._open(), 0)
        self.lost += np.bincount(self._topology, open_, len(self.lost)).astype(np.int64)
        self._pending = np.where(topologies, 0.0, self._pending)
        self._gone += open_
        self._until_s = np.where(of & (open_ > 0), now_s + self._timeout_s, self._until_s)
        self._forgotten[restarted] += self._gone[restarted]
        self._gone[restarted], self._until_s[restarted] = 0, np.inf

    def _open(self) -> IndexArray:
        """Trees that are worked on, by executor, shape (S,)."""
        whole: IndexArray = np.rint(self._pending[self._topology] * self._share).astype(np.int64)
        return whole

    def _count(self) -> None:
        self.begun = np.floor(self._begun + _ROUNDING).astype(np.int64)
        self.acked = np.maximum(self.acked, self.begun - self._open() - self._gone - self._forgotten - self.failed)


def _after(
    seconds: float, pending: FloatArray, begin_tps: FloatArray, reach_tps: FloatArray, stay_s: FloatArray
) -> FloatArray:
    """How many trees are pending after some time, shape (T,)."""
    usual, spare = reach_tps * stay_s, reach_tps - begin_tps
    ahead, inside = np.maximum(pending - usual, 0.0), np.minimum(pending, usual)
    queued_s = np.divide(ahead, spare, out=np.where(ahead > 0, np.inf, 0.0), where=spare > 0)
    ahead = np.maximum(ahead - spare * seconds, 0.0)
    goal = np.minimum(begin_tps, reach_tps) * stay_s
    inside = goal + (inside - goal) * np.exp(-np.maximum(seconds - queued_s, 0.0) / stay_s)
    after = np.where(reach_tps > 0, inside + ahead, pending + begin_tps * seconds)
    return np.where((begin_tps == 0) & (after < _NONE) & (reach_tps > 0), 0.0, after)
