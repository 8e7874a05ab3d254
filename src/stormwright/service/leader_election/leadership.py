"""Leadership: a single service always leads, one of several only while it holds the lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from stormwright.controller.move import Nimbus
from stormwright.errors import StormwrightError
from stormwright.model import Supervisor
from stormwright.service.leader_election.consensus import ConsensusStore
from stormwright.service.leader_election.lease import Lease
from stormwright.service.leader_election.replicated_state import ReplicatedState, stop_replicating
from stormwright.service.storage.database import State


class LeaderOnlyNimbus:
    """Nimbus with changes refused unless this service leads: it may have lost its leadership without knowing it.

    Parameters
    ----------
    nimbus
        The Nimbus to call.
    require
        Raises `NotLeadingError` if another service may lead.
    """

    def __init__(self, nimbus: Nimbus, require: Callable[[], object]) -> None:
        self._nimbus, self._require = nimbus, require

    def cluster(self) -> Mapping[str, Any]:
        """See `Nimbus`."""
        return self._nimbus.cluster()

    def problem(self) -> Mapping[str, Any]:
        """See `Nimbus`."""
        return self._nimbus.problem()

    def activate(self, name: str) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.activate(name)

    def deactivate(self, name: str) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.deactivate(name)

    def configuration(self, topology_id: str) -> str:
        """See `Nimbus`."""
        return self._nimbus.configuration(topology_id)

    def rebalance(
        self,
        name: str,
        wait_s: int,
        num_workers: int | None = None,
        executors: Mapping[str, int] | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """See `Nimbus`; it takes `name`, `wait_s`, `num_workers`, `executors` and `conf`, as `NimbusGateway`."""
        self._require()
        self._nimbus.rebalance(name, wait_s, num_workers, executors, conf)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """See `Nimbus`."""
        self._require()
        return self._nimbus.release(topology_id, supervisor)


class Leadership(Protocol):
    """Condition for decisions and changes of a service."""

    def start(self, state: State) -> None:
        """Start to lead with a state."""

    def require(self) -> int | None:
        """Return the epoch of this leader, None for a single service; raises NotLeadingError unless it leads."""

    def deadline_ns(self) -> int | None:
        """Return the deadline for operations started now (`time.monotonic_ns`); None for none."""

    def running_check(self, require_running: Callable[[], None]) -> Callable[[], None]:
        """Return a check that raises like `require_running`, and StormwrightError once leadership is lost."""

    def status(self) -> Mapping[str, Any]:
        """Return the lead for the status document; empty for a single service."""


class SingleService:
    """Leadership of a single service, which always leads."""

    def start(self, state: State) -> None:
        """See `Leadership`."""
        stop_replicating(state)

    def require(self) -> None:
        """See `Leadership`."""

    def deadline_ns(self) -> None:
        """See `Leadership`."""

    def running_check(self, require_running: Callable[[], None]) -> Callable[[], None]:
        """See `Leadership`."""
        return require_running

    def status(self) -> Mapping[str, Any]:
        """See `Leadership`."""
        return {}


SINGLE_SERVICE: Leadership = SingleService()


class ElectedLeader:
    """Leadership of one of several services, once it was elected.

    Parameters
    ----------
    lease
        Lease of the leader.
    store
        Consensus store of the services.
    """

    def __init__(self, lease: Lease, store: ConsensusStore) -> None:
        self._lease, self._store = lease, store
        self._replicated: ReplicatedState | None = None

    def start(self, state: State) -> None:
        """See `Leadership`."""
        self._replicated = ReplicatedState(state, self._store, self._lease)
        self._replicated.start()

    def compact(self) -> None:
        """Write a snapshot of the decisions if one is due."""
        if self._replicated and not self._lease.lost:
            self._replicated.compact()

    def require(self) -> int:
        """See `Leadership`."""
        return self._lease.require().epoch

    def deadline_ns(self) -> int:
        """See `Leadership`."""
        return int(max(self._lease.expiry_s, 0.0) * 1e9)

    def running_check(self, require_running: Callable[[], None]) -> Callable[[], None]:
        """See `Leadership`."""

        def require() -> None:
            if self._lease.lost:
                raise StormwrightError(
                    f"this service has lost its leadership: {self._lease.lost}; restart it as a standby"
                )
            require_running()

        return require

    def status(self) -> Mapping[str, Any]:
        """See `Leadership`."""
        leader = self._lease.leader
        if leader is None:
            return {}
        position = self._replicated.position if self._replicated else 0
        return {"leads": leader.address, "since_ms": leader.since_ms, "epoch": leader.epoch, "entries": position}
