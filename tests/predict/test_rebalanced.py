"""Topologies with other executors, as `storm rebalance -e` makes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.errors import InputError
from stormwright.formats.sketch import sketch
from stormwright.model import UNPLACED, ExecutorRun, Problem, TopologyAssignment
from stormwright.predict.changes import rebalanced, tasks_of
from stormwright.predict.costs import Costs
from stormwright.predict.flow.profile import Profile
from tests.examples import examples

SPLIT, COUNT = 1, 2


def problem(seed: int = 0) -> Problem:
    """One spout executor, six of split, and eight of count that get unlike much; each of one task."""
    sketched = sketch("lines 1 -> split 6 -> count 8 fields")
    old = sketched.topologies[0]
    rng = np.random.default_rng(seed)
    load = sketched.loads[0]
    pair_tps = load.pair_tps * rng.lognormal(0, 1, len(load.pair_tps))
    load = replace(load, pair_tps=pair_tps, cpu_hz=rng.uniform(1e8, 1e9, old.num_executors))
    assert sketched.load is not None
    return sketched.with_load(replace(sketched.load, topologies={old.id: load}))


def changed(wanted: dict[int, int], of: Problem | None = None) -> Problem:
    of = of or problem()
    return rebalanced(of, Profile.of(of), Costs(), {0: wanted})


def test_tasks_are_distributed_as_storm_distributes_them():
    """`Utils.partitionFixed(3, [1, …, 8])` gives [1, 2, 3], [4, 5, 6], [7, 8]: the larger parts come first."""
    topology = changed({COUNT: 3}).topologies[0]
    own = topology.executor_component == COUNT
    first = int(topology.executor_start_task[own].min())
    ranges = zip(topology.executor_start_task[own] - first, topology.executor_end_task[own] - first, strict=True)
    assert list(ranges) == [(0, 2), (3, 5), (6, 7)]


@settings(max_examples=examples(30), deadline=None)
@given(split=st.integers(1, 6), count=st.integers(1, 8), seed=st.integers(0, 50))
def test_tasks_work_and_traffic_stay(split, count, seed):
    before = problem(seed)
    after = changed({SPLIT: split, COUNT: count}, before)
    old, new = before.topologies[0], after.topologies[0]
    assert tasks_of(new).tolist() == tasks_of(old).tolist()
    assert np.bincount(new.executor_component).tolist() == [1, split, count]
    for component in range(3):
        sums = [
            np.sum(each.loads[0].cpu_hz[each.topologies[0].executor_component == component]) for each in (before, after)
        ]
        assert sums[1] == pytest.approx(sums[0])
    assert after.loads[0].pair_tps.sum() == pytest.approx(before.loads[0].pair_tps.sum())
    assert after.loads[0].flow_tps.sum() == pytest.approx(before.loads[0].flow_tps.sum())


def test_an_executor_takes_its_tasks_own_load_along():
    before = problem()
    after = changed({COUNT: 3}, before)
    own = [each.loads[0].cpu_hz[each.topologies[0].executor_component == COUNT] for each in (before, after)]
    assert own[1] == pytest.approx([own[0][:3].sum(), own[0][3:6].sum(), own[0][6:].sum()])


def test_measured_slots_are_cleared_after_executors_change():
    """Otherwise the new ones would be looked for where only the old ones had been."""
    before = problem()
    alone = {one.id: TopologyAssignment(before.slots[:1], (0,) * one.num_executors) for one in before.topologies}
    after = changed({COUNT: 3}, replace(before, measured=alone))
    assert after.measured_slot.tolist() == [UNPLACED] * after.num_executors


def test_repeated_redistribution_of_tasks_restores_the_load():
    before = problem()
    after = changed({COUNT: 8}, changed({COUNT: 8}, before))
    own = before.topologies[0].executor_component == COUNT
    assert after.loads[0].cpu_hz[own] == pytest.approx(before.loads[0].cpu_hz[own])
    assert after.topologies[0] == before.topologies[0]


@pytest.mark.parametrize("count", [0, 9])
def test_more_executors_than_tasks_are_refused_by_name(count):
    with pytest.raises(InputError, match="topology-1-0/count: has 8 tasks, so from 1 to 8 executors"):
        changed({COUNT: count})


def test_non_consecutive_tasks_are_rejected():
    before = problem()
    runs = (
        ExecutorRun(COUNT, 1, 4, 1),
        ExecutorRun(0, 5, 1, 1),
        ExecutorRun(SPLIT, 6, 6, 1),
        ExecutorRun(COUNT, 12, 4, 1),
    )
    moved = replace(before, topologies=(replace(before.topologies[0], executor_runs=runs),))
    with pytest.raises(InputError, match="not numbered one after the other"):
        changed({COUNT: 2}, moved)
