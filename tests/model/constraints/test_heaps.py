"""Heaps of workers: Storm's own sums, options of JVMs, and the limit on measured use."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import LoadProfile, Problem
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.heaps import (
    DEFAULT_HEADROOM,
    WORKER_BASE_MB,
    HeapOveruse,
    HeapSize,
    LiveHeap,
    WorkerHeaps,
    executors_per_heap,
    new_overuse,
)
from stormwright.model.topology_config import conf_misfits
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of
from tests.schedulers.builders import load, nodes, problem, running, topology


def sized(conf: dict[str, object], own: dict[str, object] | None = None) -> HeapSize:
    return HeapSize.of(topology("t", 1, 1, **(own or {})), conf)


@pytest.mark.parametrize(
    ("conf", "own", "expected"),
    [
        ({}, {}, HeapSize(None, 768.0)),
        ({"worker.heap.memory.mb": 512}, {}, HeapSize(None, 512.0)),
        ({"worker.heap.memory.mb": 512}, {"worker.heap.memory.mb": 256}, HeapSize(None, 256.0)),
        ({"worker.childopts": "-Xmx%HEAP-MEM%m -XX:+PrintGCDetails"}, {}, HeapSize(None, 768.0)),
        ({"worker.childopts": ["-ea", "-Xmx2g"]}, {}, HeapSize(2048.0)),
        ({"worker.childopts": "-Xmx2g -Xmx1g"}, {}, HeapSize(1024.0)),
        ({"worker.childopts": "-Xmx2g"}, {"topology.worker.childopts": "-Xmx700M -ea"}, HeapSize(700.0)),
        ({"worker.childopts": "-Xmx2g"}, {"topology.worker.childopts": "-Xmx%HEAP-MEM%m"}, HeapSize(None, 768.0)),
        ({"topology.worker.childopts": "-Xmx1g"}, {"topology.worker.childopts": None}, HeapSize(1024.0)),
        ({"worker.gc.childopts": "-Xmx1g"}, {"topology.worker.childopts": "-Xmx2g"}, HeapSize(1024.0)),
        ({"worker.gc.childopts": "-Xmx1g"}, {"topology.worker.gc.childopts": "-ea"}, HeapSize(None, 768.0)),
        ({"worker.childopts": "-XX:MaxHeapSize=524288k"}, {}, HeapSize(512.0)),
        ({"worker.childopts": "-Xmx268435456"}, {}, HeapSize(256.0)),
        ({"worker.childopts": "-Xms2g"}, {}, HeapSize(inf)),
        ({"worker.childopts": "-Dx=-Xmx1g"}, {}, HeapSize(inf)),
        ({"worker.childopts": ""}, {}, HeapSize(inf)),
    ],
)
def test_size_follows_the_last_maximum_among_the_options(
    conf: dict[str, object], own: dict[str, object], expected: HeapSize
) -> None:
    assert sized(conf, own) == expected


def test_sum_of_requests_is_rounded_up_and_replaced_if_it_is_nothing() -> None:
    assert HeapSize(None, 512.0).size_mb(np.array([0.0, 128.0, 383.25])).tolist() == [512, 128, 384]
    assert HeapSize(1024.0).size_mb(np.array([0.0, 4096.0])).tolist() == [1024, 1024]


def measured(live_mb: list[float], workers: int = 2, **conf: object) -> Problem:
    """Executors of 128 MB that run in the first slots of two nodes, in turn."""
    count = len(live_mb)
    of = problem(nodes(9.0, 9.0), (topology("t", count, workers, **conf), load(count)))
    assert of.load is not None
    loads = {name: replace(each, live_heap_mb=np.array(live_mb)) for name, each in of.load.topologies.items()}
    return running(replace(of, load=LoadProfile(loads)), [(e % 2) * 4 for e in range(count)])


def test_message_has_size_use_and_need() -> None:
    of = measured([50.0, 150.0])
    (broken,) = LiveHeap().violations(PlacedExecutors(of, of.current_slot))
    assert isinstance(broken, HeapOveruse)
    assert (broken.allowed, broken.live_mb) == (128, 150 + WORKER_BASE_MB)
    assert broken.amount == pytest.approx((150 + WORKER_BASE_MB) * DEFAULT_HEADROOM)
    assert str(broken) == "heap of h1:6700: 128 MB, too small for 182 MB in use, which takes 237 MB"


def test_only_workers_that_would_be_worse_off_are_new() -> None:
    of = measured([90.0, 90.0, 10.0, 10.0])
    alone = np.array([0, 4, 1, 1], np.int32)  # 128 MB for 122 in use: before it was 256 MB for 132
    assert new_overuse(of, of.current_slot) == {}
    assert new_overuse(of, alone)["t"].slot == of.slots[0]
    # One that runs so already may go on so elsewhere, but no shorter of heap.
    now = running(of, alone.tolist())
    assert new_overuse(now, np.array([4, 0, 1, 1], np.int32)) == {}
    assert list(LiveHeap().violations(PlacedExecutors(now, now.current_slot)))


def test_unknown_use_or_size_limits_nothing() -> None:
    of = measured([500.0, 500.0], **{"topology.worker.childopts": "-Xmx512m"})
    assert new_overuse(of, np.array([0, 0], np.int32))["t"].allowed == 512
    assert of.load is not None
    unmeasured = {name: replace(each, live_heap_mb=None) for name, each in of.load.topologies.items()}
    assert new_overuse(replace(of, load=LoadProfile(unmeasured)), np.array([0, 0], np.int32)) == {}
    assert new_overuse(replace(of, conf={"worker.childopts": "-ea"}), np.array([0, 0], np.int32)) != {}
    (own,) = of.topologies
    nothing = replace(of, conf={"worker.childopts": "-ea"}, topologies=(replace(own, conf={}),))
    assert new_overuse(nothing, np.array([0, 0], np.int32)) == {}


def test_headroom_is_configurable_and_zero_disables_the_limit() -> None:
    together = np.array([0, 0], np.int32)
    assert new_overuse(measured([90.0, 90.0]), together) == {}, "it was shorter before: 128 MB for 122 in use"
    of = measured([60.0, 60.0])
    assert new_overuse(of, together) == {}
    fixed = replace(of, conf={"worker.childopts": "-Xmx160m"})
    assert new_overuse(fixed, together)["t"].amount == pytest.approx((120 + WORKER_BASE_MB) * DEFAULT_HEADROOM)
    assert new_overuse(replace(fixed, conf={**fixed.conf, "stormwright.heap.headroom": 1}), together) == {}
    assert new_overuse(replace(fixed, conf={**fixed.conf, "stormwright.heap.headroom": 0}), together) == {}
    assert conf_misfits({"stormwright.heap.headroom": "much"})
    assert not conf_misfits({"stormwright.heap.headroom": 1.5})


@pytest.mark.parametrize(("size", "most"), [("100m", 1), ("200m", 1), ("260m", 2), ("600m", None)])
def test_executors_per_fixed_heap(size: str, most: int | None) -> None:
    """The largest come first: 100, 60, 50 and 20 MB beside the worker's own 32, times 1.3."""
    of = measured([50.0, 100.0, 20.0, 60.0], **{"topology.worker.childopts": f"-Xmx{size}"})
    assert executors_per_heap(of, 0) == most


def test_executors_per_heap_is_unlimited_where_it_follows_requests() -> None:
    assert executors_per_heap(measured([500.0, 500.0]), 0) is None


@pytest.mark.slow
@given(problems(), st.data())
def test_heaps_equal_the_oracle(of: Problem, data: st.DataObject) -> None:
    slots = data.draw(slots_of(of))
    heaps = WorkerHeaps.of(PlacedExecutors(of, slots))
    found = {
        (of.topologies[topology].id, int(slot)): (size, None if np.isnan(live) else pytest.approx(live))
        for topology, slot, size, live in zip(
            heaps.workers.topology, heaps.workers.slot, heaps.size_mb, heaps.live_mb, strict=True
        )
    }
    assert found == oracles.heaps(of, slots.tolist())
