"""Who is left out where users have pools: Storm's ResourceAwareScheduler, run as itself, and ours in the same order."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model import Component, Problem, Supervisor, Topology, default_executor_runs
from stormwright.model.tenancy_config import POOLS
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.resolve import resolve_scheduler


def crowded(seed: int) -> Problem:
    """More topologies of one executor than nodes, each of which has room for one; any node has it for any topology."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 9))
    supervisors = tuple(
        Supervisor(f"s{n}", f"h{n}", (6700,), 9e9, resources={"cpu.pcore.percent": 300.0, "memory.mb": 4096.0})
        for n in range(int(rng.integers(2, count)))
    )
    topologies = []
    for n in range(count):
        cpu, memory = (float(rng.choice(of)) for of in ([160, 180, 210, 250, 290], [1000, 1500, 2100]))
        requested = {"cpu.pcore.percent": cpu, "onheap.memory.mb": memory, "offheap.memory.mb": 0.0}
        components = (Component("c", "spout", 1, resources=requested),)
        conf = {"topology.priority": int(rng.choice([0, 10, 29])), "topology.worker.max.heap.size.mb": 4000.0}
        owner, launch_time = str(rng.choice(["ann", "ben", "cy"])), 1000 + 10 * int(rng.integers(51))
        runs = default_executor_runs(components)
        topologies.append(Topology(f"t{n}-{n}-160", f"t{n}", 1, components, runs, owner, launch_time, conf))
    pools = {
        user: {"cpu": int(rng.choice([200, 300, 400])), "memory": int(rng.choice([2000, 4000]))}
        for user in ("ann", "ben")
        if rng.random() < 0.8
    }
    return Problem(supervisors, tuple(topologies), conf={POOLS: pools})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_same_are_left_out(seed):
    of = crowded(seed)
    theirs = resolve_scheduler("java:ResourceAwareScheduler").schedule(of)
    ours = make_scheduler("binpack", {"order": "pools"}).schedule(of)
    assert {each.topology for each in ours.unplaced} == {each.topology for each in theirs.unplaced} != set()
