"""Lost executors: what runs stays in its slot, whatever becomes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stormwright.model import UNPLACED, Assignment, Component, LoadProfile, Problem, Topology, default_executor_runs
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.schedulers import make_scheduler, scheduler_names
from stormwright.storm.bridge import Bridge
from tests.schedulers.builders import load, nodes, problem, running, topology

#: Storm's own leaves a lost executor without a slot while all workers live.
OURS = sorted(set(scheduler_names()) - {"even"})


#: Those that move what runs, told not to.
SETTINGS = {
    "n_version": {"schedulers": "binpack,spread,t_storm", "keep_running": True},
    "online": {"keep_running": True},
    "optimizer": {"max_moves": 0, "iterations": 2000},
}


def answer_of(name: str, of: Problem) -> Assignment:
    return make_scheduler(name, SETTINGS.get(name, {})).schedule(of)


def placed(name: str, of: Problem) -> list[int]:
    return answer_of(name, of).slot_of_executor.tolist()


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    ("now", "workers", "expected"),
    [
        ([0, 0, 0, 4, 4, UNPLACED], 2, 4),  # no worker is lost: the smallest takes it
        ([0, 0, 4, 4, 8, UNPLACED], 2, 8),  # there are more workers than asked for already
    ],
)
def test_a_lost_executor_joins_the_smallest_live_worker(name, now, workers, expected):
    of = running(problem(nodes(9.0, 9.0, 9.0), (topology("t", 6, workers), load(6))), now)
    assert placed(name, of) == [*now[:-1], expected]


@pytest.mark.parametrize("name", OURS)
def test_one_lost_executor_fills_one_of_two_lost_workers(name):
    now = [0, 0, 4, 4, 8, UNPLACED]
    of = running(problem(nodes(9.0, 9.0, 9.0), (topology("t", 6, 5), load(6))), now)
    slots = placed(name, of)
    assert slots[:-1] == now[:-1]
    assert slots[-1] not in {*now}


@pytest.mark.parametrize("name", OURS)
def test_running_executors_stay_if_a_lost_executor_cannot_be_placed(name):
    now = [0, 0, 1, UNPLACED]
    of = running(problem(nodes(1.0), (topology("t", 4, 2), load(4, cpu_ghz=[0.3, 0.3, 0.3, 0.9]))), now)
    answer = answer_of(name, of)
    assert answer.slot_of_executor.tolist() == now
    (left_out,) = answer.unplaced
    assert left_out.reasons == ("2 of 2 live workers: on a node with too little CPU left",)


def test_no_live_worker_of_a_blacklisted_host_is_joined():
    of = running(problem(nodes(9.0, 9.0), (topology("t", 6, 2), load(6))), [0, 0, 0, 4, 4, UNPLACED])
    assert placed("round_robin", replace(of, blacklisted_hosts=frozenset({"h1"}))) == [0, 0, 0, 4, 4, 0]
    answer = answer_of("round_robin", replace(of, blacklisted_hosts=frozenset({"h0", "h1"})))
    assert answer.unplaced[0].reasons == ("2 of 2 live workers: on a node that is not schedulable",)


def test_join_failure_reasons_distinguish_capacity_memory_and_constraints():
    components = (Component("a", "spout", 3), Component("b", "bolt", 2))
    conf = {
        MAX_EXECUTORS_PER_WORKER: 2,
        "topology.ras.constraints": {"a": {"incompatibleComponents": ["b"]}},
    }
    of_two = Topology("t", "t", 3, components, default_executor_runs(components), conf=conf)
    supervisors = nodes(9.0, 9.0, 9.0)
    supervisors = (*supervisors[:2], replace(supervisors[2], resources={"memory.mb": 150.0}))
    of = running(problem(supervisors, (of_two, load(5))), [0, 0, UNPLACED, 4, 8])
    answer = answer_of("online", of)
    assert answer.slot_of_executor.tolist() == [0, 0, UNPLACED, 4, 8]
    assert answer.unplaced[0].reasons == (
        "1 of 3 live workers: full with 2 executors",
        "2 of 3 live workers: with incompatible components",
    )
    alike = replace(of_two, conf={MAX_EXECUTORS_PER_WORKER: 2})
    of = running(Problem(supervisors, (alike,), load=LoadProfile({"t": load(5)})), [0, 0, 4, 8, UNPLACED])
    assert placed("online", of) == [0, 0, 4, 8, 4]


def test_the_bridge_takes_such_an_answer():
    now = [0, 0, 4, UNPLACED]
    of = running(problem(nodes(9.0, 9.0), (topology("t", 4, 2), load(4))), now)
    answer = Bridge(make_scheduler("round_robin"), "round_robin").answer(of)
    taken = answer.assignments["t"]
    assert [taken.slots[slot] for slot in taken.slot_of_executor] == [of.slots[slot] for slot in (0, 0, 4, 4)]


def test_only_workers_of_the_same_tags_are_joined():
    components = (Component("a", "spout", 3), Component("g", "bolt", 2, tags=("gpu",)))
    of_two = Topology("t", "t", 2, components, default_executor_runs(components))
    plain, gpu = nodes(9.0, 9.0)
    of = problem((plain, replace(gpu, scheduler_meta={"tags": "gpu"})), (of_two, load(5)))
    assert placed("tag_aware", running(of, [0, 0, 0, 4, UNPLACED])) == [0, 0, 0, 4, 4]
    assert placed("tag_aware", running(of, [0, 0, UNPLACED, 4, 4])) == [0, 0, 0, 4, 4]
    # Without a live worker of its tags it gets one of its own.
    assert placed("tag_aware", running(of, [0, 1, 0, UNPLACED, UNPLACED]))[:3] == [0, 1, 0]
    assert set(placed("tag_aware", running(of, [0, 1, 0, UNPLACED, UNPLACED]))[3:]) <= {4, 5, 6, 7}


def test_live_workers_count_for_the_workers_of_a_tag():
    components = (Component("a", "spout", 4), Component("g", "bolt", 4, tags=("gpu",)))
    conf = {"stormwright.tag.workers": {"gpu": 2}}
    of_two = Topology("t", "t", 4, components, default_executor_runs(components), conf=conf)
    plain, gpu = nodes(9.0, 9.0)
    of = problem((plain, replace(gpu, scheduler_meta={"tags": "gpu"})), (of_two, load(8)))
    slots = placed("tag_aware", running(of, [0, 1, 0, 1, 4, UNPLACED, 4, UNPLACED]))
    assert slots[:5] == [0, 1, 0, 1, 4]
    assert len(set(slots[4:])) == 2
