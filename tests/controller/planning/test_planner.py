"""Whole plans on full nodes: no limit is ever broken on the way, and what the plan says arrives."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.controller.planning.capacity import MoveRoom
from stormwright.controller.planning.detours import FEW_ASIDE, MAX_ASIDE, Helpers
from stormwright.controller.planning.order import Excluded, MoveBudget, NoRoom, OverBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.model import Assignment, Problem, Supervisor
from tests.controller.builders import on, problem
from tests.controller.builders import topology as of_name
from tests.controller.planning.plan_problems import PlacementJudge, random_problem

ALL = MoveBudget(10**6, 10**9)


def wanders(problem: Problem, wanted: Assignment) -> set[str]:
    """Topologies that are not where they shall be."""
    judge = PlacementJudge(problem)
    return {t.id for t in problem.topologies} - judge.arrived(wanted)


@pytest.mark.slow
@given(st.integers(0, 10**6))
def test_every_step_keeps_every_limit_and_all_arrive(seed: int) -> None:
    """Both placements keep all limits, so at the worst all change places at one go."""
    problem, wanted = random_problem(seed)
    plan = plan_moves(problem, wanted, ALL)
    judge = PlacementJudge(problem).follow(plan)
    assert judge.faults == []
    assert plan.blocked == {}
    assert judge.arrived(wanted) == {t.id for t in problem.topologies}


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(4, 40), st.integers(0, 3))
def test_excluded_topologies_are_named_and_the_rest_arrive(
    seed: int, topologies: int, executors: int, staying: int
) -> None:
    problem, wanted = random_problem(seed)
    stay = {t.id: "kept" for t in problem.topologies[:staying]}
    plan = plan_moves(problem, wanted, MoveBudget(topologies, executors), stay)
    judge = PlacementJudge(problem).follow(plan)
    assert judge.faults == []
    assert len({move.topology for move in plan.moves}) <= topologies
    assert sum(move.moved_executors for move in plan.moves) <= executors
    arriving = {move.topology for move in plan.moves if move.arrives}
    assert arriving <= judge.arrived(wanted)
    assert wanders(problem, wanted) <= arriving | plan.blocked.keys()
    assert arriving.isdisjoint(plan.blocked)
    assert {move.topology for move in plan.moves} <= arriving, "nobody is left in a spare slot"
    for topology, why in plan.blocked.items():
        assert isinstance(why, Excluded) == (topology in stay)
        if isinstance(why, NoRoom):
            assert why.missing
            assert all(missing.amount > 0 for missing in why.missing)


def test_copied_rooms_share_worker_lookup() -> None:
    of, wanted = random_problem(1)
    room = MoveRoom(of, wanted.slot_of_executor)
    first, again = room.copy(), room.copy()
    assert first.workers(0) is again.workers(0)
    assert first.loads(0) is again.loads(0)
    own = wanted.slot_of_executor[of.executors_of(0)]
    first.put({0: own})
    assert set(first.workers(0)) == set(own.tolist())
    assert set(again.workers(0)) == set(of.current_slot[of.executors_of(0)].tolist())


@pytest.mark.slow
@given(st.integers(0, 10**6))
def test_plan_steps_name_their_prerequisites(seed: int) -> None:
    """Without those that it names, and all that need them, no step goes where another is or where there is no room."""
    problem, wanted = random_problem(seed)
    plan = plan_moves(problem, wanted, ALL)
    for failing in {move.topology for move in plan.moves}:
        failed, made = set(), []
        for step in plan.steps:
            ids = {move.topology for move in step.moves}
            if failing in ids or step.depends_on & failed:
                failed |= ids
            else:
                made.append(step)
        assert PlacementJudge(problem).follow(replace(plan, steps=tuple(made))).faults == []


@pytest.mark.slow
@given(st.integers(0, 10**6))
def test_no_smaller_group_could_change_places(seed: int) -> None:
    """Tried out: of the topologies that move together no fewer than these could have."""
    problem, wanted = random_problem(seed)
    plan = plan_moves(problem, wanted, ALL)
    judge = PlacementJudge(problem)
    for step in plan.steps:
        if 1 < len(step.moves) <= 4:
            for fewer in range(1, len(step.moves)):
                for some in combinations(step.moves, fewer):
                    trial = PlacementJudge(problem.with_current(judge.runs))
                    assert trial.follow(replace(plan, steps=(replace(step, moves=some),))).faults
        judge.follow(replace(plan, steps=(step,)))


def test_an_executor_without_a_wished_slot_keeps_its_topology() -> None:
    problem, wanted = random_problem(1)
    nowhere = wanted.slot_of_executor.copy()
    nowhere[problem.executors_of(0)] = -1
    plan = plan_moves(problem, Assignment(nowhere), ALL)
    of = problem.topologies[0]
    assert str(plan.blocked[of.id]) == f"no slot for {of.num_executors} executors in the target placement"


def test_nothing_moves_with_no_budget() -> None:
    problem, wanted = random_problem(2)
    plan = plan_moves(problem, wanted, MoveBudget(0, 0))
    assert plan.steps == ()
    assert plan.blocked.keys() == wanders(problem, wanted)
    assert all(isinstance(why, NoRoom | OverBudget) for why in plan.blocked.values())
    assert not np.any([isinstance(why, Excluded) for why in plan.blocked.values()])


@pytest.mark.long
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_topologies_moved_aside_stay_within_small_budget(seed: int, topologies: int) -> None:
    problem, wanted = random_problem(seed)
    plan = plan_moves(problem, wanted, MoveBudget(topologies, 10**9))
    assert len({move.topology for move in plan.moves}) <= topologies
    assert {move.topology for move in plan.moves if not move.arrives} <= {m.topology for m in plan.moves if m.arrives}


@pytest.mark.parametrize(("topologies", "most"), [(2, FEW_ASIDE), (4, 7), (8, MAX_ASIDE)])
def test_helpers_are_limited_to_few_trips_unless_more_are_requested(topologies: int, most: int) -> None:
    names = [f"t{number}" for number in range(topologies)]
    of = problem([of_name(name) for name in names], nodes=8, current={f"{name}-1-0": on("n0") for name in names[:1]})
    helpers = Helpers(MoveRoom(of, of.current_slot), range(topologies))
    assert not helpers.once_more(), "nobody rests"
    trips = 0
    while 0 in helpers or helpers.once_more():
        helpers.leave([0])
        helpers.come([0], arrives=False)
        trips += 1
        assert (0 in helpers) == (trips < FEW_ASIDE)
    assert trips == helpers.times[0] == most
    helpers.come([0], arrives=True)
    assert not helpers.once_more(), "who has arrived stays"


@pytest.mark.parametrize("tagged", [(), ("a-1-0",), ("a-1-0", "b-1-0")])
def test_tagged_topology_avoids_spare_slots_without_its_tag(tagged: tuple[str, ...]) -> None:
    of = problem(
        [of_name("a", workers=1), of_name("b", workers=1)], slots=1, current={"a-1-0": on("n0"), "b-1-0": on("n1")}
    )
    nodes = tuple(replace(node, scheduler_meta={"tags": "gpu, ssd"}) for node in of.supervisors[:2])
    topologies = tuple(
        replace(t, components=tuple(replace(c, tags=("gpu",)) for c in t.components)) if t.id in tagged else t
        for t in of.topologies
    )
    of = replace(of, supervisors=(*nodes, of.supervisors[2]), topologies=topologies)
    plan = plan_moves(of, Assignment(np.repeat([1, 0], 4).astype(np.int32)), ALL)
    aside = {move.topology for move in plan.moves for leg in move.legs if ("n2", 6700) in leg.after.slots}
    assert plan.blocked == {}
    assert len(aside) == (0 if len(tagged) == 2 else 1)
    assert aside.isdisjoint(tagged)


def test_topology_moving_from_one_worker_to_two_needs_two_slots() -> None:
    slots = {"A": 1, "B": 2, "C": 1, "D": 1}
    memory = {"memory.mb": 1e6}
    nodes = tuple(
        Supervisor(n, f"h-{n}", tuple(range(6700, 6700 + k)), cpu_hz=6e10, resources=memory) for n, k in slots.items()
    )
    topologies = tuple(of_name(name, workers=2 if name == "t" else 1) for name in "xtgh")
    x, t, g, h = (of.id for of in topologies)
    full = Problem(nodes, topologies, current={x: on("D"), t: on("A"), g: on("B"), h: on("C")})
    wished = [("A", 6700)] * 4 + [("B", 6700)] * 2 + [("B", 6701)] * 2 + [("C", 6700)] * 4 + [("D", 6700)] * 4
    wanted = Assignment(np.array([full.slot_index[slot] for slot in wished], dtype=np.int32))
    judge = PlacementJudge(full).follow(plan_moves(full, wanted, ALL))
    assert judge.faults == []
    assert judge.arrived(wanted) == {x, t, g, h}
