"""The seam between what happens to tuples in the virtual cluster and what tells of it."""

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
    """What was counted in an interval of virtual time; E executors, P pairs, T topologies.

    Parameters
    ----------
    start_s, length_s
        The interval, in seconds of virtual time.
    received, emitted, acked, failed
        Tuples of every executor, shape (E,); of a spout `acked` and `failed` are trees.
    cpu_ns, execute_ns
        CPU time of every executor's thread, and for how long it worked on tuples, shape (E,).
    queue
        How full every executor's receive queue is at the end, from 0 to 1, shape (E,).
    source, target, tuples
        Executors that sent, executors they sent to, and how many tuples, shape (P,).
    completed, timed_out, replayed, lost
        Trees of every topology that were completed, failed by their timeout, were begun again by their spout, and are
        known to have lost a tuple, shape (T,).
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
    """What happens to tuples in the virtual cluster between two instants; all instants in seconds of virtual time."""

    @property
    def now_s(self) -> float:
        """The instant that was reached."""

    def until(self, time_s: float) -> None:
        """Go on to an instant."""

    def take(self) -> EngineCounts:
        """What was counted since this was last asked for."""

    def place(self, slots: NDArray[np.int32]) -> None:
        """Executors' slots from now on, `NOWHERE` for those that do not run, shape (E,).

        Workers that are new, or whose executors change, start up as Storm's do.
        """

    def activate(self, topology: int, active: bool) -> None:
        """Whether a topology's spouts begin trees."""

    def rate(self, topology: int, factor: float) -> None:
        """Spouts of a topology begin as many trees as at first, times a factor."""

    def kill(self, slot: int) -> None:
        """The workers in a slot die."""

    def node(self, node: int, up: bool) -> None:
        """A node goes down, with all that runs there, or comes back."""

    def slow(self, node: int, factor: float) -> None:
        """A node's cores have their speed times a factor."""
