"""Plans that are applied, killed, stopped, taken back and reverted, on a virtual Nimbus."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stormwright.client.shapes import ChangeRequest, ModesChange
from stormwright.controller.description import FigureSources
from stormwright.controller.objectives.outlook import Outlook
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.planning.order import UNLIMITED
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.stages import staged
from stormwright.errors import ConflictError, NotFoundError
from stormwright.model import Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import where
from stormwright.plans.plan import Plan
from tests.controller.builders import on, problem, topology
from tests.service.plans.nimbus import ANNA, Killed, Nimbus, Where, random_cluster, settled

#: Random plans: more of them by hand.
PLANS = int(os.environ.get("STORMWRIGHT_RANDOM_PLANS", "12"))

Begin = Callable[..., Nimbus]


@pytest.fixture(autouse=True)
def unpredicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of plans whose figures are not checked (`test_api.py` does that)."""

    def in_stages(
        plan: Plan, _: Placements, __: IntArray, sources: FigureSources, *_more: object, **_then: object
    ) -> Plan:
        if not sources.in_stages:
            return plan
        stages = staged(plan.steps)
        steps = tuple(replace(step, stage=stage) for step, stage in zip(plan.steps, stages, strict=True))
        return plan.model_copy(update={"steps": steps, "stages": max(stages, default=-1) + 1})

    # It is the process that is killed, and not the machine.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for user in ("controller.propose", "service.plans.plan_service"):
        monkeypatch.setattr(f"stormwright.{user}.with_figures", in_stages)
    monkeypatch.setattr("stormwright.controller.objectives.outlook.Outlooks.promises", lambda *_: {})
    monkeypatch.setattr("stormwright.controller.objectives.outlook.Outlooks.of", lambda *_: Outlook(0.0, "", ""))


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[Nimbus] = []

    def start(cluster: Problem, seed: int = 0) -> Nimbus:
        directory = tmp_path / str(len(begun))
        directory.mkdir()
        begun.append(Nimbus(directory, cluster, seed))
        return begun[-1]

    yield start
    for each in begun:
        each.end()


def planned(nimbus: Nimbus, plan: str) -> Where:
    """Where everything is once a plan is applied, by what it says."""
    then = dict(nimbus.where())
    for step in nimbus.plans.plan(plan).steps:
        for move in step.moves:
            then[move.topology] = where(move.after)
    return dict(sorted(then.items()))


def applied(nimbus: Nimbus, plan: str) -> Plan:
    nimbus.requested(lambda: nimbus.plan_service.apply(plan, ANNA))
    nimbus.run()
    return nimbus.plan_service.plan(plan)


def reverted(nimbus: Nimbus, n: int) -> Plan:
    plan = settled(nimbus, nimbus.plan_service.revert(n, ANNA).id)
    while plan.state == "planned":  # it starts by itself once it is made
        plan = nimbus.plan_service.plan(plan.id)
    nimbus.run()
    return nimbus.plan_service.plan(plan.id)


def moving(seed: int) -> tuple[Problem, IntArray]:
    """A random cluster in which something is to move."""
    while True:
        cluster, wanted = random_cluster(seed)
        if np.any(cluster.slot_node[cluster.current_slot] != cluster.slot_node[wanted]):
            return cluster, wanted
        seed += 100_000


@pytest.mark.parametrize("seed", range(PLANS))
def test_apply_follows_plan_and_revert_restores_placement(begin: Begin, seed: int) -> None:
    cluster, wanted = moving(seed)
    nimbus = begin(cluster)
    before = nimbus.where()
    plan = nimbus.propose(wanted)
    then = planned(nimbus, plan)
    done = applied(nimbus, plan)
    assert (done.state, nimbus.where(), nimbus.paused) == ("done", then, set())
    assert done.decision is not None
    back = reverted(nimbus, done.decision)
    assert (back.state, back.why) == ("done", "")
    assert (back.stages, {step.stage for step in back.steps}) == (1, {0}), "what goes back is not judged"
    assert nimbus.is_back(before)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PLANS))
def test_killed_service_completes_or_rolls_back_plan(begin: Begin, seed: int) -> None:
    cluster, wanted = moving(seed)
    plain = begin(cluster)
    ticks = plain.ticks
    plan = plain.propose(wanted)
    begun, then = plain.ticks, planned(plain, plan)
    applied(plain, plan)
    last = plain.ticks - begun
    assert last > ticks
    some = random.Random(seed)  # noqa: S311 (no secret)
    moments = range(last) if seed == 1 else sorted(some.sample(range(last), 3))
    for moment in moments:
        nimbus = begin(cluster, seed)
        before = nimbus.where()
        plan = nimbus.propose(wanted)
        nimbus.until_killed = moment
        nimbus.requested(lambda n=nimbus, p=plan: n.plan_service.apply(p, ANNA))
        nimbus.run()
        row = nimbus.plan_service.plan(plan)
        if row.state == "proposed":  # killed before it was kept that it begins
            row = applied(nimbus, plan)
        while row.state == "waiting":  # what moved as it was killed could not be measured
            nimbus.plan_service.resume(plan, ANNA)
            nimbus.run()
            row = nimbus.plan_service.plan(plan)
        assert nimbus.paused == set()
        assert nimbus.kills == 1
        assert row.state in ("done", "rolled_back"), row.why
        if row.state == "done":
            assert nimbus.where() == then
        assert row.decision is not None
        back = reverted(nimbus, row.decision) if row.decision in placements_before_entry(nimbus) else None
        assert back is None or back.state == "done", back.why
        assert nimbus.is_back(before)


def placements_before_entry(nimbus: Nimbus) -> set[int]:
    return {row["n"] for row in nimbus.state.read("SELECT n FROM moves")}


def many() -> tuple[Problem, IntArray]:
    """Six topologies of a worker each, which go round by one node: three stages."""
    for seed in range(1000):
        cluster, wanted = random_cluster(seed)
        nodes = cluster.slot_node
        moves = {int(t) for t in cluster.executor_topology[nodes[cluster.current_slot] != nodes[wanted]]}
        if len(moves) == 6:
            return cluster, wanted
    raise AssertionError


def test_worse_stage_is_rolled_back_and_later_stages_are_skipped(begin: Begin) -> None:
    nimbus = begin(many()[0])
    before = nimbus.where()
    plan = nimbus.propose(many()[1])
    first = nimbus.plans.plan(plan).steps[0].moves[0].topology
    nimbus.does_worse = {first}
    row = applied(nimbus, plan)
    assert row.state == "rolled_back"
    assert "each tree takes longer" in row.why
    assert nimbus.is_back(before)
    assert first in nimbus.refused
    assert {step.state for step in nimbus.plan_service.plan(plan).steps} == {"rolled_back", "planned"}


def test_unclear_evaluation_stops_plan_for_a_person(begin: Begin) -> None:
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    then = planned(nimbus, plan)
    nimbus.verdict = "cannot tell"
    row = applied(nimbus, plan)
    assert row.state == "waiting"
    assert "throughput is 1.00 of what it was (0.50 to 1.50), and 1.00 was promised" in row.why
    assert row.stages > 1
    nimbus.verdict = "as predicted"
    nimbus.plan_service.resume(plan, ANNA)
    nimbus.run()
    assert nimbus.plan_service.plan(plan).state == "done"
    assert nimbus.where() == then


def test_stopped_plan_resumes_at_its_last_step(begin: Begin) -> None:
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    then = planned(nimbus, plan)
    nimbus.plan_service.apply(plan, ANNA)
    nimbus.executor.advance()
    nimbus.plan_service.stop(plan, ANNA)
    nimbus.run()
    row = nimbus.plan_service.plan(plan)
    assert (row.state, row.why) == ("stopped", "stopped on request")
    assert row.steps_completed < row.step_count
    nimbus.plan_service.resume(plan, ANNA)
    nimbus.run()
    assert nimbus.where() == then
    with pytest.raises(ConflictError, match=f"plan {plan} is done"):
        nimbus.plan_service.stop(plan, ANNA)


def test_discarded_plan_still_says_how_far_it_came(begin: Begin) -> None:
    """It was at step 0 as soon as it was discarded."""
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    nimbus.plan_service.apply(plan, ANNA)
    nimbus.executor.advance()
    nimbus.plan_service.stop(plan, ANNA)
    nimbus.run()
    completed = nimbus.plan_service.plan(plan).steps_completed
    assert completed > 0
    assert nimbus.plan_service.discard(plan, ANNA).steps_completed == completed


def test_to_freeze_stops_the_plan_under_way(begin: Begin) -> None:
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    nimbus.plan_service.apply(plan, ANNA)
    nimbus.executor.advance()
    nimbus.plan_service.change_modes(ModesChange(frozen="month end", by="anna", reason="accounts"))
    nimbus.run()
    row = nimbus.plan_service.plan(plan)
    assert (row.state, row.why) == ("stopped", "stopped on request: everything is frozen: month end")
    with pytest.raises(ConflictError, match="everything is frozen"):
        nimbus.plan_service.resume(plan, ANNA)


def test_to_freeze_stops_an_automatic_plan_between_two_moves(begin: Begin, monkeypatch) -> None:
    """Its steps are made in one go; docs/plans.md promises that nothing more moves."""
    nimbus = begin(many()[0])
    now = nimbus.now()
    order = plan_moves(now, Assignment(many()[1]), UNLIMITED, cpu_limits=False)
    freeze, moves = ModesChange(frozen="month end", by="anna", reason="accounts"), nimbus.move

    def move(*given):
        made = moves(*given)
        nimbus.plan_service.change_modes(freeze)
        return made

    monkeypatch.setattr(nimbus.executor._runner, "_move", move)  # noqa: SLF001
    assert len(order.steps) > 1
    nimbus.executor.execute(plan_of(now, order).model_copy(update={"reason": "better"}))
    (plan,) = nimbus.plans.summaries(most=10)
    assert (plan.state, plan.why) == ("stopped", "stopped on request: everything is frozen: month end")
    assert 0 < plan.steps_completed < len(order.steps)


def test_plan_that_is_stopped_on_a_detour_goes_on_to_its_end(begin: Begin) -> None:
    a, b = topology("a", workers=1), topology("b", workers=1)
    nimbus = begin(problem([a, b], nodes=3, slots=1, current={a.id: on("n0"), b.id: on("n1")}))
    plan = nimbus.propose(np.array([1] * 4 + [0] * 4, np.int32))
    assert not all(move.arrives for move in nimbus.plans.plan(plan).moves)
    nimbus.plan_service.apply(plan, ANNA)
    nimbus.executor.advance()
    nimbus.plan_service.stop(plan, ANNA)
    nimbus.run()
    assert nimbus.plan_service.plan(plan).state in ("stopped", "done")
    assert nimbus.runs == {a.id: on("n1"), b.id: on("n0")}


def test_person_with_the_name_of_the_service_is_none(begin: Begin) -> None:
    """As where the command line runs as the user of the service: such a plan is evaluated as any other."""
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    nimbus.plan_service.apply(plan, ChangeRequest(by="stormwright", reason="a try"))
    row = nimbus.plan_service.plan(plan)
    assert (row.approved_by, row.is_unattended) == ("stormwright (person)", False)


def test_undrained_topology_stops_plan_without_partial_moves(begin: Begin) -> None:
    nimbus = begin(many()[0])
    before = nimbus.where()
    plan = nimbus.propose(many()[1])
    nimbus.fails = {nimbus.plans.plan(plan).steps[0].moves[0].topology}
    row = applied(nimbus, plan)
    assert row.state == "stopped"
    assert "does not drain" in row.why
    assert (nimbus.where(), nimbus.paused) == (before, set())


def test_plan_of_changed_cluster_is_rejected_with_the_change(begin: Begin) -> None:
    cluster, wanted = many()
    nimbus = begin(cluster)
    plan = nimbus.propose(wanted)
    assert nimbus.plan_service.plan(plan).outdated == ""
    nimbus.runs.pop("t0-1-0")
    with pytest.raises(ConflictError, match="the cluster has changed since: t0-1-0 runs somewhere else"):
        nimbus.plan_service.apply(plan, ANNA)
    assert nimbus.plan_service.plan(plan).state == "proposed"
    assert nimbus.plan_service.plan(plan).outdated.startswith("t0-1-0 runs somewhere else")
    (listed,) = nimbus.plan_service.plans().plans
    assert listed.outdated


def test_apply_rejects_concurrent_frozen_or_self_approved_plans(begin: Begin) -> None:
    nimbus = begin(many()[0])
    plan, other = nimbus.propose(many()[1]), nimbus.propose(many()[1])
    nimbus.plan_service.change_modes(ModesChange(frozen="month end", by="anna", reason="accounts"))
    with pytest.raises(ConflictError, match="everything is frozen: month end"):
        nimbus.plan_service.apply(plan, ANNA)
    nimbus.plan_service.change_modes(ModesChange(two_people=True, by="anna", reason="over"))
    with pytest.raises(ConflictError, match="another person has to apply it"):
        nimbus.plan_service.apply(plan, ChangeRequest(by="stormwright", reason="itself"))
    nimbus.plan_service.apply(plan, ANNA)
    with pytest.raises(ConflictError, match=f"plan {plan} is applying: one is applied at a time"):
        nimbus.plan_service.apply(other, ANNA)
    with pytest.raises(NotFoundError, match="the history has no entry 99"):
        nimbus.plan_service.revert(99, ANNA)
    texts = [entry.text for entry in nimbus.plan_service.history().entries if entry.kind == "modes"]
    assert texts == ["no longer frozen; two_people: yes", "frozen: month end"]


def test_revert_requires_second_person_under_two_person_rule(begin: Begin) -> None:
    nimbus = begin(many()[0])
    done = applied(nimbus, nimbus.propose(many()[1]))
    assert done.decision is not None
    there = nimbus.where()
    nimbus.plan_service.change_modes(ModesChange(by="anna", reason="a rule", two_people=True))
    plan = settled(nimbus, nimbus.plan_service.revert(done.decision, ANNA).id)
    while plan.auto_apply:
        plan = nimbus.plan_service.plan(plan.id)
    assert (plan.state, plan.why) == ("planned", "anna has requested it: another person has to apply it")
    nimbus.again()
    with pytest.raises(ConflictError, match="another person has to apply it"):
        nimbus.plan_service.apply(plan.id, ANNA)
    assert nimbus.where() == there
    nimbus.plan_service.apply(plan.id, ANNA.model_copy(update={"by": "ben"}))
    nimbus.run()
    assert nimbus.where() != there


@pytest.mark.long
def test_plan_starts_in_one_transaction(begin: Begin) -> None:
    """Killed at any moment of it, there is an entry in the history where the plan is under way, and none where not."""
    for moment in range(12):
        nimbus = begin(many()[0])
        plan = nimbus.propose(many()[1])
        nimbus.until_killed = moment
        found = nimbus.requested(lambda plan=plan, nimbus=nimbus: nimbus.plan_service.apply(plan, ANNA))
        entries = nimbus.journal.entries(9).entries
        assert len(entries) == (found.state == "applying"), moment
        assert [entry.n for entry in entries] == ([found.decision] if entries else [])
    assert found.state == "applying"


@pytest.mark.slow
def test_service_killed_during_revert_completes_or_rolls_back(begin: Begin) -> None:
    cluster, wanted = many()
    for moment in range(0, 60, 7):
        nimbus = begin(cluster, moment)
        before = nimbus.where()
        plan = nimbus.propose(wanted)
        n = applied(nimbus, plan).decision
        then = nimbus.where()
        assert n is not None
        back = settled(nimbus, nimbus.plan_service.revert(n, ANNA).id)
        while back.state == "planned":
            back = nimbus.plan_service.plan(back.id)
        nimbus.until_killed = moment
        try:
            nimbus.run()
        except Killed:
            nimbus.again()
            nimbus.run()
        row = nimbus.plan_service.plan(back.id)
        assert nimbus.paused == set()
        assert row.state in ("done", "rolled_back"), row.why
        assert nimbus.is_back(before if row.state == "done" else then)


def begun_stage(nimbus: Nimbus, plan: str) -> list[str]:
    """The second stage has begun: the topologies of it that have moved, and are to."""
    nimbus.plan_service.apply(plan, ANNA)
    for _ in range(100):
        nimbus.executor.advance()
        row = nimbus.plans.plan(plan)
        own = [step for step in nimbus.plans.plan(plan).steps if step.stage == row.stage == 1]
        if any(step.state == "moved" for step in own):
            return [move.topology for step in own for move in step.moves]
    raise AssertionError


def test_plan_stops_if_moved_topology_is_killed(begin: Begin) -> None:
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    gone = begun_stage(nimbus, plan)[0]
    nimbus.kill(gone)
    nimbus.run()
    row = nimbus.plan_service.plan(plan)
    assert (row.state, row.why) == ("stopped", f"the cluster has changed: {gone} is gone")


def test_topology_removed_during_move_does_not_block_plan(begin: Begin) -> None:
    nimbus = begin(many()[0])
    before = nimbus.where()
    plan = nimbus.propose(many()[1])
    gone = nimbus.plans.plan(plan).steps[0].moves[0].topology
    nimbus.plan_service.apply(plan, ANNA)
    nimbus.until_killed = 11  # its workers have ended, and no new ones begun
    with pytest.raises(Killed):
        nimbus.executor.advance()
    nimbus.again()
    nimbus.kill(gone)
    nimbus.run()
    row = nimbus.plan_service.plan(plan)
    assert (row.state, row.why.endswith("gone as it was moved")) == ("rolled_back", True)
    assert nimbus.is_back({each: slots for each, slots in before.items() if each != gone})


def test_move_without_free_slots_does_not_block_service(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormwright.service.plans.executor.AGAIN_S", 0.0)
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    first = nimbus.plans.plan(plan).steps[0]
    nimbus.plan_service.apply(plan, ANNA)
    nimbus.plans.set_step(plan, first.number, "moving")
    nimbus.lose(first.moves[0].topology)
    assert all(nimbus.executor.advance() for _ in range(9))
    nimbus.plan_service.stop(plan, ANNA)
    nimbus.run()
    assert nimbus.plan_service.plan(plan).state == "rolled_back"


def test_rollback_without_free_slots_is_abandoned(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormwright.service.plans.executor.AGAIN_S", 0.0)
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    lost = begun_stage(nimbus, plan)[0]
    nimbus.plans.transition(plan, "to roll back", "it does worse")
    nimbus.lose(lost)
    nimbus.run()
    row = nimbus.plan_service.plan(plan)
    assert row.state == "failed"
    assert f"{lost}: has executors without a slot now" in row.why


def test_resumed_plan_is_evaluated_by_its_own_decision(begin: Begin) -> None:
    nimbus = begin(many()[0])
    plan = nimbus.propose(many()[1])
    assert len(begun_stage(nimbus, plan)) > 1
    nimbus.plan_service.stop(plan, ANNA)
    nimbus.run()
    assert nimbus.plans.plan(plan).state == "stopped"
    nimbus.decide(nimbus.now(), Plan(reason="of the service itself"))
    nimbus.plan_service.resume(plan, ANNA)
    nimbus.run()
    row = nimbus.plan_service.plan(plan)
    assert (row.state, row.why) == ("done", "")
