"""Polls of idle executors: how often a thread looks for tuples before the next one comes.

Storm's threads wait by `WaitStrategyProgressive`: after a few looks at once they park for the shortest time that there
is, `level2.count` times, and then sleep for `level3.sleep.millis` each time. A gap of g seconds between tuples thus has

    min(g, n p) / p + max(g - n p, 0) / s

polls, where n is that count, p the time that the shortest park takes, and s that sleep. Each poll takes CPU
(`stormwright.predict.costs.Costs.poll_us`), so what a tuple costs falls with the rate, as of any receiver that is woken
up for its input (J. C. Mogul, K. K. Ramakrishnan, Eliminating Receive Livelock in an Interrupt-Driven Kernel, ACM
Transactions on Computer Systems 15(3), 1997, https://doi.org/10.1145/263326.263335): a thread that handles a tuple a
millisecond takes up to eighteen polls for it, one whose queue is never empty takes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.model.topology_config import number_of
from stormwright.predict.flow.profile import Profile
from stormwright.predict.placement_cache import CacheKey
from stormwright.predict.sums import ratio

#: Seconds of the shortest park: Linux adds 50 µs to every timer of a thread, and then wakes it up.
PARK_S = 55e-6

#: Number of such parks of bolts and of spouts, and milliseconds of a sleep after them, by default.
BOLT_PARKS, SPOUT_PARKS, SLEEP_MS = 1_000.0, 0.0, 1.0


class Waits(NamedTuple):
    """How a thread waits: a number of the shortest parks, then sleeps of a number of seconds."""

    parks: float
    sleep_s: float

    @classmethod
    def of(cls, conf: Mapping[str, Any], *, spout: bool) -> Waits:
        """Return how executors wait, by the configuration of cluster and topology."""
        key = f"topology.{'spout' if spout else 'bolt'}.wait.progressive.level"
        parks = number_of(conf, f"{key}2.count", SPOUT_PARKS if spout else BOLT_PARKS, zero=True)
        return cls(parks, number_of(conf, f"{key}3.sleep.millis", SLEEP_MS) / 1e3)


def _waits(profile: Profile) -> FloatArray:
    """Return the number of parks and the seconds of a sleep of every executor, shape (2, E)."""
    problem, layout = profile.problem, profile.layout
    waits = [
        [Waits.of({**problem.conf, **topology.conf}, spout=spout) for spout in (False, True)]
        for topology in problem.topologies
    ]
    spout = layout.is_spout[layout.executor_component].astype(np.intp)
    found: FloatArray = np.array(waits, np.float64).reshape(-1, 2, 2)[problem.executor_topology, spout].T
    return found


def polls_per_s(profile: Profile, handled_tps: FloatArray, busy: FloatArray) -> FloatArray:
    """Return how often a second executors poll, where nodes have cores for them, shape (E,).

    Parameters
    ----------
    profile
        Profile of the load.
    handled_tps, busy
        Tuples/s that executors handle, and the fraction of time for which they work, shape (E,).
    """
    key: CacheKey[FloatArray] = CacheKey("waits")
    parks, sleep_s = profile.recent.get_or_compute(key, lambda: _waits(profile))
    idle = np.clip(1.0 - busy, 0.0, 1.0)
    # Without tuples the gap has no end.
    gap_s = np.divide(idle, handled_tps, out=np.full(len(idle), np.inf), where=handled_tps > 0)
    parked_s = np.minimum(gap_s, parks * PARK_S)
    part = np.where(np.isfinite(gap_s), ratio(parked_s, gap_s), 0.0)
    polls: FloatArray = idle * (part / PARK_S + (1.0 - part) / sleep_s)
    return polls
