"""What changes would bring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.schedulers.default_answer import CASES as PUBLIC
from benchmarks.schedulers.default_answer import imported
from stormwright.errors import InputError
from stormwright.model import Assignment, Problem
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.changes import with_parallelism
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers import make_scheduler
from stormwright.testing.word_counts import SPLITS, SPOUTS, WordCount
from stormwright.workbench.comparison import compare
from stormwright.workbench.what_if import Changes, what_if

EXACT = Assumptions(Costs(worker_cores=0.0))


def highest(prediction):
    return prediction.topologies[0].highest_tps.value


def test_changed_rates_leave_sustainable_rate_unchanged():
    found = what_if(WordCount().problem(), Changes(rates={"words": 1.5}))
    assert highest(found.then) == pytest.approx(highest(found.today))
    assert found.then.topologies[0].rate_tps == pytest.approx(1_500)
    assert (found.assignment.scheduler, found.moved) == ("", 0)


def test_faster_links_raise_link_limited_rate():
    problem = WordCount(link_bps=1e6).problem().with_current({})
    spread = Changes(scheduler="round_robin")
    slow = what_if(problem, spread, EXACT).then
    fast = what_if(problem, Changes(scheduler="round_robin", link_bps=2e6), EXACT).then
    assert slow.topologies[0].bottleneck.kind.startswith("link")
    assert highest(fast) == pytest.approx(2 * highest(slow))


def test_removed_node_hands_executors_to_other_nodes():
    problem = WordCount().problem()
    found = what_if(problem, Changes(kill_nodes=("n0",)))
    assert found.assignment.scheduler == "online"
    assert found.moved == 12
    assert highest(found.then) > 0
    assert [node.node for node in found.then.nodes] == ["n1", "n2"]


def test_added_nodes_get_unique_names():
    found = what_if(WordCount().problem(), Changes(add_nodes=2))
    assert [node.node for node in found.then.nodes] == ["n0", "n1", "n2", "new-1", "new-2"]


def test_higher_parallelism_of_busiest_component_raises_limit():
    problem = WordCount(cores=64.0).problem()
    today = predict(problem, None, EXACT)
    more = with_parallelism(problem, Profile.of(problem), EXACT.costs, {0: {0: 4, 1: 8, 2: 8, 3: 4}})
    then = predict(more, np.zeros(24, np.int32), EXACT)
    assert then.topologies[0].measured_tps == pytest.approx(1_000)
    assert highest(then) == pytest.approx(2 * highest(today))
    found = what_if(problem, Changes(parallelism={("words", "spout"): 4, ("", "split"): 8}), EXACT)
    assert found.problem.num_executors == 18
    assert (found.assignment.scheduler, found.added) == ("", 6)
    assert set(found.assignment.slot_of_executor.tolist()) == {0}, "where the others are"
    assert (found.moved, found.resubmitted, found.rebalanced) == (0, (problem.topologies[0].id,), ())


def two(current: bool = True) -> tuple[Problem, Assignment]:
    """Case 02: two spouts and four bolts on two nodes, as Even places them; it runs if `current`."""
    problem = imported(PUBLIC / "02-whatif-same-parallelism" / "input" / "two.yaml", None, 2)
    placed = make_scheduler("even").schedule(problem)
    return (problem.with_current(placed.by_topology(problem)) if current else problem), placed


@pytest.mark.parametrize("current", [True, False])
def test_unchanged_parallelism_changes_nothing(current):
    problem, placed = two(current)
    found = what_if(problem, Changes(parallelism={("", "b"): 4}, assignment=None if current else placed))
    assert found.today is not None
    assert found.then == found.today
    assert highest(found.then) == pytest.approx(20, rel=1e-4)
    assert (found.moved, found.added, found.resubmitted, found.rebalanced) == (0, 0, (), ())
    assert found.assignment.slot_of_executor.tolist() == placed.slot_of_executor.tolist()


def test_fewer_executors_than_tasks_are_a_rebalance_and_the_others_stay():
    problem, placed = two()
    found = what_if(problem, Changes(parallelism={("", "b"): 2}))
    old, new = problem.topologies[0], found.problem.topologies[0]
    assert [run.tasks_per_executor for run in new.executor_runs if run.component == 0] == [2]
    assert (found.resubmitted, found.rebalanced, found.added) == ((), (old.id,), 0)
    slots = found.assignment.slot_of_executor
    assert slots[new.executor_component == 1].tolist() == placed.slot_of_executor[old.executor_component == 1].tolist()
    assert slots[new.executor_component == 0].tolist() == placed.slot_of_executor[:2].tolist()
    assert highest(found.then) == pytest.approx(10), "two executors process what four did"


def test_more_executors_are_added_to_the_workers_with_fewest():
    problem, placed = two(current=False)
    found = what_if(problem, Changes(parallelism={("two", "b"): 7}, assignment=placed))
    new = found.problem.topologies[0]
    slots = found.assignment.slot_of_executor
    assert slots[:4].tolist() == placed.slot_of_executor[:4].tolist()
    assert np.bincount(slots)[np.unique(slots)].tolist() == [5, 4]
    assert (found.added, found.resubmitted, found.rebalanced) == (3, (new.id,), ())
    assert found.today is not None, "the assignment is the placement before"


def test_added_executors_respect_limits_of_workers():
    problem, _ = two()
    limited = replace(problem.topologies[0], conf={MAX_EXECUTORS_PER_WORKER: 3})
    found = what_if(replace(problem, topologies=(limited,)), Changes(parallelism={("", "b"): 5}))
    assert len(found.assignment.unplaced) == 1, "both workers are full, and the topology has two"
    assert found.assignment.grouped_reasons()


def test_parallelism_of_a_topology_that_does_not_run_is_placed_by_the_default_scheduler():
    problem, _ = two(current=False)
    found = what_if(problem, Changes(parallelism={("", "b"): 3}))
    assert (found.assignment.scheduler, found.today, found.rebalanced) == ("optimizer", None, ())


@pytest.mark.long
def test_whatif_scheduler_ignores_current_placement_unless_configured():
    problem = WordCount().problem()
    together = problem.with_current(Assignment(np.zeros(12, np.int32)).by_topology(problem))
    found = what_if(together, Changes(scheduler="even"))
    (even,) = (row.assignment for row in compare(together, {"even": make_scheduler("even")}).rows)
    assert found.assignment.slot_of_executor.tolist() == even.slot_of_executor.tolist()
    assert found.moved == 8, "a worker of three stays"
    assert what_if(together, Changes(scheduler="even", from_scratch=True)).moved == 8
    assert what_if(together, Changes(scheduler="even", from_scratch=False)).moved == 0
    near = Changes(scheduler="optimizer", settings=("max_moves=0", "iterations=100"))
    assert what_if(together, near).moved == 0
    with pytest.raises(InputError, match="stays near the current placement and cannot also place from scratch"):
        what_if(together, replace(near, from_scratch=True))


def test_added_nodes_alone_cause_no_moves():
    problem = WordCount().problem()
    found = what_if(problem, Changes(add_nodes=2))
    assert found.moved == 0
    assert highest(found.then) == pytest.approx(highest(found.today))


def test_unplaced_executors_are_reported_with_reasons():
    problem = WordCount().problem()
    small = replace(problem, supervisors=tuple(replace(node, cpu_hz=1e6) for node in problem.supervisors))
    found = what_if(small, Changes(kill_nodes=("n0",)))
    assert found.moved == 0
    (left,) = found.as_dict()["unplaced"]
    assert left["executors"] == problem.num_executors
    assert left["reasons"]


def test_unchanged_parallelism_leaves_load_unchanged():
    problem = WordCount().problem()
    profile = Profile.of(problem)
    same = with_parallelism(problem, profile, Costs(), {0: {2: 4}})
    load, before = same.loads[0], problem.loads[0]
    assert load.cpu_hz == pytest.approx(before.cpu_hz)
    dense, was = (np.zeros((12, 12)) for _ in range(2))
    np.add.at(dense, (load.pair_source, load.pair_target), load.pair_tps)
    np.add.at(was, (before.pair_source, before.pair_target), before.pair_tps)
    assert dense == pytest.approx(was)
    assert same.topologies[0].executor_runs == problem.topologies[0].executor_runs


def test_work_and_traffic_are_preserved_by_changed_parallelism():
    problem = WordCount().problem()
    more = with_parallelism(problem, Profile.of(problem), Costs(), {0: {2: 7, 3: 3}})
    load, before = more.loads[0], problem.loads[0]
    assert load.cpu_hz.sum() == pytest.approx(before.cpu_hz.sum())
    assert load.pair_tps.sum() == pytest.approx(before.pair_tps.sum())
    assert load.flow_tps.sum() == pytest.approx(before.flow_tps.sum())
    assert load.cpu_hz[6:13] == pytest.approx(np.full(7, before.cpu_hz[SPLITS].sum() / 7))
    assert np.bincount(more.topologies[0].executor_component).tolist() == [2, 4, 7, 3]


def test_new_executors_wait_as_the_old_ones_and_divide_their_pending_trees():
    problem = WordCount().problem()
    waited, runs, pending = np.zeros((3, 12))
    waited[SPLITS], pending[SPOUTS] = (0.1, 0.2, 0.3, 0.4), (10.0, 20.0)
    runs[SPLITS] = (100.0, 200.0, 400.0, 500.0)
    (name,) = problem.load.topologies
    of_executors = {"waited": waited, "executing": 2 * waited, "runs_per_s": runs, "pending_trees": pending}
    load = replace(problem.load.topologies[name], **of_executors)
    measured = problem.with_load(replace(problem.load, topologies={name: load}, node_quota_hz={"n0": 1e9}))
    more = with_parallelism(measured, Profile.of(measured), Costs(), {0: {2: 7, 3: 3}})
    assert more.loads[0].waited == pytest.approx([0.0] * 6 + [0.25] * 7 + [0.0] * 3)
    assert more.loads[0].executing == pytest.approx([0.0] * 6 + [2 / 7] * 7 + [0.0] * 3), "the same work"
    assert not more.loads[0].runs_per_s.any(), "their CPU has no polls in it"
    assert more.loads[0].pending_trees == pytest.approx([0.0] * 13 + [10.0] * 3)
    assert more.load.node_quota_hz == {"n0": 1e9}


def test_polls_are_subtracted_once_from_the_cpu_of_new_executors():
    problem, costs = WordCount().problem(), Costs(poll_us=10.0)
    (name,) = problem.load.topologies
    load, runs = problem.load.topologies[name], np.full(12, 1_000.0)
    polled = replace(load, cpu_hz=load.cpu_hz + 0.01 * problem.core_hz, runs_per_s=runs)
    measured = problem.with_load(replace(problem.load, topologies={name: polled}))
    more = with_parallelism(measured, Profile.of(measured), costs, {0: {2: 7}})
    assert more.loads[0].cpu_hz.sum() == pytest.approx(load.cpu_hz.sum())
    per_tuple = Profile.of(more).work_cycles(costs)
    assert per_tuple[6:13] == pytest.approx(Profile.of(problem).work_cycles(costs)[SPLITS][0])


def test_all_change_faults_are_reported_at_once():
    problem = WordCount().problem()
    with pytest.raises(InputError) as error:
        what_if(problem, Changes({"nobody": 2.0}, kill_nodes=("nowhere",), parallelism={("", "nothing"): 2}))
    assert [str(fault) for fault in error.value.faults] == [
        "nobody: no such topology; known: words, words-1-0",
        "nothing: no such component; known: __acker, count, split, …",
        "nowhere: no such node; known: n0, n1, n2",
    ]
    for from_scratch, way in ((True, "--from-scratch"), (False, "--keep-running")):
        with pytest.raises(InputError, match=f"{way}: requires --scheduler"):
            what_if(problem, Changes({"": 2.0}, from_scratch=from_scratch))
    with pytest.raises(InputError, match="no node would be left"):
        what_if(problem, Changes(kill_nodes=("n0", "n1", "n2")))
    with pytest.raises(InputError, match="the problem has no current placement: pass a scheduler"):
        what_if(problem.with_current({}), Changes(rates={"": 2.0}))
