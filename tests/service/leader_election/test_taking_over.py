"""One of two services is killed, or stopped, at any step of a plan: the other goes on, and nothing happens twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormwright.errors import NotLeadingError
from stormwright.plans.states import ACTIVE_STATES
from tests.service.leader_election.pairs import Pair, after_it_wakes
from tests.service.plans.nimbus import ANNA
from tests.service.plans.test_applying import PLANS, Begin, moving, planned, unpredicted  # noqa: F401


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[Pair] = []

    def start(cluster: object, seed: int = 0) -> Pair:
        directory = tmp_path / str(len(begun))
        directory.mkdir()
        begun.append(Pair(directory, cluster, seed))  # type: ignore[arg-type]
        return begun[-1]

    yield start
    for each in begun:
        each.end()


def moments(begin: Begin, seed: int) -> list[int]:
    """Some moments of a plan that is applied from its beginning to its end."""
    cluster, wanted = moving(seed)
    plain = begin(cluster)
    plan = plain.propose(wanted)
    begun = plain.ticks
    plain.plan_service.apply(plan, ANNA)
    plain.run()
    last = plain.ticks - begun
    some = random.Random(seed)  # noqa: S311 (no secret)
    return list(range(last)) if seed == 1 else sorted(some.sample(range(last), 4))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PLANS))
def test_new_leader_completes_or_rolls_back_running_plan(begin: Begin, seed: int) -> None:
    for moment in moments(begin, seed):
        cluster, wanted = moving(seed)
        pair = begin(cluster, seed)
        plan = pair.propose(wanted)
        then = planned(pair, plan)
        pair.until_killed = moment
        pair.requested(lambda p=pair, n=plan: p.plan_service.apply(n, ANNA))
        pair.run()
        row = pair.plan_service.plan(plan)
        if row.state == "proposed":  # killed before it was agreed that it begins
            pair.requested(lambda p=pair, n=plan: p.plan_service.apply(n, ANNA))
            pair.run()
            row = pair.plan_service.plan(plan)
        while row.state == "waiting":  # what moved as it was killed could not be measured
            pair.plan_service.resume(plan, ANNA)
            pair.run()
            row = pair.plan_service.plan(plan)
        assert (pair.kills, pair.paused) == (1, set())
        assert row.state in ("done", "rolled_back"), row.why
        if row.state == "done":
            assert pair.where() == then
        numbers = [each.n for each in pair.plan_service.history().entries]
        assert len(numbers) == len(set(numbers))
        assert [each.plan for each in pair.plan_service.history().entries].count(plan) == 1, "it began once"
        epochs = [epoch for epoch, _ in pair.place.log]
        assert epochs == sorted(epochs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PLANS))
def test_suspended_former_leader_takes_no_action_on_wakeup(begin: Begin, seed: int) -> None:
    for moment in moments(begin, seed):
        cluster, wanted = moving(seed)
        pair = begin(cluster, seed)
        plan = pair.propose(wanted)
        pair.until_stopped = moment
        try:
            pair.plan_service.apply(plan, ANNA)
            pair.run()
        except NotLeadingError:
            pass
        assert pair.stops == 1
        after_it_wakes(pair)
        where, states, log = pair.led
        assert (pair.where(), pair.place.log, pair.paused) == (where, log, set())
        assert not set(states) & set(ACTIVE_STATES)


def test_returning_leader_has_all_decisions_made_meanwhile(begin: Begin) -> None:
    cluster, wanted = moving(3)
    pair = begin(cluster)
    first = pair.propose(wanted)
    for _ in range(4):
        before = (
            pair.plan_service.history(),
            [each.id for each in pair.plan_service.plans().plans],
            pair.plan_service.modes(),
        )
        pair.again()
        after = (
            pair.plan_service.history(),
            [each.id for each in pair.plan_service.plans().plans],
            pair.plan_service.modes(),
        )
        assert after == before
        pair.propose(wanted)
    assert pair.plan_service.plan(first).state == "proposed"
