"""Whether a service may decide: always where it is alone; else while it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from stormwright.clock import WALL, Clock
from stormwright.controller.move import Nimbus
from stormwright.errors import ClusterError, NotLeadingError, StormwrightError
from stormwright.model import Supervisor
from stormwright.service.leader_election.consensus import Agreed, Leader
from stormwright.service.leader_election.replicated_state import Together, leave
from stormwright.service.storage.database import State

# Lease --------------------------------------------------------------------------------------------
# For how long a service knows that nobody else leads.

#: Part of a lease for which it is relied on. The rest lies between the end of what one service does and the beginning
#: of what the next one does, whose clock need not tell the same time.
RELIED = 2 / 3

#: Leases after which a service that cannot renew its own gives it up for good.
GIVEN_UP = 3


class Lease:
    """The right to lead, which ends by itself where it is not renewed: also for a process that was stopped.

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

    def __init__(self, agreed: Agreed, address: str, clock: Clock = WALL) -> None:
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
        """Ask for more time; where nobody answers what there is goes on running out."""
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


# Fencing ------------------------------------------------------------------------------------------
# Nimbus, for a service that may have stopped to lead without knowing it.


class Fenced:
    """Changes nothing unless this service leads.

    Parameters
    ----------
    nimbus
        Is called.
    require
        Raises `NotLeadingError` where another service may lead.
    """

    def __init__(self, nimbus: Nimbus, require: Callable[[], object]) -> None:
        self._nimbus, self._require = nimbus, require

    def cluster(self) -> Mapping[str, Any]:
        """See `Nimbus`."""
        return self._nimbus.cluster()

    def activate(self, name: str) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.activate(name)

    def deactivate(self, name: str) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.deactivate(name)

    def rebalance(self, name: str, wait_s: int, num_workers: int | None = None) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.rebalance(name, wait_s, num_workers)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """See `Nimbus`."""
        self._require()
        return self._nimbus.release(topology_id, supervisor)


# Lead ---------------------------------------------------------------------------------------------

#: Keeps a document for the others, before it is kept here.
Keep = Callable[[str], None]


class Lead(Protocol):
    """What a service asks before it decides or changes anything."""

    def begin(self, state: State) -> None:
        """Everything is decided with this state from now on."""

    def require(self) -> int | None:
        """Number of this service among those that led, None where it is alone; NotLeadingError unless it leads."""

    def not_after_ns(self) -> int | None:
        """Until when what was begun now may be done (`time.monotonic_ns`); None for any time."""

    def going(self, require_running: Callable[[], None]) -> Callable[[], None]:
        """Raises what that does, and StormwrightError where this service leads no more before it is started anew."""

    def keep(self, state: State, name: str) -> Keep:
        """Keeps a file of the state directory for the others, too."""

    def told(self) -> Mapping[str, Any]:
        """For the status; empty where it is alone."""


class Alone:
    """There is no other service."""

    def begin(self, state: State) -> None:
        """See `Lead`."""
        leave(state)

    def require(self) -> None:
        """See `Lead`."""

    def not_after_ns(self) -> None:
        """See `Lead`."""

    def going(self, require_running: Callable[[], None]) -> Callable[[], None]:
        """See `Lead`."""
        return require_running

    def keep(self, state: State, name: str) -> Keep:  # noqa: ARG002 (nobody is to know)
        """See `Lead`."""
        return lambda _: None

    def told(self) -> Mapping[str, Any]:
        """See `Lead`."""
        return {}


ALONE: Lead = Alone()


class Leading:
    """One of several services, which has begun to lead.

    Parameters
    ----------
    lease
        For how long it does.
    agreed
        Where services agree.
    """

    def __init__(self, lease: Lease, agreed: Agreed) -> None:
        self._lease, self._agreed = lease, agreed
        self._together: Together | None = None

    def begin(self, state: State) -> None:
        """See `Lead`."""
        self._together = Together(state, self._agreed, self._lease)
        self._together.begin()

    def tidy(self) -> None:
        """Keep what was decided whole, where that is due."""
        if self._together and not self._lease.lost:
            self._together.tidy()

    def require(self) -> int:
        """See `Lead`."""
        return self._lease.require().epoch

    def not_after_ns(self) -> int:
        """See `Lead`."""
        return int(max(self._lease.until_s, 0.0) * 1e9)

    def going(self, require_running: Callable[[], None]) -> Callable[[], None]:
        """See `Lead`."""

        def require() -> None:
            if self._lease.lost:
                raise StormwrightError(
                    f"this service leads no more: {self._lease.lost}; start it again, as what supervises it does, and "
                    "it stands by"
                )
            require_running()

        return require

    def keep(self, state: State, name: str) -> Keep:
        """See `Lead`."""
        return partial(state.keep, name)

    def told(self) -> Mapping[str, Any]:
        """See `Lead`."""
        leader = self._lease.leader
        if leader is None:
            return {}
        position = self._together.position if self._together else 0
        return {"leads": leader.address, "since_ms": leader.since_ms, "epoch": leader.epoch, "entries": position}
