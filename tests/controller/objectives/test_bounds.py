"""Placements that are not tried: without a component's tags, or beyond what the cluster's own scheduler allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.controller.objectives.bounds import out_of_bounds, within_heaps, within_live_heaps
from stormwright.controller.planning.order import Forbidden, MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.model import Assignment, LoadProfile, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.isolation import isolated
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.load import silent_load
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from tests.controller.builders import on, problem, topology

T, U = topology("t"), topology("u")

#: Two slots a node: in a worker on the second node.
THERE = np.full(4, 2, dtype=np.int32)


def cluster(fallback: str = "even", topologies: tuple[Any, ...] = (T,), **node: Any) -> Problem:
    conf = {"storm.scheduler": "stormwright.PlacementScheduler", "stormwright.fallback": fallback}
    plain = problem(list(topologies), current={each.id: on("n0", "n1") for each in topologies[:1]}, conf=conf)
    return replace(plain, supervisors=tuple(replace(each, **node) for each in plain.supervisors))


def tagged(*tags: str) -> Any:
    spout, bolt = T.components
    return replace(T, components=(spout, replace(bolt, tags=tags)))


def test_tagged_component_is_allowed_only_on_nodes_with_its_tags() -> None:
    state = cluster(topologies=(tagged("gpu,ssd"),))
    nodes = [
        replace(node, scheduler_meta={"tags": tags})
        for node, tags in zip(state.supervisors, ("gpu, ssd", "ssd", "gpu,ssd"), strict=True)
    ]
    state = replace(state, supervisors=tuple(nodes))
    assert out_of_bounds(state, THERE) == {T.id: "host1 lacks tag gpu of b-bolt"}
    assert out_of_bounds(state, THERE + 2) == {}
    # What runs where it did goes nowhere, and a spout without a tag may go anywhere.
    assert out_of_bounds(state, state.current_slot) == {}
    spout_elsewhere = state.current_slot.copy()
    spout_elsewhere[0] = 3
    assert out_of_bounds(state, spout_elsewhere) == {}


def test_planner_excludes_topologies_out_of_bounds() -> None:
    state = cluster(topologies=(tagged("gpu"),))
    plan = plan_moves(state, Assignment(THERE), MoveBudget(), out_of_bounds(state, THERE))
    assert plan.moves == ()
    assert {topology: str(why) for topology, why in plan.blocked.items()} == {T.id: "host1 lacks tag gpu of b-bolt"}


def test_resource_aware_fallback_bounds_requested_node_resources() -> None:
    resources = {"cpu.pcore.percent": 40.0, "memory.mb": 512.0}
    assert out_of_bounds(cluster("ResourceAwareScheduler", resources=resources), THERE) == {}
    short = cluster("ResourceAwareScheduler", resources={**resources, "cpu.pcore.percent": 39.0})
    assert out_of_bounds(short, THERE) == {T.id: "host1: cpu.pcore.percent requested 40 of 39 %"}
    short = cluster("ResourceAwareScheduler", resources={**resources, "memory.mb": 500.0})
    assert out_of_bounds(short, THERE) == {T.id: "host1: memory.mb requested 512 of 500 MB"}
    assert out_of_bounds(cluster("even", resources={"cpu.pcore.percent": 1.0}), THERE) == {}


def test_resource_aware_fallback_bounds_requested_heap() -> None:
    small = replace(T, conf={"topology.worker.max.heap.size.mb": 384.0})
    state = cluster("org.apache.storm.scheduler.resource.ResourceAwareScheduler", topologies=(small,))
    assert out_of_bounds(state, THERE) == {T.id: "heap of host1:6700 requested 512 of 384 MB"}
    assert out_of_bounds(state, np.array([2, 2, 2, 3], dtype=np.int32)) == {}
    (limited,) = within_heaps(state).topologies
    assert limited.conf[MAX_EXECUTORS_PER_WORKER] == 3
    assert within_heaps(cluster("even", topologies=(small,))).topologies == (small,)


def test_shared_memory_counts_once_per_worker_and_once_per_node() -> None:
    """128 MB of heap for each of four executors; of Storm's `Cluster.wouldFit`."""
    spout, bolt = T.components
    shared = {"name": "a", "on_heap": 100.0, "off_heap_worker": 10.0}, {"name": "b", "off_heap_node": 1000.0}
    sharing = replace(T, components=(replace(spout, shared_memory=shared), replace(bolt, shared_memory=shared[1:])))

    def reasons(memory_mb: float, wanted: IntArray, heap_mb: float = 768.0) -> dict[str, str]:
        conf = {"topology.worker.max.heap.size.mb": heap_mb}
        state = cluster("ResourceAwareScheduler", (replace(sharing, conf=conf),), resources={"memory.mb": memory_mb})
        return out_of_bounds(state, wanted)

    assert reasons(1622.0, THERE) == {}
    assert reasons(1621.0, THERE) == {T.id: "host1: memory.mb requested 1,622 of 1,621 MB"}
    assert reasons(1622.0, THERE, heap_mb=612.0) == {}
    assert reasons(1622.0, THERE, heap_mb=611.0) == {T.id: "heap of host1:6700 requested 612 of 611 MB"}
    in_two_workers = np.array([2, 2, 2, 3], dtype=np.int32)
    assert reasons(1622.0, in_two_workers) == {}


def test_under_isolation_isolated_topologies_stay() -> None:
    state = cluster("IsolationScheduler")
    assert out_of_bounds(state, THERE) == {}
    state = replace(state, conf={**state.conf, "isolation.scheduler.machines": {"t": 1}})
    assert out_of_bounds(state, THERE) == {T.id: "isolated: IsolationScheduler deals out its executors"}


@pytest.mark.parametrize("fallback", ["MultitenantScheduler", "my.own.Scheduler"])
def test_other_fallback_schedulers_bind_topologies_to_their_nodes(fallback: str) -> None:
    state = cluster(fallback)
    name = fallback.rpartition(".")[2]
    assert out_of_bounds(state, THERE) == {}
    assert out_of_bounds(state, THERE + 2) == {T.id: f"{name} did not choose host2 for it"}


def test_unplaced_topologies_are_never_out_of_bounds() -> None:
    state = cluster("MultitenantScheduler", topologies=(T, U))
    wanted = np.concatenate([np.full(4, -1), THERE + 2]).astype(np.int32)
    assert out_of_bounds(state, wanted) == {}


@pytest.mark.parametrize(
    ("scheduler", "fallback", "counts"),
    [
        ("stormwright.PlacementScheduler", None, True),
        ("stormwright.PlacementScheduler", "none", True),
        ("stormwright.PlacementScheduler", "org.apache.storm.scheduler.IsolationScheduler", True),
        ("stormwright.PlacementScheduler", "ResourceAwareScheduler", False),
        ("org.apache.storm.scheduler.IsolationScheduler", None, True),
        ("org.apache.storm.scheduler.resource.ResourceAwareScheduler", "IsolationScheduler", False),
    ],
)
def test_isolation_machines_count_only_under_isolation_scheduler(
    scheduler: str, fallback: str | None, counts: bool
) -> None:
    conf = {"storm.scheduler": scheduler, "stormwright.fallback": fallback, "isolation.scheduler.machines": {"t": 2}}
    assert isolated(replace(cluster(), conf=conf)) == ({0: 2} if counts else {})


def live(state: Problem, live_mb: list[float]) -> Problem:
    """Return the problem with the live heap of the executors of its first topology."""
    name = state.topologies[0].id
    load = replace(silent_load(state.topologies[0], state.core_hz), live_heap_mb=np.array(live_mb))
    return state.with_load(LoadProfile({name: load}))


def fixed_heap(mb: int, **conf: Any) -> Problem:
    return cluster(topologies=(replace(T, conf={"topology.worker.childopts": f"-Xmx{mb}m", **conf}),))


def test_move_to_a_heap_too_small_is_refused_with_numbers() -> None:
    state = live(fixed_heap(256), [50.0, 50.0, 50.0, 50.0])
    why = "heap of host1:6700: 256 MB, too small for 232 MB in use, which takes 302 MB"
    assert out_of_bounds(state, THERE) == {T.id: Forbidden(why)}
    plan = plan_moves(state, Assignment(THERE), MoveBudget(), out_of_bounds(state, THERE))
    assert not plan.moves
    assert {each: str(reason) for each, reason in plan.blocked.items()} == {T.id: why}, "it is reported"
    assert out_of_bounds(live(fixed_heap(256), [30.0] * 4), THERE) == {}
    assert out_of_bounds(fixed_heap(256), THERE) == {}, "nothing is measured"


def test_fixed_heap_limits_executors_per_worker() -> None:
    state = live(fixed_heap(256), [50.0, 50.0, 50.0, 50.0])
    assert within_live_heaps(state).topologies[0].conf[MAX_EXECUTORS_PER_WORKER] == 3
    # What runs, and an even spread, is always allowed.
    assert within_live_heaps(live(fixed_heap(64), [50.0] * 4)).topologies[0].conf[MAX_EXECUTORS_PER_WORKER] == 2
    own = live(fixed_heap(256, **{MAX_EXECUTORS_PER_WORKER: 2}), [50.0] * 4)
    assert within_live_heaps(own).topologies[0].conf[MAX_EXECUTORS_PER_WORKER] == 2
    for unlimited in (live(fixed_heap(512), [50.0] * 4), fixed_heap(64), live(cluster(), [500.0] * 4)):
        assert within_live_heaps(unlimited) is unlimited


def test_limits_of_requests_hold_before_ours_is_installed_too() -> None:
    """Whether Nimbus asks the ResourceAwareScheduler itself, or ours that falls back to it."""
    small = replace(T, conf={"topology.worker.max.heap.size.mb": 100.0})
    ours = cluster("ResourceAwareScheduler", topologies=(small,))
    theirs = replace(ours, conf={"storm.scheduler": "org.apache.storm.scheduler.resource.ResourceAwareScheduler"})
    even = replace(ours, conf={"storm.scheduler": "org.apache.storm.scheduler.DefaultScheduler"})
    heaps = [[str(each) for each in broken_limits(of, THERE) if "heap" in str(each)] for of in (ours, theirs, even)]
    assert heaps[0]
    assert heaps[0] == heaps[1]
    assert not heaps[2]
