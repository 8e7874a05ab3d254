"""Nodes with a quota of CPU: what uses it up, and which cores have it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.simulator.storm.cases import NO_COSTS, chain, engine


def quota(**costs):
    return replace(NO_COSTS, quota_period_ms=20.0, **costs)


def after(of, seconds, begin=1.0):
    of.until(begin)
    before = of.counts
    of.until(seconds)
    return of.counts.since(before)


def test_worker_overhead_is_charged_to_quota_even_while_throttled():
    """0.4 cores, of which the worker takes 0.1: 0.3 cores are left for trees of 100 µs, however short they run."""
    costs = quota(worker_cores=0.1, machine_cores=4.0, quota_piece_ms=0.1)
    counts = after(engine(chain([50.0, 50.0], 100.0, 100, cores=0.4), costs=costs, saturated=True, varies=0.0), 11.0)
    assert counts.topologies["completed"][0] / counts.now_s == pytest.approx(0.3 / 100e-6, rel=0.02)
    assert counts.busy_s / counts.now_s == pytest.approx([0.4], rel=0.02)


def test_idle_threads_poll_at_the_configured_interval():
    """Three executors and the sending thread, a core for each: awake for 50 µs, then asleep for 1 ms."""
    costs = quota(polling_share=0.05, asleep_us=500.0, machine_cores=8.0)
    conf = {"topology.bolt.wait.progressive.level2.count": 0}
    counts = after(engine(chain([0.0, 0.0], 1e-3, cores=4.0, conf=conf), costs=costs), 3.0)
    assert counts.busy_s / counts.now_s == pytest.approx([4 * 0.05 / 1.05], rel=0.01)


def together(piece_ms):
    """Part of the time in which both cores of a node run, and in which each does, with 5 ms for both in every 20."""
    problem = chain([50.0, 50.0, 50.0, 50.0], 100.0, 400, cores=0.25)
    of = engine(problem, costs=quota(quota_piece_ms=piece_ms, machine_cores=2.0), saturated=True, varies=0.0)
    running = []
    for step in range(2_000):
        of.until(1.0 + 1e-3 * step)
        running.append(np.array(of.cluster.shares.cores["rate"] > 0))
    return np.all(running, axis=1).mean(), np.mean(running, axis=0)


def test_cores_alternate_under_a_single_piece_quota():
    whole, each = together(5.0)
    assert whole < 0.02
    assert each == pytest.approx([0.125, 0.125], abs=0.05), "each as often as the other"


def test_smaller_pieces_let_both_cores_run():
    whole, each = together(0.5)
    assert whole > 0.07
    assert each == pytest.approx([0.125, 0.125], abs=0.05)
