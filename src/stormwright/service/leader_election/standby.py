"""A standby service: replicates the leader's decisions, and leads once there is no leader."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stormwright.base.clock import WALL, Clock
from stormwright.errors import ClusterError, StormwrightError
from stormwright.service.leader_election.consensus import ConsensusStore, Leader
from stormwright.service.leader_election.leadership import ElectedLeader
from stormwright.service.leader_election.lease import Lease
from stormwright.service.leader_election.replicated_state import ReplicatedState
from stormwright.service.on_change import OnChange
from stormwright.service.storage.database import FILE, State

log = logging.getLogger(__name__)

#: Seconds between two polls of the leader and its decisions, and between two renewals of the lease.
POLL_S, RENEW_S = 0.5, 1.0


class StandbyService:
    """A service that replicates the leader.

    Parameters
    ----------
    state
        State of this service, which follows that of the leader.
    directory
        State directory, where a former state is set aside when it is replaced.
    store, lease
        Consensus store of the services, and lease of the leader.
    clock
        Clock for the polls.
    """

    def __init__(self, state: State, directory: Path, store: ConsensusStore, lease: Lease, clock: Clock = WALL) -> None:
        self.state, self._directory = state, directory
        self._store, self._lease, self._clock = store, lease, clock
        self._replicated = ReplicatedState(state, store, lease)
        self._log_changed, self._warn_changed = OnChange(log.info), OnChange(log.warning)
        #: The last known leader.
        self.leader: Leader | None = None

    @property
    def position(self) -> int:
        """Number of the last replicated entry."""
        return self._replicated.position

    def wait_until_leader(self, stop: threading.Event) -> bool:
        """Replicate until there is no leader, then lead; return False if `stop` was set before.

        Raises
        ------
        StormwrightError
            Decisions of the leader cannot be stored here.
        """
        while not stop.is_set():
            try:
                if self.poll():
                    return True
            except ClusterError as error:
                self._warn_changed(f"the leader is unknown: {error}")
            except (sqlite3.Error, OSError) as error:
                raise StormwrightError(f"decisions of the leader cannot be stored: {error}") from error
            else:
                self._warn_changed.over()
            self._clock.stopped(stop, POLL_S)
        return False

    def poll(self) -> bool:
        """Replicate new entries, and try to lead if there is no leader; return whether this service leads."""
        self._replicated.catch_up(self._directory)
        if self._lease.leader is None:
            self.leader = self._store.leader()
            if self.leader:
                self._log_changed(f"{self.leader.address} leads: this service stands by")
            if self.leader or not self._lease.acquire():
                return False
            # The former leader cannot append any more entries.
            self._replicated.catch_up(self._directory)
        self.leader = self._lease.leader
        log.info("this service leads, with all %d decisions", self.position)
        return True


@contextmanager
def open_standby(directory: Path, store: ConsensusStore, lease: Lease) -> Iterator[StandbyService]:
    """Open the state of a directory for a standby; it is closed after the block."""
    with closing(State(directory / FILE)) as state:
        yield StandbyService(state, directory, store, lease)


@contextmanager
def renew_lease(lease: Lease, leadership: ElectedLeader, lost: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Renew a lease in a thread during the block, and call `lost` once it is lost for good."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_S):
            lease.renew()
            if lease.lost:
                lost()
                return

    def compact() -> None:
        warn = OnChange(log.warning)
        while not ended.wait(60 * RENEW_S):
            try:
                leadership.compact()
            except Exception as error:  # the log only grows
                warn(f"no snapshot of the decisions can be saved: {error}")

    for work, name in ((renew, "stormwright-lease"), (compact, "stormwright-snapshots")):
        threading.Thread(target=work, name=name, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
