"""Health of Nimbus and of the supervisors, from calls of the gateway.

Nimbus is polled with a call that changes nothing, unless another call is in progress, whose age shows the same. The
poll takes at most a twentieth of the time, as the call reads the state of every supervisor from ZooKeeper.

Supervisors write a heartbeat with their uptime every five seconds. Nimbus passes on the uptime, but not when it was
written, so a heartbeat is dated by its arrival: not after the answer that has it, nor before the poll without it. In
between it is dated by the start of the supervisor, for which the earliest heartbeat that has arrived gives a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from stormwright.base.clock import Clock
from stormwright.errors import NimbusError
from stormwright.storm.gateway import CallInProgress

#: Seconds of a call in progress from which Nimbus counts as silent, and how many times its usual duration at least.
SILENT_S, SILENT_CALLS = 3.0, 5.0

#: Minimum seconds between two polls, the same while a heartbeat is late, and part of the time that polls may take.
POLL_S, LATE_POLL_S, POLL_PART = 2.0, 1.0, 0.05

#: Time limit of a poll: while it is in progress, the calls of a move wait.
LIMIT_S = 20.0

#: Usual seconds between two heartbeats of a supervisor, number of these after which it counts as silent, and after
#: which the next poll is early; seconds for a supervisor of which no second heartbeat was observed.
HEARTBEAT_S, SILENT_HEARTBEATS, LATE_HEARTBEATS, UNKNOWN_S = 5.0, 1.5, 1.1, 30.0

#: Seconds for which a supervisor that is no longer registered is named; then it is an anomaly (``node-lost``).
GONE_S = 45.0


class PolledNimbus(Protocol):
    """The calls to Nimbus that the watch makes."""

    def cluster_unless_busy(self, limit_s: float) -> Mapping[str, Any] | None: ...

    def in_progress(self) -> CallInProgress | None: ...


@dataclass(slots=True)
class _Heartbeats:
    """Heartbeats of one supervisor.

    `uptime_s` and `at_s` are of the newest one, `at_s` is None before it was observed to advance; `begun_s` is the
    latest possible start, and `every_s` the shortest observed time between two.
    """

    host: str
    uptime_s: float
    first_s: float
    begun_s: float
    at_s: float | None = None
    every_s: float = float("inf")

    def observe(self, uptime_s: float, before_s: float, answered_s: float) -> None:
        """Take an uptime from an answer; `before_s` is the time of the poll before."""
        if uptime_s == self.uptime_s:
            return
        if uptime_s < self.uptime_s:  # it was restarted
            self.begun_s = answered_s - uptime_s
        else:
            self.every_s = min(self.every_s, uptime_s - self.uptime_s)
        self.begun_s = min(self.begun_s, answered_s - uptime_s)
        self.at_s = max(self.begun_s + uptime_s, before_s)
        self.uptime_s = uptime_s

    def late_s(self, heartbeats: float) -> float:
        """Return the seconds that some heartbeats take."""
        return heartbeats * max(HEARTBEAT_S, self.every_s)


class SilentSupervisor(NamedTuple):
    """A supervisor (id, host) without a heartbeat for `silent_s` seconds, or no longer registered."""

    id: str
    host: str
    silent_s: float
    registered: bool


class SupervisorReports:
    """Heartbeats of all supervisors, from answers of Nimbus."""

    def __init__(self) -> None:
        self._known: dict[str, _Heartbeats] = {}
        self._gone: dict[str, tuple[str, float]] = {}
        self._polled_s: float | None = None

    def note(self, supervisors: Collection[Mapping[str, Any]], polled_s: float, answered_s: float) -> None:
        """Take the supervisors of an answer.

        Parameters
        ----------
        supervisors
            Supervisors of the answer, as `NimbusGateway.cluster` has them.
        polled_s, answered_s
            Times of request and response.
        """
        before_s = polled_s if self._polled_s is None else self._polled_s
        present = {each["id"]: each for each in supervisors}
        hosts = {each["host"] for each in supervisors}
        # Others look at both meanwhile: each is replaced, never changed.
        left = {node: (known.host, polled_s) for node, known in self._known.items() if node not in present}
        self._gone = {
            node: (host, gone_s)
            for node, (host, gone_s) in (self._gone | left).items()
            if node not in present and host not in hosts and polled_s - gone_s <= GONE_S
        }
        known: dict[str, _Heartbeats] = {}
        for node, each in present.items():
            uptime_s = float(each["uptime_s"])
            if node in self._known:
                known[node] = self._known[node]
                known[node].observe(uptime_s, before_s, answered_s)
            else:
                known[node] = _Heartbeats(each["host"], uptime_s, polled_s, answered_s - uptime_s)
        self._known, self._polled_s = known, polled_s

    @property
    def count(self) -> int:
        """Number of registered supervisors."""
        return len(self._known)

    @property
    def any_late(self) -> bool:
        """Whether the next poll should be early."""
        return any(
            each.at_s is not None and (self._polled_s or 0.0) - each.at_s >= each.late_s(LATE_HEARTBEATS)
            for each in self._known.values()
        )

    def silent(self, now_s: float, since_s: float) -> list[SilentSupervisor]:
        """Return silent supervisors, and those that are no longer registered.

        Parameters
        ----------
        now_s
            Current time in seconds, by the clock of the polls.
        since_s
            Silence before this time does not count.
        """
        polled_s = self._polled_s or 0.0
        found = [SilentSupervisor(node, host, now_s - at_s, False) for node, (host, at_s) in self._gone.items()]
        for node, each in self._known.items():
            at_s = max(each.first_s if each.at_s is None else each.at_s, since_s)
            limit_s = UNKNOWN_S if each.at_s is None else each.late_s(SILENT_HEARTBEATS)
            if polled_s - at_s >= limit_s:
                found.append(SilentSupervisor(node, each.host, now_s - at_s, True))
        return found


@dataclass
class NimbusWatch:
    """Polls Nimbus and reports its silence, and that of supervisors; `poll` runs on one thread, all else on any.

    Parameters
    ----------
    nimbus
        Connection to Nimbus; polls are skipped while another call is in progress.
    clock
        Clock of the service.
    """

    nimbus: PolledNimbus
    clock: Clock
    supervisors: SupervisorReports = field(default_factory=SupervisorReports)
    _statuses: Mapping[str, str] | None = None
    _error: str = ""
    _durations_s: deque[float] = field(default_factory=lambda: deque(maxlen=3))

    def poll(self) -> float:
        """Poll Nimbus unless it is busy, and return the seconds until the next poll."""
        polled_s = self.clock.monotonic()
        try:
            found = self.nimbus.cluster_unless_busy(LIMIT_S)
        except NimbusError as error:
            self._error = str(error)
            return POLL_S
        if found is None:
            return LATE_POLL_S
        answered_s = self.clock.monotonic()
        self._durations_s.append(answered_s - polled_s)
        self.supervisors.note(found["supervisors"], polled_s, answered_s)
        self._statuses = {each["id"]: each["status"] for each in found["topologies"]}
        self._error = ""
        return max(LATE_POLL_S if self.supervisors.any_late else POLL_S, self._usual_s / POLL_PART)

    @property
    def _usual_s(self) -> float:
        """Duration of a poll: the shortest of the last ones, as Nimbus may have been stopped in the others."""
        return min(self._durations_s, default=0.0)

    @property
    def statuses(self) -> Mapping[str, str] | None:
        """Status of each topology (id) by the last answer; None before the first."""
        return self._statuses

    def silence(self) -> str:
        """Return a sentence about a Nimbus that does not answer; empty if it does."""
        call = self.nimbus.in_progress()
        if call is not None and call.age_s >= max(SILENT_S, SILENT_CALLS * self._usual_s):
            who = f"Nimbus, or the supervisor of {call.host}," if call.host else "Nimbus"
            return f"{who} has not answered for {call.age_s:.0f} s ({call.call})"
        return f"Nimbus does not answer: {self._error}" if self._error else ""


def supervisor_texts(
    silent: list[SilentSupervisor], count: int, name: Callable[[str], str]
) -> Iterator[tuple[str, SilentSupervisor]]:
    """Yield a sentence for each silent supervisor, or one for all if none of several has reported.

    Parameters
    ----------
    silent
        Silent supervisors, as of `SupervisorReports.silent`.
    count
        Number of registered supervisors.
    name
        Returns the display name of a node by its id.
    """
    quiet = [each for each in silent if each.registered]
    if len(quiet) == count and count > 1:
        newest = min(quiet, key=lambda each: each.silent_s)
        text = f"No supervisor has reported for {newest.silent_s:.0f} s: do the nodes reach Nimbus and ZooKeeper?"
        yield text, newest
        quiet = []
    for each in quiet:
        yield f"The supervisor of {name(each.id)} has not reported for {each.silent_s:.0f} s", each
    for each in silent:
        if not each.registered:
            yield f"The supervisor of {name(each.id)} is no longer registered with Nimbus", each


def rest_of_sentence(supervisor: SilentSupervisor) -> str:
    """Return the rest of a sentence about the workers of a node: its supervisor is silent as well."""
    if not supervisor.registered:
        return "and its supervisor is no longer registered with Nimbus"
    return f"nor has its supervisor for {supervisor.silent_s:.0f} s"
