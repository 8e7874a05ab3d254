"""A place where services agree, as ZooKeeper is one: sessions expire, changes have one order, connections break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from stormwright.base.clock import WallClock
from stormwright.errors import ClusterError, NotLeadingError
from stormwright.service.leader_election.consensus import Leader, StateSnapshot

LEASE_S = 8.0


@dataclass
class Place:
    """What is agreed on, and the time of the server."""

    now_s: float = 1000.0
    epoch: int = 0
    leader: Leader | None = None
    of: Session | None = None
    log: list[tuple[int, bytes]] = field(default_factory=list)
    forgotten: int = 0
    stored: tuple[StateSnapshot, bytes] | None = None
    #: Called around each entry that is added.
    tick: Callable[[], None] = lambda: None

    def expire(self) -> None:
        """Who was not heard of for a lease leads no more."""
        if self.of and self.now_s > self.of.heard_s + LEASE_S:
            self.of.expired, self.of, self.leader = True, None, None

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.expire()


class Session:
    """One service's connection to the place."""

    lease_s = LEASE_S

    def __init__(self, place: Place) -> None:
        self._place = place
        self.heard_s, self.expired, self.cut, self.deaf = place.now_s, False, False, False
        self._epoch = -1

    def leader(self) -> Leader | None:
        self._require_answer()
        return self._place.leader

    def acquire(self, address: str, now_ms: int) -> Leader | None:
        self._require_answer()
        place = self._place
        if place.of is self:
            place.of, place.leader = None, None
        if place.leader:
            return None
        place.epoch += 1
        self._epoch, self.expired = place.epoch, False
        place.of, place.leader = self, Leader(address, now_ms, place.epoch)
        self._answered()
        return place.leader

    def renew(self) -> None:
        self._require_answer()
        self._require()
        self._answered()

    def release(self) -> None:
        if self._place.of is self:
            self._place.of, self._place.leader = None, None
        self.expired = True

    def append(self, number: int, entry: bytes) -> None:
        self._place.tick()
        self._require_answer()
        self._require()
        if number != self._place.forgotten + len(self._place.log) + 1:
            raise NotLeadingError("there is such an entry")
        self._place.log.append((self._epoch, entry))
        self._place.tick()
        self._answered()

    def entries(self, after: int) -> Iterator[tuple[int, bytes]]:
        self._require_answer()
        place = self._place
        while place.forgotten <= after < place.forgotten + len(place.log):
            after += 1
            yield after, place.log[after - place.forgotten - 1][1]

    def latest_snapshot(self) -> StateSnapshot | None:
        self._require_answer()
        return self._place.stored[0] if self._place.stored else None

    def load_snapshot(self, snapshot: StateSnapshot) -> bytes:
        self._require_answer()
        assert self._place.stored
        assert self._place.stored[0] == snapshot
        return self._place.stored[1]

    def save_snapshot(self, snapshot: StateSnapshot, content: bytes) -> None:
        self._require_answer()
        self._require()
        place = self._place
        before = place.stored[0].position if place.stored else 0
        place.stored = (snapshot, content)
        del place.log[: before - place.forgotten]
        place.forgotten = before

    def _require_answer(self) -> None:
        if self.cut:
            raise ClusterError("the place does not answer")
        if not self.expired:
            self._place.expire()
            self.heard_s = self._place.now_s

    def _answered(self) -> None:
        if self.deaf:
            raise ClusterError("the place does not answer")

    def _require(self) -> None:
        if self.expired or self._place.epoch != self._epoch:
            raise NotLeadingError("another one leads")


class LocalClock(WallClock):
    """A machine's clock beside that of a place, which may be wrong, fast or slow."""

    def __init__(self, place: Place, offset_s: float = 0.0, rate: float = 1.0) -> None:
        self._place, self._offset_s, self._rate = place, offset_s, rate

    def time(self) -> float:
        return self._offset_s + self._rate * self._place.now_s

    def monotonic(self) -> float:
        return self._offset_s + self._rate * self._place.now_s
