"""Sentences about components whose executors wait, share unevenly, send large tuples or run other programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import Component, Grouping, Topology, TopologyLoad
from stormwright.model.load import StreamRate, silent_load, with_streams
from stormwright.model.peculiarities import peculiarities
from stormwright.model.topology import ComponentCode, default_executor_runs

CORE_HZ = 2e9


def chain(kind: str = "shuffle", steps: int = 3, code: ComponentCode | None = None) -> Topology:
    """One spout, a bolt, and an acker; executors are numbered acker, source, steps."""
    components = (
        Component("__acker", "system", 1, (Grouping("source", "__ack_init", "fields", ("id",)),)),
        Component("source", "spout", 1),
        Component("step", "bolt", steps, (Grouping("source", kind=kind, fields=("key",)),), code=code),
    )
    return Topology("t", "t", 1, components, default_executor_runs(components))


def load_of(topology: Topology, kind: str = "shuffle", tps: float = 100.0) -> TopologyLoad:
    """Spout to bolt, and as many notices to the acker; a twentieth of a core each."""
    streams = [StreamRate(1, 2, kind, tps), StreamRate(1, 0, "fields", tps)]
    load = with_streams(silent_load(topology, CORE_HZ), topology, streams)
    return replace(load, cpu_hz=np.full(topology.num_executors, CORE_HZ / 20))


def kinds(topology: Topology, load: TopologyLoad) -> list[tuple[str, str]]:
    return [(each.kind, each.component) for each in peculiarities(topology, load, CORE_HZ)]


def test_a_usual_load_has_none() -> None:
    topology = chain()
    assert kinds(topology, load_of(topology)) == []
    # Execution takes as long as its CPU, or as its CPU and the wait for a core.
    busy = replace(load_of(topology), executing=np.array([0.05, 0, 0.05, 0.05, 0.05]))
    throttled = replace(busy, executing=np.array([0, 0, 0.9, 0.9, 0.9]), waited=np.array([0, 0, 0.85, 0.85, 0.85]))
    assert kinds(topology, busy) == kinds(topology, throttled) == []


def test_a_bolt_that_waits_for_a_database_is_named_with_its_part_of_the_time() -> None:
    topology = chain()
    load = replace(load_of(topology), executing=np.array([0, 0, 0.85, 0.65, 0.75]))
    (found,) = peculiarities(topology, load, CORE_HZ)
    assert (found.kind, found.component) == ("waits", "step")
    assert found.text.startswith("step waits for something else than CPU in 70% of the time of 3 executors")


@pytest.mark.parametrize(
    ("steps", "share", "named"), [(2, 0.70, False), (2, 0.80, True), (10, 0.5, False), (10, 0.6, True)]
)
def test_keys_are_skewed_midway_between_even_and_all(steps: int, share: float, named: bool) -> None:
    topology = chain("fields", steps)
    load = load_of(topology, "fields")
    own = load.pair_target >= 2
    tps = np.where(own, 100 * (1 - share) / (steps - 1), load.pair_tps)
    tps[np.flatnonzero(own)[-1]] = 100 * share
    assert kinds(topology, replace(load, pair_tps=tps)) == [("skewed", "step")] * named


def test_an_uneven_shuffle_is_not_skewed_by_keys() -> None:
    topology = chain("direct")
    load = load_of(topology, "fields")
    assert kinds(topology, replace(load, pair_tps=load.pair_tps * np.array([1, 0, 0, 1]))) == []


def test_tuples_are_as_large_as_those_to_bolts() -> None:
    """Notices to the acker are small, and as many."""
    topology = chain()
    load = load_of(topology)
    sizes = replace(load, pair_bytes_per_s=load.pair_tps * 20, flow_bytes_per_s=load.flow_tps * 20_000)
    (found,) = peculiarities(topology, sizes, CORE_HZ)
    assert found.text.startswith("tuples of source have 20 kB")
    assert kinds(topology, replace(sizes, flow_bytes_per_s=load.flow_tps * 500)) == []


def test_a_shell_bolt_runs_a_process() -> None:
    """Known before anything is measured, by its class or that which it extends."""
    code = ComponentCode(("com.example.Mine", "org.apache.storm.task.ShellBolt"))
    topology = chain(code=code)
    assert kinds(topology, load_of(topology)) == [("process", "step")]
