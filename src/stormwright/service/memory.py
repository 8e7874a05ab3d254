"""Working memory of the service: last looks and moves, and counters for the status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stormwright import clock as clocks
from stormwright.controller.policy import Decision, LookBack
from stormwright.controller.reports import MoveReport
from stormwright.controller.safety.holds import Hold
from stormwright.pipeline.monitoring.drift import Drift, DriftWatch

# Backoff ------------------------------------------------------------------------------------------
# Topologies that could not be moved are left alone for a while.

#: Seconds until the first next try; each further failure doubles it, up to the last.
FIRST_S = 600.0
LONGEST_S = 86_400.0


@dataclass(frozen=True)
class _Setback:
    until_s: float
    wait_s: float
    why: str


@dataclass
class Backoff:
    """Failed moves by topology; times in seconds of one clock."""

    _of: dict[str, _Setback] = field(default_factory=dict)

    def note(self, topology: str, now_s: float, why: str) -> None:
        """A move of `topology` has failed."""
        before = self._of.get(topology)
        wait_s = min(2 * before.wait_s, LONGEST_S) if before else FIRST_S
        self._of[topology] = _Setback(now_s + wait_s, wait_s, why)

    def forget(self, topology: str) -> None:
        """A move of `topology` has succeeded."""
        self._of.pop(topology, None)

    def stay(self, now_s: float) -> dict[str, str]:
        """Topology → why it does not move yet."""
        return {
            topology: f"next try in {setback.until_s - now_s:.0f} s, the last one failed: {setback.why}"
            for topology, setback in self._of.items()
            if setback.until_s > now_s
        }


# Memory -------------------------------------------------------------------------------------------


@dataclass
class EventCounts:
    """Counters since the start.

    Parameters
    ----------
    looks
        Looks at the placement for which the scheduler was asked.
    decisions
        Those of them that moved something.
    moves
        Topologies that were moved to where they were wished, each once in a decision: a trip to a spare slot on the way
        is part of the move.
    failed_moves
        Topologies that could not be moved, or not as others could not, each once in a decision.
    taken_back
        Moves that were taken back because the topology did worse since.
    """

    looks: int = 0
    decisions: int = 0
    moves: int = 0
    failed_moves: int = 0
    taken_back: int = 0


@dataclass
class ServiceMemory:
    """Moments are those of `time`, as its `monotonic` has them.

    A service that has just come up knows nothing yet: the first look waits a whole period. `waits` says why topologies
    stay, because too little of them was measured; `resumed` are topologies (names) that were paused, maybe by a service
    that was killed, and go on. `hold` says why the last look was none.
    """

    time: clocks.Clock = clocks.WALL
    counts: EventCounts = field(default_factory=EventCounts)
    setbacks: Backoff = field(default_factory=Backoff)
    drift_watch: DriftWatch = field(default_factory=DriftWatch)
    drifts: Sequence[Drift] = ()
    decision: Decision | None = None
    moves: Sequence[MoveReport] = ()
    waits: Sequence[str] = ()
    hold: Hold | None = None
    resumed: set[str] = field(default_factory=set)
    last_look_s: float = field(init=False)
    last_change_s: float = float("-inf")
    last_idle_look_s: float = float("-inf")
    last_alarm_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.last_look_s = self.time.monotonic()

    def clock(self) -> LookBack:
        """The moments that triggers go by."""
        now_s = self.time.monotonic()
        return LookBack(now_s, self.last_change_s, self.last_look_s, self.last_idle_look_s, self.last_alarm_s)

    def take_resumed(self) -> set[str]:
        """Return and clear the topologies resumed since the last call."""
        taken, self.resumed = self.resumed, set()
        return taken

    def looked(self, decision: Decision, now_s: float) -> None:
        """A look was made; if it moves nothing the next one waits."""
        self.last_look_s = now_s
        self.decision = decision
        self.counts.looks += 1
        if decision.plan.moves:
            self.counts.decisions += 1
        else:
            self.last_idle_look_s = now_s
