"""Pending, acked, failed and lost trees between changes of the steady state.

Trees begun at λ per second, of which each takes L seconds, are λ L pending (Little's law); from one rate to the next
their number changes exponentially, as in a queue with infinitely many servers. Trees begun beyond the capacity of a
placement queue up, and are completed at that rate.
"""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray

#: Pending trees that count as 0; minimum latency in seconds; rounding tolerance of sums.
_NONE, _SHORTEST_S, _ROUNDING = 0.5, 1e-6, 1e-6


class Trees:
    """Integer numbers of trees of all spout executors since the start; unanswered trees time out.

    Parameters
    ----------
    spouts, topology
        Executors of spouts, and the topology of each, shape (S,).
    topologies
        Number of topologies of the problem, which is the length of `lost`.
    timeout_s
        Seconds after which a spout fails an unanswered tree.

    Attributes
    ----------
    begun, acked, failed
        Trees by executor, shape (S,).
    lost
        Trees that lost a tuple, by topology, shape (T,).
    """

    def __init__(self, spouts: IndexArray, topology: IndexArray, topologies: int, timeout_s: float) -> None:
        self.spouts, self._topology, self._timeout_s = spouts, topology, timeout_s
        self.begun, self.acked, self.failed = (np.zeros(len(spouts), np.int64) for _ in range(3))
        self.lost = np.zeros(topologies, np.int64)
        self._pending = np.zeros(topologies)
        self._begun, self._share = np.zeros(len(spouts)), np.zeros(len(spouts))
        # Unanswered trees: those that the spout will fail, their timeouts, and those that it forgot.
        self._gone, self._forgotten = (np.zeros(len(spouts), np.int64) for _ in range(2))
        self._until_s = np.full(len(spouts), np.inf)

    def share(self, handled: FloatArray) -> None:
        """Set the fraction of its topology's trees that each executor begins, in any unit; shape (S,)."""
        whole = np.bincount(self._topology, handled, len(self._pending))[self._topology]
        self._share = np.divide(handled, whole, out=np.zeros(len(handled)), where=whole > 0)

    def unanswered(self) -> FloatArray:
        """Return unanswered trees that count as pending, shape (T,)."""
        return np.bincount(self._topology, self._gone, len(self._pending)).astype(np.float64)

    def pending(self) -> FloatArray:
        """Return trees in process, shape (T,)."""
        return self._pending

    def go_on(
        self, seconds: float, now_s: float, begin_tps: FloatArray, reach_tps: FloatArray, stay_s: FloatArray
    ) -> FloatArray:
        """Advance time; return the number of completed trees, shape (T,).

        Parameters
        ----------
        seconds, now_s
            Duration, and the resulting time.
        begin_tps, reach_tps
            Rates at which trees are begun and could be completed, shape (T,).
        stay_s
            Latency without queueing, shape (T,).
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
        """Lose all trees in process of some topologies, shape (T,); restarted spouts forget theirs, (S,)."""
        self._count()
        affected = topologies[self._topology]
        open_ = np.where(affected, self._open(), 0)
        self.lost += np.bincount(self._topology, open_, len(self.lost)).astype(np.int64)
        self._pending = np.where(topologies, 0.0, self._pending)
        self._gone += open_
        self._until_s = np.where(affected & (open_ > 0), now_s + self._timeout_s, self._until_s)
        self._forgotten[restarted] += self._gone[restarted]
        self._gone[restarted], self._until_s[restarted] = 0, np.inf

    def _open(self) -> IndexArray:
        """Return trees in process, by executor, shape (S,)."""
        whole: IndexArray = np.rint(self._pending[self._topology] * self._share).astype(np.int64)
        return whole

    def _count(self) -> None:
        self.begun = np.floor(self._begun + _ROUNDING).astype(np.int64)
        self.acked = np.maximum(self.acked, self.begun - self._open() - self._gone - self._forgotten - self.failed)


def _after(
    seconds: float, pending: FloatArray, begin_tps: FloatArray, reach_tps: FloatArray, stay_s: FloatArray
) -> FloatArray:
    """Return the number of pending trees after some time, shape (T,)."""
    usual, spare = reach_tps * stay_s, reach_tps - begin_tps
    ahead, inside = np.maximum(pending - usual, 0.0), np.minimum(pending, usual)
    queued_s = np.divide(ahead, spare, out=np.where(ahead > 0, np.inf, 0.0), where=spare > 0)
    ahead = np.maximum(ahead - spare * seconds, 0.0)
    goal = np.minimum(begin_tps, reach_tps) * stay_s
    inside = goal + (inside - goal) * np.exp(-np.maximum(seconds - queued_s, 0.0) / stay_s)
    after = np.where(reach_tps > 0, inside + ahead, pending + begin_tps * seconds)
    return np.where((begin_tps == 0) & (after < _NONE) & (reach_tps > 0), 0.0, after)
