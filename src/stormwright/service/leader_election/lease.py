"""The lease of the leader: while one service holds it, no other one can lead."""

from __future__ import annotations

from stormwright.base.clock import WALL, Clock
from stormwright.errors import ClusterError, NotLeadingError
from stormwright.service.leader_election.consensus import ConsensusStore, Leader

#: Fraction of a lease for which the holder acts. The rest separates its last action from the first one of the next
#: leader, whose clock may differ.
SAFE_FRACTION = 2 / 3

#: Lengths of a lease without renewal after which the holder gives it up for good.
MAX_MISSED_LEASES = 3


class Lease:
    """The right to lead, which expires unless it is renewed, even if the process was stopped.

    Its term counts from the request, by the clock of this process; requests without an answer do not count.

    Parameters
    ----------
    store
        Consensus store of the services.
    address
        Address at which this service is reached.
    clock
        Clock of this process.
    """

    def __init__(self, store: ConsensusStore, address: str, clock: Clock = WALL) -> None:
        self._store, self._address, self._clock = store, address, clock
        self._expiry_s = float("-inf")
        self.leader: Leader | None = None
        #: Reason why the lease is lost for good; empty while it may be renewed.
        self.lost = ""

    def acquire(self) -> bool:
        """Try to acquire the lease; return whether this service holds it."""
        requested_s = self._clock.monotonic()
        self.leader = self._store.acquire(self._address, round(self._clock.time() * 1000))
        if self.leader:
            self._expiry_s = requested_s + SAFE_FRACTION * self._store.lease_s
        return self.leader is not None

    def renew(self) -> None:
        """Renew the lease; without an answer the current term runs out."""
        requested_s = self._clock.monotonic()
        if self.lost or self.leader is None:
            return
        try:
            self._store.renew()
        except NotLeadingError as error:
            self.give_up(str(error))
        except ClusterError as error:
            if requested_s > self._expiry_s + MAX_MISSED_LEASES * self._store.lease_s:
                self.give_up(str(error))
        else:
            self._expiry_s = requested_s + SAFE_FRACTION * self._store.lease_s

    def give_up(self, why: str) -> None:
        """Give the lease up for good: this process never leads again."""
        self.lost = self.lost or why

    @property
    def expiry_s(self) -> float:
        """Time at which the holder stops acting (`Clock.monotonic`)."""
        return float("-inf") if self.lost else self._expiry_s

    def require(self) -> Leader:
        """Return this service as the leader.

        Raises
        ------
        NotLeadingError
            It does not lead, or cannot be sure of that now.
        """
        if self.leader is not None and not self.lost and self._clock.monotonic() < self._expiry_s:
            return self.leader
        raise NotLeadingError(f"this service does not lead: {self.lost or 'its lease is not renewed'}")
