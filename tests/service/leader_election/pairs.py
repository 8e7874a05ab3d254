"""Two services beside a virtual Nimbus: where one is killed, or stopped for a while, the other goes on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from stormwright.controller.safety.pauses import Pauses
from stormwright.errors import NotLeadingError
from stormwright.model import Problem
from stormwright.service.leader_election.leadership import ElectedLeader
from stormwright.service.leader_election.lease import Lease
from stormwright.service.leader_election.standby import StandbyService
from stormwright.service.storage.database import FILE, State
from tests.service.leader_election.places import LEASE_S, LocalClock, Place, Session
from tests.service.plans.nimbus import MortalState, Nimbus

#: Of what a service is made anew when another one takes over.
_PARTS = (
    *("state", "pauses", "plans", "journal", "guard", "plan_service", "executor", "lease", "_directory", "_dead"),
    *("_polled", "until_killed"),
)


class Pair(Nimbus):
    """Each service has a disk of its own; only the leader may send requests to Nimbus.

    Parameters
    ----------
    home, start, seed
        As `Nimbus` has them.
    """

    def __init__(self, home: Path, start: Problem, seed: int = 0) -> None:
        self.place, self._home, self._turn = Place(), home, 0
        #: Moments until the leader is stopped: the other leads to the end, and then it goes on where it was.
        self.until_stopped: int | None = None
        self.stops = 0
        super().__init__(home, start, seed)
        self.place.tick = self.tick

    def begin(self) -> None:
        """The other service takes over, once who led before is not heard of any more."""
        self.place.pass_time(LEASE_S + 1)
        self._directory = self._home / ("one", "other")[self._turn % 2]
        self._turn += 1
        super().begin()

    def _open(self) -> None:
        name = self._directory.name
        self._directory.mkdir(exist_ok=True)
        session = Session(self.place)
        self.lease = Lease(session, name, LocalClock(self.place))
        with closing(State(self._directory / FILE)) as own:
            assert StandbyService(own, self._directory, session, self.lease).poll()
        lead = ElectedLeader(self.lease, session)
        self.state = MortalState(self._directory / FILE, self)
        lead.start(self.state)
        self.pauses = Pauses(self.state.document("paused"))

    def tick(self) -> None:
        super().tick()
        if self.until_stopped is not None:
            self.until_stopped -= 1
            if self.until_stopped < 0:
                self.until_stopped = None
                self._stop()

    def _answer(self) -> None:
        if not self._dead:
            self.lease.require()
        super()._answer()

    def _stop(self) -> None:
        """This service stands still while the other one takes over and does all that is left."""
        self.stops += 1
        stopped = {name: getattr(self, name) for name in _PARTS}
        self._place()
        self.begin()
        self.pauses.resume(self.activate)
        self.run()
        self.led = (self.where(), [each.state for each in self.plans.summaries()], list(self.place.log))
        self.end()
        for name, part in stopped.items():
            setattr(self, name, part)


def after_it_wakes(pair: Pair, most: int = 50) -> None:
    """The service that was stopped goes on as its loop does, until it has heard that it leads no more."""
    for _ in range(most):
        try:
            pair.pauses.resume(pair.activate)
            pair.executor.advance()
        except NotLeadingError:
            pair.lease.renew()
            assert pair.lease.lost
            return
        pair.lease.renew()
        if pair.lease.lost:
            return
    raise AssertionError("it still thinks that it leads")
