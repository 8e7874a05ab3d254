"""Never do two services lead at once, whatever stops them and however their clocks go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.errors import ClusterError, NotLeadingError
from stormwright.service.leader_election.lease import SAFE_FRACTION, Lease
from tests.service.leader_election.places import LEASE_S, LocalClock, Place, Session

#: What happens to one of three services: it does something, is cut off, or hears no answers.
EVENTS = ("claim", "renew", "append", "cut", "heal", "deafen", "hear", "restart")

#: Seconds between two events: short ones, and some around the end of a lease, by a right clock and by a wrong one.
PASS_S = (0.0, 0.3, 1.0, 2.7, 5.3, 5.9, 7.9, 8.1, 8.5)

happenings = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 2), st.sampled_from(PASS_S)), max_size=60)
clocks = st.tuples(st.floats(-1e6, 1e6), st.floats(0.9, 1.1))


class Service:
    def __init__(self, place: Place, name: str, offset_s: float, rate: float) -> None:
        self.place, self.name, self.clock = place, name, LocalClock(place, offset_s, rate)
        self.begin()

    def begin(self) -> None:
        self.session = Session(self.place)
        self.lease = Lease(self.session, self.name, self.clock)

    @property
    def relies(self) -> bool:
        try:
            self.lease.require()
        except NotLeadingError:
            return False
        return True


@pytest.mark.long
@given(happenings, st.tuples(clocks, clocks, clocks))
def test_never_do_two_rely_on_leading(
    happens: list[tuple[str, int, float]], clock_settings: tuple[tuple[float, float], ...]
) -> None:
    place = Place()
    services = [Service(place, f"s{number}", *clock) for number, clock in enumerate(clock_settings)]
    for event, number, later_s in happens:
        place.pass_time(later_s)
        service = services[number]
        happen(place, service, event)
        relying = [each for each in services if each.relies]
        assert len(relying) <= 1
        if relying:
            assert place.leader == relying[0].lease.leader, "nobody else can have been let in yet"
    epochs = [epoch for epoch, _ in place.log]
    assert epochs == sorted(epochs), "who led before has added nothing after the next one began"


def happen(place: Place, service: Service, event: str) -> None:
    if event == "claim" and service.lease.leader is None:
        try:
            service.lease.acquire()
        except ClusterError:  # whether it was taken is not known: it tries again
            return
    elif event == "renew":
        service.lease.renew()
    elif event == "append":
        # A service may be stopped between the two: the place refuses what comes too late.
        try:
            service.session.append(len(place.log) + 1, service.name.encode())
        except (ClusterError, NotLeadingError):
            return
        assert place.of is service.session
    elif event in ("cut", "heal"):
        service.session.cut = event == "cut"
    elif event in ("deafen", "hear"):
        service.session.deaf = event == "deafen"
    else:
        service.begin()


def test_suspended_leader_loses_its_lease_on_wakeup() -> None:
    place = Place()
    one, other = Service(place, "one", 0.0, 1.0), Service(place, "other", 1e6, 1.0)
    assert one.lease.acquire()
    assert not other.lease.acquire()
    place.pass_time(LEASE_S + 1)
    assert other.lease.acquire()
    with pytest.raises(NotLeadingError, match="its lease is not renewed"):
        one.lease.require()
    one.lease.renew()
    assert one.lease.lost == "another one leads"
    assert other.relies


def test_brief_loss_of_coordination_server_retains_leadership() -> None:
    place = Place()
    one = Service(place, "one", 0.0, 1.0)
    assert one.lease.acquire()
    one.session.cut = True
    place.now_s += SAFE_FRACTION * LEASE_S + 0.1
    one.lease.renew()
    assert not one.relies
    one.session.cut = False
    one.lease.renew()
    assert one.relies
    assert one.lease.lost == ""


def test_leader_resigns_after_prolonged_silence_of_coordination_server() -> None:
    place = Place()
    one = Service(place, "one", 0.0, 1.0)
    assert one.lease.acquire()
    one.session.cut = True
    place.now_s += 100
    one.lease.renew()
    assert one.lease.lost == "the place does not answer"
    one.session.cut = False
    one.lease.renew()
    assert not one.relies, "it has begun to end"
