"""Sentences about components whose executors wait, share unevenly, send large tuples or run other programs."""

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
    WorkerSlot,
)
from stormwright.model.load import StreamRate, silent_load, with_streams
from stormwright.model.peculiarities import Peculiarity, peculiarities
from stormwright.model.topology import ComponentCode, default_executor_runs

CORE_HZ = 2e9


def chain(
    kind: str = "shuffle", steps: int = 3, code: ComponentCode | None = None, others: tuple[str, ...] = ()
) -> Topology:
    """One spout, a bolt, and an acker; executors are numbered acker, source, steps."""
    inputs = [Grouping("source", kind=each, fields=("key",)) for each in (kind, *others)]
    components = (
        Component("__acker", "system", 1, (Grouping("source", "__ack_init", "fields", ("id",)),)),
        Component("source", "spout", 1),
        Component("step", "bolt", steps, tuple(inputs), code=code),
    )
    return Topology("t", "t", 1, components, default_executor_runs(components))


def load_of(topology: Topology, kind: str = "shuffle", tps: float = 100.0) -> TopologyLoad:
    """Spout to bolt, and as many notices to the acker; a twentieth of a core each."""
    streams = [StreamRate(1, 2, kind, tps), StreamRate(1, 0, "fields", tps)]
    load = with_streams(silent_load(topology, CORE_HZ), topology, streams)
    return replace(load, cpu_hz=np.full(topology.num_executors, CORE_HZ / 20))


def measured(topology: Topology, load: TopologyLoad, core_hz: float = CORE_HZ) -> Problem:
    """All of it on one node of two cores."""
    node = Supervisor("s", "host", (6700,), cpu_hz=2 * core_hz, resources={"cpu.pcore.percent": 200.0})
    placed = TopologyAssignment((WorkerSlot("s", 6700),), (0,) * topology.num_executors)
    profile = LoadProfile({topology.id: load})
    return Problem((node,), (topology,), load=profile, current={topology.id: placed}, core_hz=CORE_HZ)


def found(topology: Topology, load: TopologyLoad, core_hz: float = CORE_HZ) -> list[Peculiarity]:
    return list(peculiarities(measured(topology, load, core_hz), 0))


def kinds(topology: Topology, load: TopologyLoad, core_hz: float = CORE_HZ) -> list[tuple[str, str]]:
    return [(each.kind, each.component) for each in found(topology, load, core_hz)]


def executing(load: TopologyLoad, parts: list[float], waited: float = 0.0) -> TopologyLoad:
    """Step executors that execute for parts of the time, and wait for a core for one."""
    return replace(load, executing=np.array([0, 0, *parts]), waited=np.array([0, 0, *[waited] * len(parts)]))


def test_a_usual_load_has_none() -> None:
    topology = chain()
    assert kinds(topology, load_of(topology)) == []
    # Execution takes as long as its CPU, or as its CPU and the wait for a core.
    assert kinds(topology, executing(load_of(topology), [0.05] * 3)) == []
    assert kinds(topology, executing(load_of(topology), [0.9] * 3, waited=0.85)) == []


def test_spouts_and_ackers_with_full_threads_are_named() -> None:
    topology = chain()
    busy = np.array([0.9, 0.95, 0.9, 0.9, 0.9]) * CORE_HZ
    acker, source = found(topology, replace(load_of(topology), cpu_hz=busy))
    assert (acker.kind, acker.component, source.kind, source.component) == ("full", "__acker", "full", "source")
    assert "90% of a core" in acker.text
    assert "if its source can be divided" in source.text
    # On a core that is twice as fast it is half of one.
    assert kinds(topology, replace(load_of(topology), cpu_hz=busy), 2 * CORE_HZ) == []


def test_a_bolt_that_waits_for_a_database_is_named_with_its_part_of_the_time() -> None:
    topology = chain()
    (one,) = found(topology, executing(load_of(topology), [0.85, 0.65, 0.75]))
    assert (one.kind, one.component) == ("waits", "step")
    assert one.text.startswith("step waits for something else than CPU in 70% of the time of 3 executors")


@pytest.mark.parametrize(("part", "named"), [(0.14, False), (0.16, True)])
def test_waiting_counts_from_a_tenth_of_the_time_on(part: float, named: bool) -> None:
    topology = chain()
    assert kinds(topology, executing(load_of(topology), [part] * 3)) == [("waits", "step")] * named


@pytest.mark.parametrize(("cpu", "named"), [(0.44, True), (0.46, False)])
def test_waiting_counts_from_half_of_executing_on(cpu: float, named: bool) -> None:
    topology = chain()
    busy = replace(load_of(topology), cpu_hz=np.full(topology.num_executors, cpu * CORE_HZ))
    assert kinds(topology, executing(busy, [0.9] * 3)) == [("waits", "step")] * named


def test_cpu_is_a_part_of_the_time_by_the_speed_of_the_node() -> None:
    """What computes for 0.8 of the time on cores of half the speed uses 0.4 of a usual core."""
    topology = chain()
    computing = replace(load_of(topology), cpu_hz=np.full(topology.num_executors, 0.4 * CORE_HZ))
    assert kinds(topology, executing(computing, [0.81] * 3), core_hz=CORE_HZ / 2) == []
    assert kinds(topology, executing(computing, [0.81] * 3)) == [("waits", "step")]


def test_without_the_time_without_a_core_no_waiting_is_known() -> None:
    topology = chain()
    assert kinds(topology, replace(executing(load_of(topology), [0.9] * 3), waited=None)) == []


@pytest.mark.parametrize(
    ("steps", "share", "named"), [(2, 0.74, False), (2, 0.76, True), (10, 0.54, False), (10, 0.56, True)]
)
def test_keys_are_skewed_midway_between_even_and_all(steps: int, share: float, named: bool) -> None:
    topology = chain("fields", steps)
    load = load_of(topology, "fields")
    own = load.pair_target >= 2
    tps = np.where(own, 100 * (1 - share) / (steps - 1), load.pair_tps)
    tps[np.flatnonzero(own)[-1]] = 100 * share
    assert kinds(topology, replace(load, pair_tps=tps)) == [("skewed", "step")] * named
    assert kinds(topology, replace(load, pair_tps=tps / 50)) == [], "few tuples are uneven by chance"


def test_other_groupings_are_not_skewed_by_keys() -> None:
    for topology in (chain("direct"), chain("fields", others=("global",))):
        load = load_of(topology, "fields")
        to_one = np.where(load.pair_target == 2, 3.0, np.where(load.pair_target > 2, 0.0, 1.0))
        assert kinds(topology, replace(load, pair_tps=load.pair_tps * to_one)) == []


@pytest.mark.parametrize(("size", "named"), [(9_900, False), (20_000, True)])
def test_tuples_are_as_large_as_those_to_bolts(size: float, named: bool) -> None:
    """Notices to the acker are small, and as many."""
    topology = chain()
    load = load_of(topology)
    sizes = replace(load, pair_bytes_per_s=load.pair_tps * 20, flow_bytes_per_s=load.flow_tps * size)
    texts = [each.text for each in found(topology, sizes)]
    assert texts == ["tuples of source have 20 kB: 100 Mbit/s carry 625 a second"] * named


def test_a_shell_bolt_runs_a_process() -> None:
    """By its class, or that which it extends."""
    code = ComponentCode(("com.example.Mine", "org.apache.storm.task.ShellBolt"))
    topology = chain(code=code)
    assert kinds(topology, load_of(topology)) == [("process", "step")]
    assert list(peculiarities(replace(measured(topology, load_of(topology)), load=None), 0)) == []
