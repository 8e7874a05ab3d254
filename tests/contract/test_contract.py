"""Every registered scheduler under the contract."""

from __future__ import annotations

from stormwright.schedulers import make_scheduler
from stormwright.schedulers.support.registry import SCHEDULERS
from tests.contract.suite import SchedulerContract


class TestEven(SchedulerContract):
    """Storm's own: it looks at neither load nor limits, and at names everywhere."""

    keeps_limits = False
    all_or_nothing = False
    ignores_names = False
    ignores_order_of_supervisors = True
    never_moves = True

    def make(self):
        return make_scheduler("even")


class TestOnline(SchedulerContract):
    """Ties go by position, so the order of supervisors has an influence and names have none."""

    def make(self):
        return make_scheduler("online")


class TestOnlineThatKeepsWhatRuns(SchedulerContract):
    """The same, told to leave alone what runs."""

    def make(self):
        return make_scheduler("online", {"keep_running": True})


class TestOnlineWithNarrowWishes(SchedulerContract):
    """The same, with the other end of every range."""

    def make(self):
        return make_scheduler("online", {"alpha": 0, "beta": 0, "gamma": 1, "delta": 0})


class TestOffline(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("offline")


class TestOfflineOnFewNodes(SchedulerContract):
    """The same, with the other end of every range."""

    never_moves = True

    def make(self):
        return make_scheduler("offline", {"alpha": 1, "beta": 0, "epsilon": 1})


class TestTopStorm(SchedulerContract):
    """It places what waits and moves nothing."""

    never_moves = True

    def make(self):
        return make_scheduler("top_storm")


class TestTagAware(SchedulerContract):
    """Without tags in the problem, all is one group."""

    never_moves = True

    def make(self):
        return make_scheduler("tag_aware")


def test_every_registered_scheduler_is_here():
    assert set(SCHEDULERS) == {"even", "offline", "online", "tag_aware", "top_storm"}
