"""Work by the stream that tuples come by: exact where an executor gets other tuples than it was measured with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    default_executor_runs,
)
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.costs import Correction, Costs, InputWork

#: Messages cost nothing, so that all there is is work; and nothing is in doubt.
FREE = Costs(
    **dict.fromkeys(("serialise_us", "serialise_us_per_kb", "send_us", "send_us_per_kb", "receive_us"), 0.0),
    **dict.fromkeys(("receive_us_per_kb", "worker_cores", "work_error", "message_error", "delay_error"), 0.0),
)

#: µs of a tuple in the bolt, by the spout that it comes from: ten times as much of the one as of the other; of spouts.
QUICK_US, SLOW_US, SPOUT_US = 1.0, 10.0, 0.1

#: Trees/s of each of the two spouts while it was measured.
RATE_TPS = 20_000.0

#: What a calibration says of it.
APART = {
    "t-1-0": Correction(
        inputs={"bolt": (InputWork("quick", "default", QUICK_US, 0.5), InputWork("slow", "default", SLOW_US, 0.5))}
    )
}

#: Each spout with an executor of the bolt, in a worker of its own; executors are bolt, bolt, quick, slow.
BY_SPOUT = np.array([0, 2, 0, 2], np.int32)


def joined(quick_part: float | None = None) -> Problem:
    """Two spouts and a bolt of two executors that both send to, shuffled: in one worker, where each gets half of both.

    With a part, by fields: the first executor gets it of the quick tuples, and the rest of the slow ones.
    """
    kind = "local_or_shuffle" if quick_part is None else "fields"
    inputs = tuple(Grouping(source, kind=kind) for source in ("quick", "slow"))
    components = (
        Component("bolt", "bolt", 2, inputs),
        Component("quick", "spout", 1),
        Component("slow", "spout", 1),
    )
    topology = Topology("t-1-0", "t", 2, components, default_executor_runs(components))
    part = 0.5 if quick_part is None else quick_part
    parts = np.array([[part, 1 - part], [1 - part, part]])  # of quick tuples, then of slow ones
    worked_us = RATE_TPS * (np.array([QUICK_US, SLOW_US]) @ parts)
    none, empty, shuffled = np.empty(0, np.int32), np.empty(0), quick_part is None
    load = TopologyLoad(
        cpu_hz=np.array([*worked_us, RATE_TPS * SPOUT_US, RATE_TPS * SPOUT_US]) * 1e-6 * DEFAULT_CORE_HZ,
        memory_mb=np.ones(4),
        pair_source=none if shuffled else np.array([2, 2, 3, 3]),
        pair_target=none if shuffled else np.array([0, 1, 0, 1]),
        pair_tps=empty if shuffled else RATE_TPS * parts.ravel(),
        flow_source=np.array([2, 3]) if shuffled else none,
        flow_component=np.zeros(2, np.int32) if shuffled else none,
        flow_tps=np.full(2, RATE_TPS) if shuffled else empty,
        flow_grouping=(kind, kind) if shuffled else (),
    )
    nodes = tuple(
        Supervisor(f"n{n}", f"n{n}", (6700, 6701), 4 * DEFAULT_CORE_HZ, resources={"cpu.pcore.percent": 400.0})
        for n in range(2)
    )
    problem = Problem(nodes, (topology,), load=LoadProfile({topology.id: load}))
    return problem.with_current({topology.id: TopologyAssignment(problem.slots[:1], (0,) * 4)})


def highest_tps(problem: Problem, slots: np.ndarray, corrections: dict[str, Correction]) -> float:
    (topology,) = predict(problem, slots, Assumptions(FREE, corrections)).topologies
    return topology.highest_tps.value


def test_executor_with_expensive_input_saturates_first():
    """Half of all trees are slow and come to one thread: it bears 1 / (0.5 · 10 µs) of them."""
    problem = joined()
    assert highest_tps(problem, BY_SPOUT, APART) == pytest.approx(2e6 / SLOW_US)
    # A single number says that both are as full: so 1.8 times as much as there is.
    mean_us = (QUICK_US + SLOW_US) / 2
    assert highest_tps(problem, BY_SPOUT, {}) == pytest.approx(2e6 / mean_us)


def test_rate_interval_uses_the_same_input_mix_as_its_value():
    correction = replace(APART["t-1-0"], error=0.1)
    (topology,) = predict(joined(), BY_SPOUT, Assumptions(FREE, {"t-1-0": correction})).topologies
    highest = topology.highest_tps
    assert (highest.low, highest.high) == pytest.approx((highest.value / 1.1, highest.value / 0.9))


def test_unchanged_placement_has_the_measured_rate():
    problem = joined()
    assert highest_tps(problem, problem.current_slot, APART) == pytest.approx(
        highest_tps(problem, problem.current_slot, {})
    )


@pytest.mark.parametrize("slow_part", [0.1, 0.5, 0.9])
def test_as_measured_counts_and_not_how_many_microseconds_were_fitted(slow_part):
    """Only how costs relate is taken from the fit: the sum is that of the load, whose mix may be another one."""
    corrections = {
        "t-1-0": Correction(
            inputs={
                "bolt": (
                    InputWork("quick", "default", 3 * QUICK_US, 1 - slow_part),
                    InputWork("slow", "a", 3 * SLOW_US, slow_part / 2),
                    InputWork("slow", "b", 3 * SLOW_US, slow_part / 2),
                )
            }
        )
    }
    assert highest_tps(joined(), BY_SPOUT, corrections) == pytest.approx(2e6 / SLOW_US)


@pytest.mark.parametrize("quick_part", [0.5, 0.9, 1.0])
def test_fields_grouped_input_retains_its_mix_under_any_placement(quick_part):
    """Where tuples go does not depend on the placement then, and each executor takes what it was measured to take."""
    problem = joined(quick_part)
    slow_us = (1 - quick_part) * QUICK_US + quick_part * SLOW_US
    for slots in (problem.current_slot, BY_SPOUT):
        for corrections in ({}, APART):
            assert highest_tps(problem, slots, corrections) == pytest.approx(2e6 / slow_us)


@pytest.mark.parametrize(
    "inputs",
    [
        {"nobody": (InputWork("quick", "default", 1.0, 1.0),)},
        {"bolt": (InputWork("nobody", "default", 1.0, 1.0), InputWork("slow", "default", 0.0, 0.0))},
        {"bolt": (InputWork("quick", "default", 0.0, 0.5), InputWork("slow", "default", 0.0, 0.5))},
        {"bolt": ()},
        {"quick": (InputWork("slow", "default", 5.0, 0.5), InputWork("bolt", "default", 1.0, 0.5))},
    ],
)
def test_corrections_not_matching_the_topology_are_ignored(inputs):
    problem = joined()
    corrections = {"t-1-0": Correction(inputs=inputs), "other-2-0": APART["t-1-0"]}
    assert highest_tps(problem, BY_SPOUT, corrections) == pytest.approx(highest_tps(problem, BY_SPOUT, {}))
