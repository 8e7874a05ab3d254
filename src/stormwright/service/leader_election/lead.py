"""Whether a service may decide: always where it is alone; else while it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from stormwright.controller.move import Nimbus
from stormwright.errors import StormwrightError
from stormwright.model import Supervisor
from stormwright.service.leader_election.consensus import ConsensusStore
from stormwright.service.leader_election.lease import Lease
from stormwright.service.leader_election.replicated_state import ReplicatedState, leave
from stormwright.service.storage.database import State

# Fencing ------------------------------------------------------------------------------------------
# Nimbus, for a service that may have stopped to lead without knowing it.


class LeaderOnlyNimbus:
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


class Lead(Protocol):
    """What a service checks before it decides or changes anything."""

    def begin(self, state: State) -> None:
        """Everything is decided with this state from now on."""

    def require(self) -> int | None:
        """Number of this service among those that led, None where it is alone; NotLeadingError unless it leads."""

    def not_after_ns(self) -> int | None:
        """Return the deadline for operations started now (`time.monotonic_ns`); None for none."""

    def going(self, require_running: Callable[[], None]) -> Callable[[], None]:
        """Return a check that raises like `require_running`, and StormwrightError once this service leads no more."""

    def status(self) -> Mapping[str, Any]:
        """Return the lead for the status document; empty for a single service."""


class SingleService:
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

    def status(self) -> Mapping[str, Any]:
        """See `Lead`."""
        return {}


ALONE: Lead = SingleService()


class ElectedLeader:
    """One of several services, which has begun to lead.

    Parameters
    ----------
    lease
        For how long it does.
    agreed
        Where services agree.
    """

    def __init__(self, lease: Lease, agreed: ConsensusStore) -> None:
        self._lease, self._agreed = lease, agreed
        self._replicated: ReplicatedState | None = None

    def begin(self, state: State) -> None:
        """See `Lead`."""
        self._replicated = ReplicatedState(state, self._agreed, self._lease)
        self._replicated.begin()

    def tidy(self) -> None:
        """Write a snapshot of the decisions if one is due."""
        if self._replicated and not self._lease.lost:
            self._replicated.tidy()

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

    def status(self) -> Mapping[str, Any]:
        """See `Lead`."""
        leader = self._lease.leader
        if leader is None:
            return {}
        position = self._replicated.position if self._replicated else 0
        return {"leads": leader.address, "since_ms": leader.since_ms, "epoch": leader.epoch, "entries": position}
