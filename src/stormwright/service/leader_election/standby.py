"""A standby service: replicates the leader's decisions, and leads once there is no leader."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stormwright.clock import WALL, Clock
from stormwright.errors import ClusterError, StormwrightError
from stormwright.service.leader_election.consensus import ConsensusStore, Leader
from stormwright.service.leader_election.lead import ElectedLeader
from stormwright.service.leader_election.lease import Lease
from stormwright.service.leader_election.replicated_state import ReplicatedState
from stormwright.service.on_change import OnChange
from stormwright.service.storage.database import FILE, State

log = logging.getLogger(__name__)

#: Seconds from one look at who leads, and at what he has decided, to the next; and from one renewal to the next.
LOOK_S, RENEW_S = 0.5, 1.0


class StandbyService:
    """Follows the leader.

    Parameters
    ----------
    state
        Its own, which becomes that of the leader.
    directory
        Of the state.
    agreed, lease
        Where services agree, and the right to lead.
    clock
        By which it looks.
    """

    def __init__(
        self, state: State, directory: Path, agreed: ConsensusStore, lease: Lease, clock: Clock = WALL
    ) -> None:
        self.state, self._directory = state, directory
        self._agreed, self._lease, self._clock = agreed, lease, clock
        self._together = ReplicatedState(state, agreed, lease)
        self._say, self._warn = OnChange(log.info), OnChange(log.warning)
        #: Who leads, as it was known last.
        self.leader: Leader | None = None

    @property
    def position(self) -> int:
        """Number of the last entry that is known here."""
        return self._together.position

    def until_it_leads(self, stop: threading.Event) -> bool:
        """Replicate until there is no leader, then lead; return False if `stop` was set before.

        Raises
        ------
        StormwrightError
            What the leader decides cannot be kept here.
        """
        while not stop.is_set():
            try:
                if self.look():
                    return True
            except ClusterError as error:
                self._warn(f"it is not known who leads: {error}")
            except (sqlite3.Error, OSError) as error:
                raise StormwrightError(f"what the leader decides cannot be kept here: {error}") from error
            else:
                self._warn.over()
            self._clock.stopped(stop, LOOK_S)
        return False

    def look(self) -> bool:
        """Replicate new entries, and try to lead if there is no leader; return whether this service leads."""
        self._together.catch_up(self._directory)
        if self._lease.leader is None:
            self.leader = self._agreed.leader()
            if self.leader:
                self._say(f"{self.leader.address} leads: this service stands by")
            if self.leader or not self._lease.claim():
                return False
            # Whoever led before has added its last entry by now.
            self._together.catch_up(self._directory)
        self.leader = self._lease.leader
        log.info("this service leads, with all of %d decisions", self.position)
        return True


@contextmanager
def standing_by(directory: Path, agreed: ConsensusStore, lease: Lease) -> Iterator[StandbyService]:
    """A service that stands by with the state of a directory; which is let go of after the block."""
    with closing(State(directory / FILE)) as state:
        yield StandbyService(state, directory, agreed, lease)


@contextmanager
def renewing(lease: Lease, leading: ElectedLeader, lost: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Renew a lease in the block, in a thread of its own, and call `lost` where that is over for good."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_S):
            lease.renew()
            if lease.lost:
                lost()
                return

    def tidy() -> None:
        warn = OnChange(log.warning)
        while not ended.wait(60 * RENEW_S):
            try:
                leading.tidy()
            except Exception as error:  # the log only grows
                warn(f"what was decided cannot be kept whole: {error}")

    for work, name in ((renew, "stormwright-lease"), (tidy, "stormwright-agreed")):
        threading.Thread(target=work, name=name, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
