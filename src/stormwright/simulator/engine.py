"""Interface between the engines that process tuples and the virtual cluster that reports on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stormwright.model import UNPLACED

#: Slot of an executor that does not run.
NOWHERE = UNPLACED

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EngineCounts:
    """Counts of an interval of virtual time; E executors, P pairs, T topologies.

    Parameters
    ----------
    start_s, length_s
        The interval, in seconds of virtual time.
    received, emitted, acked, failed
        Tuples of every executor, shape (E,); of a spout `acked` and `failed` are trees.
    cpu_ns, execute_ns
        CPU time and execute time of every executor's thread, shape (E,).
    queue
        Fill level of every executor's receive queue at the end, from 0 to 1, shape (E,).
    source, target, tuples
        Sending executors, receiving executors, and numbers of tuples, shape (P,).
    completed, timed_out, replayed, lost
        Trees of every topology that were completed, timed out, were replayed by their spout, and lost a tuple, shape
        (T,).
    latency
        Complete latencies of every topology in the buckets of the performance log
        (`stormwright.perflog.schema.LATENCY_EDGES_MS`, and one more), shape (T, 66).
    """

    start_s: float
    length_s: float
    received: Counts
    emitted: Counts
    acked: Counts
    failed: Counts
    cpu_ns: Counts
    execute_ns: Counts
    queue: NDArray[np.float64]
    source: Counts
    target: Counts
    tuples: Counts
    completed: Counts
    timed_out: Counts
    replayed: Counts
    lost: Counts
    latency: Counts


class Engine(Protocol):
    """Engine that processes tuples of the virtual cluster; all times in seconds of virtual time."""

    @property
    def now_s(self) -> float:
        """Present time."""

    def until(self, time_s: float) -> None:
        """Advance to a time."""

    def take(self) -> EngineCounts:
        """Return the counts since the last call."""

    def place(self, slots: NDArray[np.int32], started_s: float = 0.0) -> None:
        """Set the executors' slots, `NOWHERE` for those that do not run, shape (E,).

        Workers that are new, or whose executors change, start as Storm's do; they began `started_s` seconds ago.
        """

    def activate(self, topology: int, active: bool) -> None:
        """Set whether a topology's spouts begin trees."""

    def rate(self, topology: int, factor: float) -> None:
        """Scale the initial rate of a topology's spouts."""

    def kill(self, slot: int) -> None:
        """Kill the workers in a slot."""

    def node(self, node: int, up: bool) -> None:
        """Stop a node with everything that runs there, or bring it back."""

    def slow(self, node: int, factor: float) -> None:
        """Scale the speed of a node's cores."""
