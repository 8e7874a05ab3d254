"""A scheduler that makes things worse on purpose, on a virtual Storm: its moves are taken back and not tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stormwright.controller.objectives.outlook import Outlooks
from stormwright.controller.objectives.refusals import FIRST_S
from stormwright.controller.propose import Plan
from stormwright.controller.requests import NoPlan
from stormwright.model import LoadProfile, TopologyAssignment
from stormwright.plans.plan import Promise
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.decider import ROLLBACK_RETRY_S
from stormwright.service.plans.store import PlanStore
from tests.controller.builders import on
from tests.service.virtual import START_S, AllOn, Deciding, Place, T, VirtualStorm

SPREAD = on("n0", "n1")

Begin = Callable[..., Deciding]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[Deciding] = []

    def start(storm: VirtualStorm, **settings: Any) -> Deciding:
        for service in begun:
            service.end()
        begun.append(Deciding(storm, tmp_path, AllOn(2), **settings))
        return begun[-1]

    yield start
    begun[-1].end()


def half_as_good(runs: TopologyAssignment) -> Place:
    """The third node has half the CPU that it says."""
    return Place(500.0, 40.0) if runs.slots[0].supervisor == "n2" else Place(1000.0, 20.0)


def crashes(runs: TopologyAssignment) -> Place:
    """On the third node workers end again and again."""
    return Place(1000.0, 20.0, lives_s=4.0 if runs.slots[0].supervisor == "n2" else None)


def as_good(runs: TopologyAssignment) -> Place:
    return Place(1000.0, 20.0)


def nodes(runs: TopologyAssignment) -> set[str]:
    return {slot.supervisor for slot in runs.slots}


@pytest.mark.long
def test_nothing_is_decided_before_enough_was_measured(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good)
    service = begin(storm)
    assert service.run(60) is None
    assert service.memory.waits == ["t is being measured, about 30 s to go"]
    assert service.run(25) is None
    assert service.memory.waits[0].startswith("t is being measured, about 1")
    assert service.decider.decide().reason == service.memory.waits[0]
    assert service.memory.counts.looks == 0
    service.moved(60)
    assert storm.now_s - START_S >= 60 + 30
    assert service.memory.waits == []


def test_load_of_topologies_that_are_gone_is_not_called_stale(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    """After an idle gap the newest load is old, and of none of the topologies that run now."""
    storm = VirtualStorm(monkeypatch, as_good)
    measured = storm.problem()
    old = LoadProfile({}, start_ms=0, end_ms=1000)
    for load, hold in ((old, "unmeasured"), (replace(measured.load or old, end_ms=1000), "stale")):
        storm.problem = lambda load=load: replace(measured, load=load)  # type: ignore[method-assign]
        decision = begin(storm).decider.decide()
        assert isinstance(decision, NoPlan)
        assert decision.code == hold


@pytest.mark.long
def test_topology_that_crashes_after_its_move_goes_back_within_a_minute(
    monkeypatch: pytest.MonkeyPatch, begin: Begin
) -> None:
    """It is not measured any more, so its load grows old: what runs there is not evaluated, and still it goes back."""
    storm = VirtualStorm(monkeypatch, crashes)
    service = begin(storm)
    service.moved(300)
    assert nodes(storm.runs) == {"n2"}
    moved_s = storm.now_s
    back = service.moved(120)
    assert back.reason.startswith("t goes back to where it was: since its move no tuple tree has completed for 3")
    assert all(step.returns for step in back.steps)
    assert nodes(storm.runs) == nodes(SPREAD)
    assert storm.now_s - moved_s <= 45


@pytest.mark.long
def test_worse_placement_is_rolled_back_and_remembered(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good)
    service = begin(storm)
    assert service.moved(300).origin == "service"
    assert nodes(storm.runs) == {"n2"}
    moved_s = storm.now_s
    back = service.moved(120)
    assert (back.origin, back.targets.keys()) == ("rollback", {T.id})
    assert back.reason.startswith("t goes back to where it was: since its move tuple trees take ")
    assert back.reason.endswith("% fewer complete")
    assert nodes(storm.runs) == nodes(SPREAD)
    assert storm.runs.slot_of_executor == SPREAD.slot_of_executor
    assert storm.now_s - moved_s <= 60, "its young workers were compared with what the old ones did at their age"
    assert service.memory.counts.rolled_back == 1
    evaluations = service.history.evaluation_status()["evaluations"]
    assert {each["evaluation"]["quantity"] for each in evaluations} >= {"throughput", "complete latency"}
    # Not tried again, by a service that was started anew either.
    assert service.run(100) is None
    assert len(service.refused.reasons(storm.now_s * 1000)[T.id]) == 1
    service = begin(storm)
    assert service.run(100) is None
    assert len(storm.moves) == 2
    assert service.memory.decision is not None
    assert "this placement was rolled back" in service.memory.decision.reason
    # Only an hour later.
    until_s = storm.moves[-1][0] + FIRST_S
    storm.now_s = until_s - 60
    assert service.run(40) is None
    service.moved(100)
    assert storm.now_s >= until_s - 10
    assert nodes(storm.runs) == {"n2"}


@pytest.mark.long
@pytest.mark.parametrize("behind_s", [0.0, 5.0])
def test_worse_placement_is_known_within_a_minute_of_a_move_that_took_one(
    monkeypatch: pytest.MonkeyPatch, begin: Begin, behind_s: float
) -> None:
    """New workers were idle in their first minute, and still are compared with what the old ones did when new.

    By clocks that are behind, they seem to have started before the move did.
    """
    storm = VirtualStorm(monkeypatch, half_as_good, swap_s=60, behind_s=behind_s)
    service = begin(storm)
    service.moved(300)
    moved_s = storm.now_s
    assert service.moved(120).origin == "rollback"
    assert storm.now_s - storm.swap_s - moved_s <= 60


@pytest.mark.long
def test_slow_move_to_an_equal_place_is_not_taken_back(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    monkeypatch.setattr(Outlooks, "promises", lambda _, __, topologies: {each: Promise() for each in topologies})
    storm = VirtualStorm(monkeypatch, as_good, swap_s=60)
    service = begin(storm)
    service.moved(300)
    service.run(180)
    assert len(storm.moves) == 1


@pytest.mark.long
def test_restarted_service_rolls_back_move_made_before_kill(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good)
    begin(storm).moved(300)
    service = begin(storm)
    assert service.moved(120).origin == "rollback"
    assert nodes(storm.runs) == nodes(SPREAD)


def test_given_placement_is_applied_regardless_of_gain(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, as_good)
    service = begin(storm)
    service.run(10)
    decision = service.decider.place({T.id: on("n2", "n1")}, "to compare placements", {}, "service")
    assert isinstance(decision, Plan)
    assert service.executor.execute(decision)[0].complete
    assert nodes(storm.runs) == {"n1", "n2"}
    assert decision.origin == "service"
    assert service.refused.reasons(storm.now_s * 1000) == {}


@pytest.mark.slow
def test_rolled_back_placement_is_refused_with_its_stored_worth(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    """Unless another one promises more than that by more than predictions err."""
    storm = VirtualStorm(monkeypatch, as_good)
    service = begin(storm)
    service.moved(300)
    assert nodes(storm.runs) == {"n2"}
    back = service.decider.place(
        {T.id: SPREAD}, "measured −26 %", {T.id: Promise(worth=100.0, rate_tps=1000.0)}, "rollback"
    )
    assert isinstance(back, Plan)
    service.executor.execute(back)
    assert (back.origin, nodes(storm.runs)) == ("rollback", nodes(SPREAD))
    assert service.memory.counts.rolled_back == 1
    problem, now_ms = storm.problem(), storm.now_s * 1000

    def refused(wanted: TopologyAssignment, worth: float) -> bool:
        slots = problem.with_current({T.id: wanted}).current_slot
        return bool(service.refused.stay(problem, slots, {T.id: worth}, {T.id: 1000.0}, now_ms))

    assert refused(on("n2"), 1e9), "the same node, whatever it promises"
    assert refused(on("n1"), 104.0)
    assert not refused(on("n1"), 110.0)
    assert service.run(200) is None, "the same placement is not tried again"


@pytest.mark.slow
def test_equally_good_placement_stays_and_is_evaluated(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, as_good)
    service = begin(storm)
    service.moved(300)
    assert service.run(250) is None
    assert nodes(storm.runs) == {"n2"}
    found = {
        each["evaluation"]["quantity"]: each["evaluation"]
        for each in service.history.evaluation_status()["evaluations"]
    }
    assert found["throughput"]["measured"] == pytest.approx(1, abs=0.05)
    assert found["complete latency"]["measured"] == pytest.approx(1, abs=0.05)
    assert found["inter-node tuples per tree"]["predicted"] == 0


@pytest.mark.slow
def test_load_drop_after_move_causes_no_rollback(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, as_good)
    service = begin(storm)
    service.moved(300)
    storm.offered_tps = lambda _: 150.0
    assert service.run(300) is None
    assert nodes(storm.runs) == {"n2"}


@pytest.mark.long
def test_where_the_rate_is_limited_from_outside_longer_trees_are_worse(
    monkeypatch: pytest.MonkeyPatch, begin: Begin
) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good, lambda _: 200.0)
    service = begin(storm)
    service.moved(300)
    back = service.moved(120)
    assert "although no more of them come" in back.reason
    assert nodes(storm.runs) == nodes(SPREAD)


@pytest.mark.slow
def test_foreign_move_is_not_rolled_back(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good)
    service = begin(storm)
    service.moved(300)
    storm.runs, storm.born_s, storm.active_s = on("n0", "n2"), storm.now_s, storm.now_s
    decisions = [service.run(1, lambda plan: plan.origin == "rollback") for _ in range(100)]
    assert decisions == [None] * 100


@pytest.mark.slow
def test_blocked_rollback_is_retried_only_once_a_minute(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good)
    service = begin(storm, triggers=TriggerParams(period_s=10, cool_down_s=300))
    service.moved(300)
    whole = service.decider._view.problem  # noqa: SLF001
    lost = lambda: replace(whole(), supervisors=whole().supervisors[1:])  # noqa: E731
    monkeypatch.setattr(service.decider._view, "problem", lost)  # noqa: SLF001
    looks = service.memory.counts.looks
    assert service.run(200) is None
    assert service.memory.counts.looks - looks in (2, 3)
    assert service.memory.decision is not None
    assert service.memory.decision.reason.endswith("but it stays, as a node that it was on is gone")
    assert nodes(storm.runs) == {"n2"}


@pytest.mark.slow
def test_pending_rollback_proposal_is_not_repeated(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good)
    service = begin(storm)
    service.moved(300)

    def found(seconds: int) -> list[Plan]:
        """Ways back within that many seconds, of which none is taken."""
        some = []
        for _ in range(seconds):
            service.history.count(storm.second())
            decision = service.decider.decide()
            some += [decision] if isinstance(decision, Plan) and decision.origin == "rollback" else []
        return some

    back, *_ = found(60)
    plans = PlanStore(service.state)
    plan = plans.add("rollback", "traffic", "stormwright", back.reason, {})
    plans.save(plan, back, "suggested")
    assert found(3 * round(ROLLBACK_RETRY_S)) == []
    plans.transition(plan, "discarded")
    assert len(found(round(ROLLBACK_RETRY_S))) == 1


@pytest.mark.slow
def test_rollback_to_drained_node_is_blocked(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    storm = VirtualStorm(monkeypatch, half_as_good)
    service = begin(storm)
    service.moved(300)
    drains = service.decider._guard.drains  # noqa: SLF001
    drains.drain("host0", ["n0"], "anna", "new disks")
    assert service.run(200) is None
    drains.uncordon("host0")
    assert service.moved(120).origin == "rollback"
