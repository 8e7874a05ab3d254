"""Loads from records without the pipeline, as benchmarks use them."""

from __future__ import annotations

import pytest
from stormwright_lab.evaluations.lab.steady import with_load

from tests.pipeline.generator import CORE_HZ, dice, known_profile, make_world, records
from tests.pipeline.oracle import expected_profile, found_profile

START_MS = 1_700_000_001_000


def test_load_of_records_has_waits_runs_pending_trees_and_whole_nodes() -> None:
    """Beside the plain sums that the pipeline is compared with, over a window that holds all records."""
    world = make_world(5)
    reported = records(world, START_MS, 20, dice(5))
    loaded = with_load(world.problem, reported, cores=2.0, link="40mbit", following=True)
    assert {(node.cpu_hz, node.link_bps) for node in loaded.supervisors} == {(2 * CORE_HZ, 40e6)}
    assert loaded.load is not None
    found = found_profile(loaded.load, world.problem)
    expected = expected_profile(reported, world.problem, window_s=60, slide_s=3, settle_s=0)
    for name in ("cpu_hz", "waited", "executing", "runs_per_s", "pending_trees"):
        for topology in world.problem.topologies:
            ours, theirs = getattr(found, name)[topology.id], getattr(expected, name)[topology.id]
            assert ours == pytest.approx(theirs, rel=1e-9), (name, topology.id)
    known = known_profile(world)
    assert found.node_cpu_hz == pytest.approx(known.node_cpu_hz, rel=1e-3)
    assert found.node_quota_hz == pytest.approx(known.node_quota_hz)
    assert found.node_overhead_hz == pytest.approx(known.node_overhead_hz, rel=0.02)


def test_load_of_records_from_before_these_were_reported_has_none() -> None:
    world = make_world(5)
    reported = [
        {
            **record,
            "node": None,
            "executors": [{**each, **dict.fromkeys(("waited_ns", "runs", "pending"))} for each in record["executors"]],
        }
        for record in records(world, START_MS, 20, dice(5))
    ]
    load = with_load(world.problem, reported, cores=2.0, link="40mbit", following=True).load
    assert load is not None
    assert {(each.waited, each.runs_per_s, each.pending_trees) for each in load.topologies.values()} == {(None,) * 3}
    assert load.node_cpu_hz
    assert not load.node_quota_hz
    assert not load.node_overhead_hz
