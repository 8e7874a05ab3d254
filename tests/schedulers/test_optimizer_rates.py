"""The optimizer by throughput, latency and nodes: checked by predictions, and by limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.formats import assignment_from_dict, assignment_to_dict, problem_from_dict, problem_to_dict
from stormwright.model import UNPLACED, Assignment, Problem, violations
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.optimize.throughput.improve import ImproveEffort, improve
from stormwright.optimize.throughput.start import MeasuredLoad
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.calibration.calibration import Calibration
from stormwright.predict.calibration.document import costs_to_dict
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers.templates.by_rates import RateGoal, RateSearch, quietest
from stormwright.schedulers.toolkit.registry import make_scheduler
from stormwright.testing.word_counts import WordCount, two_word_counts

EVEN = np.array([0, 2, 4] * 4, np.int32)
STEPS = {"iterations": 30_000}


def spread(problem: Problem, slots: np.ndarray = EVEN) -> Problem:
    return problem.with_current(Assignment(slots).by_topology(problem))


def placed(problem: Problem, **settings: object) -> Assignment:
    return make_scheduler("optimizer", {**STEPS, **settings}).schedule(problem)


def reached(problem: Problem, slots: np.ndarray) -> float:
    return min(one.reachable_tps.value / one.measured_tps for one in predict(problem, slots).topologies)


def reached_by_weight(problem: Problem, slots: np.ndarray, weights: tuple[float, float]) -> float:
    found = predict(problem, slots, Assumptions(weights=dict(zip(problem.topology_index, weights, strict=True))))
    by_weight = zip(found.topologies, weights, strict=True)
    return min(one.reachable_tps.value / one.measured_tps / weight for one, weight in by_weight)


@pytest.mark.long
@pytest.mark.parametrize("weights", [(1.0, 2.0), (2.0, 1.0)])
def test_a_topology_with_more_weight_gets_the_larger_node(weights):
    plain = two_word_counts(nodes=2, cores=0.4).with_current({})
    first = plain.supervisors[0]
    large = replace(first, cpu_hz=2 * first.cpu_hz, resources={**first.resources, "cpu.pcore.percent": 80.0})
    pairs = zip(plain.topologies, weights, strict=True)
    heavy = tuple(replace(topology, conf={**topology.conf, "stormwright.weight": w}) for topology, w in pairs)
    problem = replace(plain, supervisors=(large, *plain.supervisors[1:]), topologies=heavy)
    found = placed(problem, objective="throughput").slot_of_executor
    mirrored = np.concatenate([found[12:], found[:12]])
    assert reached_by_weight(problem, found, weights) >= 1.5 * reached_by_weight(problem, mirrored, weights)


@pytest.mark.slow
def test_one_node_outperforms_three_if_messages_cost_more_than_work():
    """As was measured: a third of the hardware does more work, in less time."""
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    found = placed(problem, objective="throughput")
    before, after = (predict(problem, slots).topologies[0] for slots in (EVEN, found.slot_of_executor))
    assert after.reachable_tps.value >= 1.3 * before.reachable_tps.value
    few = placed(problem, objective="nodes")
    assert len(set(problem.slot_node[few.slot_of_executor])) == 1
    quick = placed(problem, objective="latency")
    latency = {name: predict(problem, of.slot_of_executor).topologies[0].latency_ms for name, of in
               (("quick", quick), ("few", few), ("even", Assignment(EVEN)))}  # fmt: skip
    assert latency["quick"].value <= min(latency["few"].value, latency["even"].value) * 1.01


def test_latency_resolves_ties_among_placements_on_fewest_nodes():
    """Workers of a node that send each other all that they have cost most of what it can do, and ten times the time."""
    problem = WordCount(cores=2.0, rate_tps=8_000.0).problem().with_current({})
    found = placed(problem, objective="nodes").slot_of_executor
    assert len(set(problem.slot_node[found])) == 1
    few, together = (predict(problem, slots).topologies[0] for slots in (found, np.zeros(12, np.int32)))
    assert few.latency_ms.value <= 1.01 * together.latency_ms.value
    assert few.reachable_tps.value >= 0.99 * together.reachable_tps.value


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["throughput", "latency", "nodes"])
def test_how_many_workers_is_a_choice(objective):
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    few = np.array([0, 0, 4] * 4, np.int32)
    for workers, allowed in (("exactly", {3}), ("at_most", {1, 2, 3}), ("free", {1, 2, 3})):
        found = placed(problem, objective=objective, workers=workers)
        used = len(set(found.slot_of_executor.tolist()))
        assert used in allowed
        assert found.num_workers == ({} if used == 3 else {"words-1-0": used})
        assert broken_limits(with_little_cpu(problem), found.slot_of_executor) == []
        again = assignment_from_dict(assignment_to_dict(problem, found), problem)
        assert again.num_workers == found.num_workers
    own = replace(problem.topologies[0], conf={**problem.topologies[0].conf, "stormwright.workers": "exactly"})
    staying = placed(spread(replace(problem, topologies=(own,)), few), objective=objective)
    assert len(set(staying.slot_of_executor.tolist())) == 3


def with_little_cpu(problem: Problem) -> Problem:
    """CPU follows the rates, and is no limit of where executors go."""
    load = problem.load
    assert load is not None
    less = {name: replace(of, cpu_hz=of.cpu_hz * 0) for name, of in load.topologies.items()}
    return problem.with_load(replace(load, topologies=less))


def test_ties_are_resolved_by_least_inter_node_traffic():
    problem, apart, near = WordCount().problem(), EVEN, np.zeros(12, np.int32)
    beside = np.array([0, 1] * 6, np.int32)  # two workers of one node
    assert quietest(problem, [apart, near, beside], [1.0, 1.0005, 1.0], 1e-3) == 1
    assert quietest(problem, [apart, near, beside], [1.0, 1.002, 1.0], 1e-3) == 2
    assert quietest(problem, [apart, near, beside], [1.0, 1.002, 1.002], 1e-3) == 0


@pytest.mark.long
def test_optimal_running_placement_stays():
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    first = placed(problem, objective="throughput")
    runs = spread(problem, first.slot_of_executor)
    runs = replace(runs, topologies=(replace(runs.topologies[0], num_workers=len(set(first.slot_of_executor))),))
    assert np.array_equal(placed(runs, objective="throughput").slot_of_executor, first.slot_of_executor)


@pytest.mark.slow
def test_throughput_is_the_default_objective_and_workers_are_free_for_measured_loads():
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    assert placed(problem).parameters["objective"] == "throughput"
    assert placed(problem.with_nothing_running()).num_workers == {}
    assert problem.load is not None
    measured = problem.with_load(replace(problem.load, start_ms=1, end_ms=60_001))
    found = placed(measured)
    assert found.parameters["objective"] == "throughput"
    # Freer, but found by another path: the two differ by less than what the search is exact to.
    assert reached(problem, found.slot_of_executor) > 0.9999 * reached(problem, placed(problem).slot_of_executor)
    assert placed(measured, max_moves=3).parameters["objective"] == "traffic"
    fitted = costs_to_dict(Calibration())
    from_a_file = problem_from_dict(problem_to_dict(problem.with_load(replace(problem.load, costs=fitted))))
    assert placed(from_a_file).parameters["objective"] == "throughput"
    assert violations(measured, placed(measured, objective="traffic").slot_of_executor) == []


def test_bound_for_latency_objective_is_rejected():
    with pytest.raises(InputError, match="there is no bound of latency"):
        make_scheduler("optimizer", {"objective": "latency", "bound": True})


@pytest.mark.slow
def test_optimality_proof_is_included_on_request():
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    proof = placed(problem, objective="throughput", bound=True).parameters["proof"]
    assert proof["optimal"]
    assert proof["bound"] >= proof["factor"] >= proof["bound"] / 1.001
    fewest = placed(problem, objective="nodes", bound=True).parameters["proof"]
    assert (fewest["nodes"], fewest["bound"], fewest["sustained"], fewest["optimal"]) == (1, 1, True, True)


@pytest.mark.parametrize("settings", [{"max_moves": 2}, {"node_price": 1.0}])
def test_traffic_only_settings_are_rejected_for_other_objectives(settings):
    with pytest.raises(InputError, match="need objective=traffic"):
        make_scheduler("optimizer", {"objective": "nodes", **settings})


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({"headroom_percent": 10.0}, "headroom_percent: has no effect: it needs objective=nodes"),
        ({"headroom_percent": 10.0, "objective": "latency"}, "it needs objective=nodes"),
        ({"workers": "exactly", "objective": "traffic"}, "workers: has no effect: it needs another objective"),
        ({"iterations": 5, "time_budget_s": 2.0}, "iterations: has no effect with time_budget_s"),
        ({"bound_budget_s": 5.0, "objective": "nodes"}, "bound_budget_s: has no effect: it needs bound=true"),
    ],
)
def test_parameters_without_effect_are_refused(settings, needs):
    with pytest.raises(InputError, match=needs):
        make_scheduler("optimizer", settings)


@pytest.mark.long
def test_rate_search_respects_memory_and_ports():
    problem = WordCount(nodes=3, cores=0.4).problem()
    small = tuple(replace(node, resources={**node.resources, "memory.mb": 1024.0}) for node in problem.supervisors)
    problem = spread(replace(problem, supervisors=small, current={}))
    for objective in ("throughput", "latency", "nodes"):
        slots = placed(problem, objective=objective).slot_of_executor
        assert UNPLACED not in slots
        assert broken_limits(with_little_cpu(problem), slots) == []
        assert len(set(problem.slot_node[slots])) >= 2


@pytest.mark.long
@pytest.mark.parametrize("objective", ["throughput", "latency", "nodes"])
def test_worker_executor_limit_is_respected(objective):
    """Not when a topology is gathered, nor because it runs like that."""
    problem = WordCount(nodes=4, pending=None).problem()
    limited = {**problem.topologies[0].conf, MAX_EXECUTORS_PER_WORKER: 4}
    problem = replace(problem, topologies=(replace(problem.topologies[0], conf=limited, num_workers=3),), current={})
    for now in (problem, spread(problem, np.zeros(12, np.int32))):
        for steps in (0, 1_000):
            slots = placed(now, objective=objective, iterations=steps).slot_of_executor
            assert np.bincount(slots).max() <= 4


@pytest.mark.parametrize("objective", ["throughput", "latency", "nodes"])
def test_running_placement_with_a_violation_is_changed(objective):
    problem = WordCount(nodes=3).problem()
    first, *rest = problem.supervisors
    small = replace(first, resources={**first.resources, "memory.mb": 1000.0})
    problem = spread(replace(problem, supervisors=(small, *rest), current={}), np.zeros(12, np.int32))
    slots = placed(problem, objective=objective).slot_of_executor
    assert not any("memory" in str(each) for each in broken_limits(problem, slots))


def test_a_node_without_cpu_is_not_taken_for_the_best():
    problem = WordCount(nodes=3).problem()
    dead = replace(problem.supervisors[0], cpu_hz=0.0, resources={})
    problem = replace(problem, supervisors=(dead, *problem.supervisors[1:]), current={})
    load = MeasuredLoad(Profile.of(problem), Costs(worker_cores=0.0))
    search = RateSearch(problem, load, RateGoal("throughput", "free", 0.2, 0))
    there, elsewhere = np.zeros(12, np.int32), np.full(12, int(np.flatnonzero(problem.slot_node == 1)[0]), np.int32)
    assert search.badness(there) > search.badness(elsewhere)


def test_unlimited_topology_does_not_hide_limited_ones():
    """It may have as many trees pending as it may, and they take the time of the way."""
    problem = spread(WordCount().problem(), np.zeros(12, np.int32))
    assert problem.load is not None
    (id_,) = problem.load.topologies
    idle = replace(problem.load.topologies[id_], cpu_hz=np.zeros(12))
    state = RateSearch(
        problem.with_load(replace(problem.load, topologies={id_: idle})),
        MeasuredLoad(Profile.of(problem.with_load(replace(problem.load, topologies={id_: idle})))),
        RateGoal("throughput", "free", 0.2, 0),
    ).predicted(np.zeros(12, np.int32))
    assert np.isinf(state.highest_tps).all()
    assert (state.pending.rate_tps > 1_000).all()


def test_expired_time_budget_evaluates_current_placement_without_search(monkeypatch):
    """As the search for little traffic may take all of it in a large cluster."""
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    search = RateSearch(problem, MeasuredLoad(Profile.of(problem)), RateGoal("throughput", "free", 0.2, 0))
    evaluated = []
    badness = search.badness
    monkeypatch.setattr(search, "badness", lambda slots: evaluated.append(slots) or badness(slots))
    one = np.zeros(12, np.int32)
    assert np.array_equal(search.improved(one, ImproveEffort(0, 1e-9)), one)
    assert search.steps == 0
    assert len(evaluated) == 2


@pytest.mark.long
def test_with_few_steps_for_many_executors_the_best_starts_are_searched(monkeypatch):
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    load = MeasuredLoad(Profile.of(problem))
    searched = []
    monkeypatch.setattr(
        "stormwright.schedulers.templates.by_rates.improve",
        lambda of, effort: searched.append((of.executors["worker"].copy(), effort.steps)) or improve(of, effort),
    )
    one, steps = np.zeros(12, np.int32), 12 * 20
    for effort, expected in ((steps, 10), (12, 2)):
        searched.clear()
        RateSearch(problem, load, RateGoal("throughput", "free", 0.2, 0)).improved(one, ImproveEffort(effort))
        assert len(searched) == expected  # two placements and three that are gathered, for two kinds of scores
        assert {each for _, each in searched} == {effort // expected}
    (first, _), (second, _) = searched
    assert np.array_equal(first, second)
    assert len(set(first.tolist())) == 1  # all in one worker is better than what runs


@pytest.mark.long
def test_running_placement_stays_if_gain_is_within_prediction_error():
    problem = spread(WordCount(nodes=3, cores=0.4).problem())
    bold, cautious = (placed(problem, objective="throughput", caution=each).slot_of_executor for each in (0.0, 5.0))
    assert reached(problem, bold) > 1.02 * reached(problem, EVEN)
    assert np.array_equal(cautious, EVEN)


@pytest.mark.long
@pytest.mark.parametrize("cores", [(0.7, 0.4, 0.1), (0.7, 0.4, 0.25), (0.4, 0.4, 0.4)])
def test_number_of_nodes_is_free_for_throughput(cores):
    """Where one node is weak the rest alone may do more; the cautious answer is no worse than placements by hand."""
    plain = WordCount(nodes=3, cores=0.4).problem()
    nodes = tuple(
        replace(node, cpu_hz=each * plain.core_hz, resources={**node.resources, "cpu.pcore.percent": 100 * each})
        for node, each in zip(plain.supervisors, cores, strict=True)
    )
    problem = spread(replace(plain, supervisors=nodes))
    found = placed(problem, objective="throughput").slot_of_executor
    by_hand = [EVEN, np.array([0, 0, 2] * 4, np.int32), np.array([0, 2] * 6, np.int32), np.zeros(12, np.int32)]
    assert reached(problem, found) >= 0.95 * max(reached(problem, slots) for slots in by_hand)


@pytest.mark.long
def test_balanced_takes_the_least_cpu_for_a_tree_and_sustains_the_rate():
    problem = spread(WordCount(nodes=3, cores=0.4, rate_tps=3_000.0).problem())
    found = placed(problem, objective="balanced").slot_of_executor
    now, new = (predict(problem, slots).topologies[0] for slots in (EVEN, found))
    assert new.cpu_us < 0.6 * now.cpu_us
    assert new.sustained != "no"
