"""Working memory of the service: last looks and moves, and counters for the status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stormwright.base import clock as clocks
from stormwright.controller.planning.order import Forbidden
from stormwright.controller.policy import DecisionTimes
from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.controller.safety.holds import Hold
from stormwright.pipeline.monitoring.drift import Drift, DriftWatch
from stormwright.plans.plan import Plan

# Backoff ------------------------------------------------------------------------------------------
# Topologies that could not be moved are left alone for some time.

#: Seconds until the first retry, doubled by each further failure, and their maximum.
FIRST_S = 600.0
LONGEST_S = 86_400.0


@dataclass(frozen=True)
class _Failure:
    until_s: float
    wait_s: float
    why: str


@dataclass
class Backoff:
    """Failed moves by topology; times in seconds of one clock."""

    _failures: dict[str, _Failure] = field(default_factory=dict)

    def note(self, topology: str, now_s: float, why: str) -> None:
        """Record a failed move of a topology."""
        before = self._failures.get(topology)
        wait_s = min(2 * before.wait_s, LONGEST_S) if before else FIRST_S
        self._failures[topology] = _Failure(now_s + wait_s, wait_s, why)

    def forget(self, topology: str) -> None:
        """Record a successful move of a topology."""
        self._failures.pop(topology, None)

    def stay(self, now_s: float) -> dict[str, str]:
        """Return topologies that do not move yet, with the reason."""
        return {
            topology: f"next try in {failure.until_s - now_s:.0f} s, the last one failed: {failure.why}"
            for topology, failure in self._failures.items()
            if failure.until_s > now_s
        }


# Memory -------------------------------------------------------------------------------------------


@dataclass
class EventCounts:
    """Counters since the start.

    Parameters
    ----------
    looks
        Decisions for which the scheduler was run.
    decisions
        Decisions that move something.
    moves
        Topologies that arrived at their target, each once per decision; detours do not count.
    failed_moves
        Topologies that could not be moved, each once per decision.
    rolled_back
        Moves that were rolled back because the topology performed worse.
    """

    looks: int = 0
    decisions: int = 0
    moves: int = 0
    failed_moves: int = 0
    rolled_back: int = 0


@dataclass
class ServiceMemory:
    """State of the running service; times are those of the clock's `monotonic`.

    The first decision waits a whole period. `waits` says why topologies stay because of too few measurements, and
    `waiting` how many; `staying` has the reason of each topology (id) that the last decision did not consider.
    `resumed` are topologies (names) activated after a pause, possibly one of a killed service; `hold` is the reason why
    nothing was decided last.
    """

    time: clocks.Clock = clocks.WALL
    counts: EventCounts = field(default_factory=EventCounts)
    backoff: Backoff = field(default_factory=Backoff)
    drift_watch: DriftWatch = field(default_factory=DriftWatch)
    drifts: Sequence[Drift] = ()
    decision: Plan | NoPlan | None = None
    moves: Sequence[MoveReport] = ()
    waits: Sequence[str] = ()
    waiting: int = 0
    staying: Mapping[str, str | Forbidden] = field(default_factory=dict)
    hold: Hold | None = None
    resumed: set[str] = field(default_factory=set)
    last_search_s: float = field(init=False)
    last_change_s: float = float("-inf")
    last_idle_search_s: float = float("-inf")
    last_alarm_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.last_search_s = self.time.monotonic()

    def clock(self) -> DecisionTimes:
        """Return the times that triggers depend on."""
        now_s = self.time.monotonic()
        return DecisionTimes(now_s, self.last_change_s, self.last_search_s, self.last_idle_search_s, self.last_alarm_s)

    def take_resumed(self) -> set[str]:
        """Return and clear the topologies resumed since the last call."""
        taken, self.resumed = self.resumed, set()
        return taken

    def record(self, decision: Plan | NoPlan, now_s: float, *, searched: bool = True) -> None:
        """Record a decision; after a search the next one waits, longer if it moved nothing."""
        self.decision = decision
        self.counts.looks += 1
        self.counts.decisions += isinstance(decision, Plan)
        if searched:
            self.last_search_s = now_s
            if not isinstance(decision, Plan):
                self.last_idle_search_s = now_s
