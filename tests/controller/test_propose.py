"""What a plan is made of: what it moves, what it relies on, its stages, and what came of it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stormwright.controller.description import FigureSources, with_figures
from stormwright.controller.objectives.outlook import Outlook, Outlooks
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.placement_figures import side_of
from stormwright.controller.planning.expected_pauses import LEG_S, START_CORE_S, expected_pause, modelled_pause_s
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.planning.valid_moves import plan_valid_moves, planned_slots
from stormwright.controller.preconditions import changes, preconditions
from stormwright.controller.propose import plan_of, propose
from stormwright.controller.requests import Evacuate, Improve, NoPlan, Place, PlanInputs, Repair
from stormwright.controller.stages import staged
from stormwright.errors import InputError
from stormwright.history.evaluation.moves import AFTER_S, LATENCY, SETTLE_S, THROUGHPUT
from stormwright.history.evaluation.outcome import unclear
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.model import Assignment, LoadProfile, Problem, Supervisor
from stormwright.model.arrays import IntArray
from stormwright.model.assignment import where
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.load import assumed_load
from stormwright.plans.figures import Range
from stormwright.plans.json import plan_of_json, plan_to_json, step_of_json, step_to_json
from stormwright.plans.plan import Move, Plan, RequiredNode, TopologyMove
from stormwright.predict.answer import predict
from stormwright.predict.flow.profile import Profile
from stormwright.predict.prediction import Prediction
from stormwright.schedulers.toolkit.registry import make_scheduler
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.workbench.ready_problems import read_problem
from tests.controller.builders import on, place, problem, topology


class Forced:
    def __init__(self, slots: list[int]) -> None:
        self._slots = np.array(slots, dtype=np.int32)

    def schedule(self, of: Problem) -> Assignment:
        return Assignment(self._slots)


A, B = topology("a", workers=1), topology("b", workers=1)


def two(**more: object) -> Problem:
    """Each in two workers on two nodes, and a node that is free."""
    current = {A.id: on("n0"), B.id: on("n1")}
    load = LoadProfile({t.id: assumed_load(t, 3e9) for t in (A, B)}, start_ms=0, end_ms=1000)
    return problem([A, B], current=current, load=load, **more)


def move(name: str, *, arrives: bool = True) -> TopologyMove:
    return TopologyMove(topology(name).id, name, on("n0"), on("n1"), 4, (), (), (), (), arrives)


ASSUMED = expected_pause(4.0, (), ())
FIGURES = FigureSources(lambda *_: ASSUMED)
AS_MODELLED = FigureSources(lambda _, modelled_s: expected_pause(modelled_s, (), ()))


def restored(now: Problem, slots: list[int], sources: FigureSources | None = FIGURES) -> Plan:
    """The plan to given slots, whatever they gain."""
    placements = Assignment(np.array(slots, np.int32)).by_topology(now)
    found = propose(now, Place(placements), PlanInputs(sources=sources))
    assert isinstance(found, Plan)
    return found


def improved(now: Problem, slots: list[int], *goals: str, **wish: Any) -> Plan | NoPlan:
    """What is proposed where a scheduler answers with given slots."""
    inputs = PlanInputs(scheduler=Forced(slots), sources=AS_MODELLED)
    return propose(now, Improve(goals or ("traffic",), **wish), inputs)


@pytest.fixture
def gaining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outlooks, "of", lambda *_: Outlook(50.0, "", "better"))


def test_stages_grow_from_one_to_few_to_the_rest() -> None:
    steps = [Move((move(f"t{number}"),)) for number in range(9)]
    assert staged(steps) == [0, 1, 1, 1, 2, 2, 2, 2, 2]
    assert staged([Move((move("a"), move("b"), move("c")))]) == [0]


def test_stages_never_end_with_topologies_in_spare_slots() -> None:
    steps = [Move((move("b", arrives=False),)), Move((move("a"),)), Move((move("b"),)), Move((move("c"),))]
    assert staged(steps) == [0, 0, 0, 1]


def test_plans_and_steps_survive_serialization() -> None:
    plan = restored(two(), [4] * 4 + [0] * 4)
    assert plan.steps
    for step in plan.steps:
        reread = step_of_json(step_to_json(step))
        assert replace(reread, number=step.number, stage=step.stage) == step
    assert Plan.model_validate_json(plan.model_dump_json()) == plan.model_copy(update={"search": None})
    reread = plan_of_json(plan_to_json(plan))
    assert (reread.preconditions, reread.promises, reread.predictions) == (
        plan.preconditions,
        plan.promises,
        plan.predictions,
    )


@pytest.mark.usefixtures("gaining")
def test_patterns_restrict_moves_by_topology_and_node() -> None:
    now, wanted = two(), [4] * 4 + [0] * 4
    of_a = improved(now, wanted, topologies=("a*",))
    assert {m.topology for m in of_a.moves} == {A.id}
    on_n1 = improved(now, [4] * 4 + [5] * 4, nodes=("host1",))
    assert {m.topology for m in on_n1.moves} == {B.id}
    with pytest.raises(InputError, match=r"zz\*: fits no topology; known: a, b"):
        improved(now, wanted, topologies=("zz*",))


@pytest.mark.usefixtures("gaining")
def test_topology_stays_if_its_configuration_forbids_moves() -> None:
    now = two()
    fixed = replace(now, topologies=(replace(A, conf={"stormwright.move": False}), B))
    found = improved(fixed, [4] * 4 + [2] * 4)
    assert isinstance(found, NoPlan)
    with pytest.raises(InputError, match=r"a-1-0: stormwright\.move is false"):
        propose(fixed, Place({A.id: on("n2")}), PlanInputs())


def test_insufficient_gain_yields_no_plan() -> None:
    found = improved(two(), [4] * 4 + [2] * 4)
    assert isinstance(found, NoPlan)
    assert found.code == "small_gain"
    assert found.reason.endswith("a move has to gain at least 20 %")
    assert found.figures.before is not None, "what runs is shown all the same"


@pytest.mark.parametrize(("counted", "suffix"), [(4.5, " counts as +4.5 %"), (0.0, " counts as +0 %"), (-inf, "")])
def test_insufficient_gain_message_includes_counted_gain(
    monkeypatch: pytest.MonkeyPatch, counted: float, suffix: str
) -> None:
    """A rate above twice the measured one counts for no more, so figures alone would not explain it."""
    outlook = Outlook(counted, "", "reachable throughput 10 → 20 trees/s")
    monkeypatch.setattr(Outlooks, "of", lambda *_: outlook)
    found = improved(two(), [4] * 4 + [2] * 4, "throughput")
    assert isinstance(found, NoPlan)
    assert found.reason.startswith(f"reachable throughput 10 → 20 trees/s{suffix}")


def crowded(nodes: int = 4) -> Problem:
    """Two topologies on one node that has CPU for one of them only."""
    supervisors = tuple(Supervisor(f"n{i}", f"host{i}", (6700, 6701, 6702), cpu_hz=6e9) for i in range(nodes))
    loads = {t.id: assumed_load(t, 3e9) for t in (A, B)}
    heavy = {name: type(load)(**{**_fields(load), "cpu_hz": np.full(4, 1.4e9)}) for name, load in loads.items()}
    current = {A.id: place([("n0", 6700)], [0] * 4), B.id: place([("n0", 6701)], [0] * 4)}
    return Problem(supervisors, (A, B), current=current, load=LoadProfile(heavy, start_ms=0, end_ms=1000))


def _fields(load: object) -> dict[str, object]:
    return {name: getattr(load, name) for name in load.__dataclass_fields__}  # type: ignore[attr-defined]


KEEPS = PlanInputs(repair_scheduler=scheduler_keeping_running("online"))


def test_the_fewest_moves_end_all_broken_limits() -> None:
    now = crowded()
    assert broken_limits(now, now.current_slot)
    plan = propose(now, Repair(), KEEPS)
    assert isinstance(plan, Plan)
    assert len(plan.targets) == 1, "one of both is enough"
    assert broken_limits(now, planned_slots(now, plan.moves)) == []
    whole = propose(two(), Repair(), KEEPS)
    assert isinstance(whole, NoPlan)
    assert whole.code == "nothing_to_do"


def test_the_score_is_higher_where_more_is_carried_and_nothing_is_broken() -> None:
    now = crowded()
    plan = propose(now, Repair(), KEEPS)
    assert isinstance(plan, Plan)
    slots = planned_slots(now, plan.moves)
    before, after = (side_of(Placements(now), each) for each in (now.current_slot, slots))
    assert 0 <= before.score < after.score <= 100
    assert len(before.violations) == 1
    assert after.violations == ()


def live_heap(now: Problem, live_mb: list[float], **conf: object) -> Problem:
    """The problem with the live heap of A's executors, and more in its configuration."""
    assert now.load is not None
    loads = {**now.load.topologies, A.id: replace(now.load.topologies[A.id], live_heap_mb=np.array(live_mb))}
    topologies = tuple(replace(t, conf=dict(conf)) if t.id == A.id else t for t in now.topologies)
    return replace(now, topologies=topologies, load=replace(now.load, topologies=loads))


def heaps_of(now: Problem, slots: list[int]) -> list[str]:
    return [str(heap) for moved in restored(now, slots).predictions for heap in moved.heaps]


def test_plan_shows_heaps_that_change_or_are_scarce() -> None:
    now = live_heap(two(), [100.0, 20.0, 20.0, 20.0])
    # From one worker with all executors to two, and back.
    apart = [4, 5, 5, 5]
    assert heaps_of(now, [4] * 4 + [2] * 4) == [], "it stays as large"
    assert heaps_of(live_heap(two(), [40.0, 20.0, 20.0, 20.0]), apart + [2] * 4) == [
        "heap of host2:6700 512 → 128 MB, used 72",
        "heap of host2:6701 512 → 384 MB, used 92",
    ]
    unmeasured = two()
    assert heaps_of(unmeasured, apart + [2] * 4) == [
        "heap of host2:6700 512 → 128 MB",
        "heap of host2:6701 512 → 384 MB",
    ]
    fixed = live_heap(two(), [60.0] * 4, **{"topology.worker.childopts": "-Xmx400m"})
    assert heaps_of(fixed, [4] * 4 + [2] * 4) == ["heap of host2:6700 400 MB, used 272"]
    short = live_heap(two(), [60.0] * 4, **{"topology.worker.childopts": "-Xmx300m"})
    assert heaps_of(short, [4] * 4 + [2] * 4) == ["heap of host2:6700 300 MB, used 272: too small"]


def test_violations_of_a_side_include_heaps_too_small() -> None:
    now = live_heap(two(), [60.0] * 4, **{"topology.worker.childopts": "-Xmx300m"})
    assert side_of(Placements(now), now.current_slot).violations == (
        "heap of host0:6700: 300 MB, too small for 272 MB in use, which takes 354 MB",
    )
    assert side_of(Placements(now), np.array([0, 0, 0, 1, 2, 2, 2, 2], np.int32)).violations == ()


@pytest.mark.usefixtures("gaining")
def test_plan_never_has_a_heap_newly_too_small() -> None:
    now = live_heap(two(), [100.0, 20.0, 20.0, 20.0])
    found = improved(now, [4, 5, 5, 5, 2, 2, 2, 2])
    assert isinstance(found, NoPlan)
    assert found.blocked == {"a": "heap of host2:6700: 128 MB, too small for 132 MB in use, which takes 172 MB"}
    assert (found.code, found.reason) == ("blocked", "all better moves are blocked")
    assert found.figures.blocked == found.blocked


def test_executors_of_a_detour_are_counted_once() -> None:
    """A topology of 4 executors counted as 8."""
    now = two()
    plan = restored(now, [4] * 4 + [2] * 4)
    (step,) = plan.steps
    (whole,) = step.moves
    aside = replace(whole, after=on("host1"), arrives=False)
    steps = tuple(replace(step, moves=(each,)) for each in (aside, replace(whole, before=aside.after)))
    detour = plan.model_copy(update={"steps": steps})
    shown = with_figures(detour, Placements(now), planned_slots(now, plan.moves), FIGURES)
    assert [each.executors for each in shown.predictions] == [4]


def test_each_placement_is_predicted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = []

    def counted(of: Problem, slots: np.ndarray, *more: object) -> object:
        evaluated.append(slots.tolist())
        return predict(of, slots, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("stormwright.controller.objectives.placements.predict", counted)
    plan = improved(two(), [0] * 4 + [4] * 4, "throughput", "latency", "nodes", min_gain_percent=0.0)
    figures = plan.figures if isinstance(plan, NoPlan) else plan
    assert figures.before
    assert figures.after
    assert len(evaluated) == len({tuple(each) for each in evaluated}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("slots", [[0] * 4 + [1] * 4, [0, 0, 2, 2, 4, 4, 1, 1]])
def test_no_placement_is_better_than_a_plan_by_more_than_its_gap(slots: list[int]) -> None:
    now, rng = two(), np.random.default_rng(1)
    found = improved(now, slots, "throughput", min_gain_percent=0.0)
    plan, there = (found.figures, now.current_slot) if isinstance(found, NoPlan) else (found, np.array(slots))
    reached = _grown(now, there)
    best = max(_grown(now, rng.integers(0, len(now.slots), 8, dtype=np.int32)) for _ in range(300))
    assert plan.gap_percent is not None
    assert best <= reached * (1 + plan.gap_percent / 100) * (1 + 1e-6)
    assert f"{plan.gap_percent / 100:.1%}" in plan.proof or "proven to be the most" in plan.proof


def test_rollback_duration_counts_only_pauses() -> None:
    now = two()
    pause_s = ASSUMED.seconds.value or 0.0
    there = restored(now, [4] * 4 + [2] * 4)
    back = restored(now, [4] * 4 + [2] * 4, replace(FIGURES, in_stages=False))
    assert back.stages == 1
    assert back.duration_s == pause_s * len(back.moves)
    assert there.duration_s == back.duration_s + there.stages * (SETTLE_S + AFTER_S)


def test_of_latency_nothing_is_proven() -> None:
    found = improved(two(), [0] * 4 + [1] * 4, "latency")
    plan = found.figures if isinstance(found, NoPlan) else found
    assert (plan.gap_percent, plan.proof) == (None, "")


def _grown(now: Problem, slots: np.ndarray) -> float:
    """By what factor all rates can grow under a placement."""
    rates = Profile.of(now).rate_tps
    found = zip(predict(now, slots).topologies, rates.tolist(), strict=True)
    return min(each.highest_tps.value / rate for each, rate in found)


def test_changes_since_planning_are_reported() -> None:
    now = two()
    steps = restored(now, [4] * 4 + [2] * 4).steps
    required = preconditions(now, steps, {A.id: 100.0})
    assert changes(required, now, {}, {A.id: 110.0}) == []
    assert changes(required, now, {}, {A.id: 60.0}) == [f"{A.id} does 60 trees/s, and did 100"]
    assert changes(required, now, {}, {}) == [f"{A.id} is no longer measured"]
    unmeasured, idle = preconditions(now, steps, {}), preconditions(now, steps, {A.id: 0.0})
    assert changes(unmeasured, now, {}, {A.id: 60.0}) == [], "it was no measure of the plan"
    assert changes(idle, now, {}, {A.id: 0.5}) == []
    assert changes(idle, now, {}, {A.id: 60.0}) == [f"{A.id} does 60 trees/s, and did 0"]
    after = steps[-1].moves[0].after
    there = now.with_current({**now.current, A.id: after})
    assert changes(required, there, {}) == [f"{A.id} runs somewhere else"]
    assert changes(required, there, {A.id: steps[-1].moves[0]}) == []
    other = now.with_current({**now.current, B.id: on("n2")})
    assert changes(required, other, {}) == ["host2:6700 is held by b-1-0, and was free"]
    fewer = two(nodes=2)
    assert changes(required, fewer, {}) == ["node host2 is gone"]
    assert "node host2 has slots 6700 now, and had slots 6700, 6701 when the plan was made" in changes(
        required, two(slots=1), {}
    )


def test_node_changes_since_planning_are_described_in_plain_text() -> None:
    now = two()
    drained = replace(now, blacklisted_hosts=frozenset(["host2"]))
    steps = restored(now, [4] * 4 + [2] * 4).steps
    assert changes(preconditions(now, steps, {}), drained, {}) == [
        "node host2 is unschedulable now, and was schedulable when the plan was made"
    ]
    assert changes(preconditions(drained, steps, {}), now, {}) == [
        "node host2 is schedulable now, and was not when the plan was made"
    ]
    required = preconditions(now, steps, {})
    was = required.nodes["n2"]
    other = RequiredNode("host9", was.ports, {**was.resources, "gpu.count": 2.0}, was.usable)
    required = replace(required, nodes={**required.nodes, "n2": other})
    assert changes(required, now, {}) == [
        "node host2 is on host2 now, and was on host9 when the plan was made",
        "node host2 has 0 of gpu.count now, and had 2 when the plan was made",
    ]


def test_rollback_restores_nodes_and_workers() -> None:
    now = problem([A], current={A.id: on("n2")})
    plan = propose(now, Place({A.id: on("n0", "n1")}, reason="it is slow"), PlanInputs())
    assert isinstance(plan, Plan)
    (step,) = plan.moves
    assert (step.before, where(step.after)) == (on("n2"), where(on("n0", "n1")))
    assert (plan.origin, plan.reason) == ("rollback", "it is slow")
    assert plan.promises.keys() == {A.id}


def test_rollback_takes_another_port_where_the_one_of_then_is_taken() -> None:
    now = problem([A, B], current={A.id: on("n2"), B.id: on("n0")})
    plan = propose(now, Place({A.id: on("n0", "n1")}), PlanInputs())
    assert isinstance(plan, Plan)
    assert set(plan.targets[A.id].slots) == {("n0", 6701), ("n1", 6700)}
    other_port = two().with_current({A.id: place([("n0", 6701)], [0] * 4), B.id: on("n1")})
    found = propose(other_port, Place({A.id: on("n0")}), PlanInputs())
    assert isinstance(found, NoPlan)
    assert found.code == "nothing_to_do", "no worker is restarted for a port"


def test_rollback_exchanges_topologies_that_are_in_each_others_way() -> None:
    now = problem([A, B], nodes=2, slots=1, current={A.id: on("n0"), B.id: on("n1")})
    plan = propose(now, Place({A.id: on("n1"), B.id: on("n0")}), PlanInputs())
    assert isinstance(plan, Plan)
    assert len(plan.steps) == 1
    assert plan.targets == {A.id: on("n1"), B.id: on("n0")}


def test_impossible_rollback_is_rejected_with_reason() -> None:
    now = two(nodes=2)
    with pytest.raises(InputError, match="n2:6700 is gone"):
        propose(now, Place({A.id: on("n2")}), PlanInputs())
    with pytest.raises(InputError, match="x: is gone"):
        propose(now, Place({"x": on("n1")}), PlanInputs())
    full = place([("n0", 6700), ("n0", 6701)], [0, 0, 1, 1])
    crowd = problem([A, B], current={A.id: on("n2"), B.id: full})
    with pytest.raises(InputError, match="no room where it should move to: host0: slots short by 1"):
        propose(crowd, Place({A.id: on("n0", "n1")}), PlanInputs())


class Together:
    """Places everything in the worker that stays."""

    def schedule(self, of: Problem) -> Assignment:
        return Assignment(np.full(of.num_executors, 2, np.int32))


@pytest.mark.parametrize(("live_mb", "leaves"), [(30.0, True), (90.0, False)])
def test_worker_leaves_a_drained_host_only_if_its_executors_fit_a_heap_elsewhere(
    live_mb: float, *, leaves: bool
) -> None:
    """A fixed heap of 300 MB for two executors, and then for four."""
    own = replace(topology("t"), conf={"topology.worker.childopts": "-Xmx300m"})
    load = replace(assumed_load(own, 3e9), live_heap_mb=np.full(4, live_mb))
    now = problem([own], current={own.id: on("n0", "n1")}, load=LoadProfile({own.id: load}, start_ms=0, end_ms=1000))
    found = propose(now, Evacuate(frozenset(["host0"])), PlanInputs(repair_scheduler=Together()))
    if leaves:
        assert isinstance(found, Plan)
        assert now.slot_node[planned_slots(now, found.moves)].tolist() == [1, 1, 1, 1]
    else:
        assert isinstance(found, NoPlan)
        assert found.code == "blocked"
        assert "t: heap of host1:6700: 300 MB, too small for 392 MB in use" in found.reason


@pytest.mark.parametrize(
    ("quantity", "promised", "low", "high", "is_clear"),
    [
        (THROUGHPUT, 1.5, 1.4, 1.6, True),
        (THROUGHPUT, 1.5, 1.1, 1.2, True),  # less than promised, and better than before
        (THROUGHPUT, 1.5, 0.9, 1.6, False),
        (THROUGHPUT, 1.5, 0.9, 1.1, False),
        (THROUGHPUT, 1.0, 0.95, 1.05, True),
        (THROUGHPUT, 1.0, 0.5, 1.5, False),
        (THROUGHPUT, 0.8, 0.75, 0.85, True),  # a loss that was promised
        (LATENCY, 0.5, 0.4, 0.6, True),
        (LATENCY, 1.0, 0.9, 1.1, True),
        (LATENCY, 0.5, 0.9, 1.1, False),
        (LATENCY, 1.0, 1.3, 1.5, False),
    ],
)
def test_evaluation_interval_decides_whether_result_is_clear(
    quantity: str, promised: float, low: float, high: float, is_clear: bool
) -> None:
    evaluation = Evaluation(quantity, promised, (low + high) / 2, low, high, 9, 9, "")
    assert (unclear([evaluation]) == "") == is_clear


def test_nothing_measured_is_unclear() -> None:
    assert unclear([]) == "nothing was measured of it since"
    assert "too little" in unclear([Evaluation(THROUGHPUT, 1.0, None, None, None, 0, 0, "cannot tell")])


def test_expected_pause_follows_past_pauses() -> None:
    others, own = [0.5, 4.0], [2.0, 1.5, 1.0]
    assert expected_pause(4.0, own, others).seconds == Range(value=6.0, low=4.0, high=8.0)
    assert expected_pause(4.0, own, others).source == "its own last 3 moves"
    assert expected_pause(4.0, [2.0], others).seconds == Range(value=9.0, low=2.0, high=16.0), "one move is too few"
    assert expected_pause(4.0, [2.0], []).source == "its own last move"
    assert expected_pause(4.0, [], []).seconds.value == 4.0


def test_pause_is_modelled_by_legs_and_by_starts_on_the_smallest_node() -> None:
    now = two()
    small = [replace(node, resources={"cpu.pcore.percent": 40.0}) for node in now.supervisors]
    now = replace(now, supervisors=tuple(small))
    (step,) = plan_moves(now, Assignment(np.array([4, 4, 5, 5, 2, 2, 2, 2], np.int32)), MoveBudget()).steps
    assert step.starts_per_core == (2 / 0.4,), "two workers start on one node"
    assert modelled_pause_s(step) == pytest.approx(LEG_S + START_CORE_S * 5)
    assert step_of_json(step_to_json(step)).starts_per_core == step.starts_per_core


@pytest.mark.slow
def test_fewest_nodes_surely_sustain_the_measured_rates() -> None:
    """Nodes filled up to the headroom would not: then the plan is for more nodes than that, and not for none."""
    problem = read_problem(Path("ready:cluster-20"))
    scheduler = make_scheduler("optimizer", (), objective="nodes")
    plan = propose(problem, Improve(("nodes",)), PlanInputs(scheduler=scheduler))
    assert isinstance(plan, Plan), plan.reason
    slots = planned_slots(problem, plan.moves)
    used = np.unique(problem.slot_node[slots]).size
    assert used < np.unique(problem.slot_node[problem.current_slot]).size
    assert Outlooks(problem, "nodes").of(slots).gain_percent > 0


def apart() -> Problem:
    """The topologies of `crowded`, each on a node of its own."""
    now = crowded()
    current = {A.id: place([("n0", 6700)], [0] * 4), B.id: place([("n1", 6700)], [0] * 4)}
    return replace(now, current=current)


def test_no_move_newly_exceeds_a_limit() -> None:
    """Also where CPU limits are left to the prediction: 11.2 GHz are wanted of the 6 of a node."""
    now = apart()
    both_on_n0 = Assignment(np.array([0] * 4 + [1] * 4, np.int32))
    assert plan_moves(now, both_on_n0, MoveBudget(8, 100), cpu_limits=False).moves
    plan = plan_valid_moves(Placements(now), both_on_n0, MoveBudget(8, 100), {}, cpu_limits=False)
    assert plan.moves == ()
    assert "newly exceed a limit" in str(plan.blocked[B.id])


def test_score_falls_where_a_limit_is_newly_exceeded_or_a_rate_lost() -> None:
    """Whatever else gets better: here all traffic stays within a node."""
    now = apart()
    before, after = (side_of(Placements(now), slots) for slots in (now.current_slot, np.array([0] * 4 + [1] * 4)))
    assert before.violations == ()
    assert after.violations
    assert before.score > 100 / 3 >= after.score


def test_plan_names_what_gets_worse() -> None:
    now = apart()
    slots = np.array([0] * 4 + [1] * 4, np.int32)
    moves = plan_moves(now, Assignment(slots), MoveBudget(8, 100), cpu_limits=False)
    plan = with_figures(plan_of(now, moves), Placements(now), slots, AS_MODELLED)
    assert any("host0: CPU" in text for text in plan.worse), plan.worse


class WithRates(Placements):
    """Placements under which each topology reaches a part of its present rate."""

    def __init__(self, problem: Problem, part: float) -> None:
        super().__init__(problem)
        self._part = part

    def predicted(self, slots: IntArray) -> Prediction:
        now, found = super().predicted(self.problem.current_slot), super().predicted(slots)
        rates = [
            replace(new, pending_tps=replace(new.reachable_tps, value=old.reachable_tps.value * self._part))
            for old, new in zip(now.topologies, found.topologies, strict=True)
        ]
        return found if np.array_equal(slots, self.problem.current_slot) else replace(found, topologies=tuple(rates))


@pytest.mark.parametrize(("part", "forbidden"), [(1.0, False), (1 - 1e-9, False), (0.99, True)])
def test_noise_of_rates_forbids_no_move(part: float, *, forbidden: bool) -> None:
    found = WithRates(apart(), part).newly_broken(np.array([0] * 4 + [1] * 4, np.int32))
    assert bool(found) == forbidden


C = topology("c", workers=1)


def test_plan_lists_exceeded_limits_that_get_worse() -> None:
    """The node of two topologies has no CPU for both; the third one joins them, or moves elsewhere."""
    now = crowded()
    load = replace(now.load, topologies={**now.load.topologies, C.id: now.load.topologies[A.id]})
    current = {**now.current, C.id: place([("n1", 6700)], [0] * 4)}
    now = replace(now, topologies=(A, B, C), load=load, current=current)
    placements, stays = Placements(now), now.current_slot
    joins, leaves = stays.copy(), stays.copy()
    joins[8:], leaves[8:] = 2, 6
    ((old, new),) = placements.worsened(joins)
    assert (old.supervisor, new.supervisor) == ("n0", "n0")
    assert new.amount > old.amount * 1.2
    assert placements.newly_broken(joins) == []
    assert placements.worsened(leaves) == placements.worsened(stays) == []
    moves = plan_moves(now, Assignment(joins), MoveBudget(8, 100), cpu_limits=False)
    plan = with_figures(plan_of(now, moves), placements, joins, AS_MODELLED)
    assert [str(new) in text for text in plan.worse].count(True) == 1
