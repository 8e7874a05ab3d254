"""The lease of a leader: for how long no other service can lead."""

from __future__ import annotations

from stormwright.clock import WALL, Clock
from stormwright.errors import ClusterError, NotLeadingError
from stormwright.service.leader_election.consensus import ConsensusStore, Leader

#: Part of a lease for which it is relied on. The rest lies between the end of what one service does and the beginning
#: of what the next one does, whose clock need not tell the same time.
RELIED = 2 / 3

#: Leases after which a service that cannot renew its own gives it up for good.
GIVEN_UP = 3


class Lease:
    """The right to lead, which expires unless it is renewed, even if the process was stopped.

    It counts from when it was asked for, by the clock of this process; what was asked and not answered does not count.

    Parameters
    ----------
    agreed
        Where services agree.
    address
        Where this one is reached.
    clock
        Of this process.
    """

    def __init__(self, agreed: ConsensusStore, address: str, clock: Clock = WALL) -> None:
        self._agreed, self._address, self._clock = agreed, address, clock
        self._until_s = float("-inf")
        self.leader: Leader | None = None
        #: Why it can never be renewed again; empty while it may be.
        self.lost = ""

    def claim(self) -> bool:
        """Try to lead; whether this service does."""
        asked_s = self._clock.monotonic()
        self.leader = self._agreed.claim(self._address, round(self._clock.time() * 1000))
        if self.leader:
            self._until_s = asked_s + RELIED * self._agreed.lease_s
        return self.leader is not None

    def renew(self) -> None:
        """Renew the lease; without an answer the current one keeps running out."""
        asked_s = self._clock.monotonic()
        if self.lost or self.leader is None:
            return
        try:
            self._agreed.renew()
        except NotLeadingError as error:
            self.give_up(str(error))
        except ClusterError as error:
            if asked_s > self._until_s + GIVEN_UP * self._agreed.lease_s:
                self.give_up(str(error))
        else:
            self._until_s = asked_s + RELIED * self._agreed.lease_s

    def give_up(self, why: str) -> None:
        """Never lead again in this process."""
        self.lost = self.lost or why

    @property
    def until_s(self) -> float:
        """Until when it is relied on (`Clock.monotonic`)."""
        return float("-inf") if self.lost else self._until_s

    def require(self) -> Leader:
        """This service as the leader that it is.

        Raises
        ------
        NotLeadingError
            It does not lead, or cannot be sure of that now.
        """
        if self.leader is not None and not self.lost and self._clock.monotonic() < self._until_s:
            return self.leader
        raise NotLeadingError(f"this service does not lead: {self.lost or 'its lease is not renewed'}")
