"""Recorded loads: as Storm's load generator documents and writes them, and what comes back of one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.formats.storm.conf import StormConf
from stormwright.formats.storm.loadgen import read_loadgen, write_loadgen
from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import nodes

CORE_HZ = 3e9

#: In the shape that CaptureLoad of Storm 2.8.3 writes, with a stream to all, and one bolt that waits.
RECORDED = """
name: orders
config: {topology.workers: 2, topology.acker.executors: 2, topology.max.spout.pending: 100}
spouts:
- id: source
  parallelism: 2
  cpuLoad: 20.0
  memoryLoad: 256.0
  streams:
  - {streamId: default, rate: {mean: 300, stddev: 10.0, min: 290.0, max: 310.0}, areKeysSkewed: false}
  - {streamId: control, rate: {mean: 1.5}}
bolts:
- id: parse
  parallelism: 3
  streams:
  - streamId: default
    rate: {mean: 400.0, stddev: 0.0, min: 400.0, max: 400.0}
- {id: store, parallelism: 4}
streams:
- {from: source, to: parse, grouping: {type: SHUFFLE, streamId: default}, execTime: {mean: 0.2}}
- {from: source, to: parse, grouping: {type: ALL, streamId: control}, execTime: {mean: 0.5}, processTime: {mean: 0.5}}
- {from: parse, to: store, grouping: {type: fields}, execTime: {mean: 2.5}, processTime: {mean: 2.5}}
"""


def read(tmp_path: Path, text: str = RECORDED) -> Problem:
    path = tmp_path / "orders.yaml"
    path.write_text(text)
    topologies, load, errors = read_loadgen([path], StormConf([]), CORE_HZ)
    assert [str(error) for error in errors] == []
    return Problem(nodes(4, 4, 4), topologies, load=load)


def traffic(problem: Problem, source: str, to: str) -> float:
    """Tuples/s between two components."""
    topology, load = problem.topologies[0], problem.loads[0]
    component = topology.executor_component
    a, b = (topology.component_index[name] for name in (source, to))
    pairs = (component[load.pair_source] == a) & (component[load.pair_target] == b)
    flows = (component[load.flow_source] == a) & (load.flow_component == b)
    return float(load.pair_tps[pairs].sum() + load.flow_tps[flows].sum())


def test_rates_and_times_of_executors(tmp_path):
    problem = read(tmp_path)
    topology, load = problem.topologies[0], problem.loads[0]
    assert (topology.name, topology.num_workers) == ("orders", 2)
    assert topology.executor_counts == {"__acker": 2, "parse": 3, "source": 2, "store": 4}
    # Each of 2 source executors emits 300 tuples/s, and 1.5 to each of 3 parse executors.
    assert traffic(problem, "source", "parse") == pytest.approx(600 + 9)
    assert traffic(problem, "parse", "store") == pytest.approx(1200)
    assert traffic(problem, "source", "__acker") == pytest.approx(603)
    assert traffic(problem, "parse", "__acker") == pytest.approx(609)
    assert traffic(problem, "__acker", "source") == pytest.approx(603)
    of = {name: load.cpu_hz[topology.executor_component == n] for name, n in topology.component_index.items()}
    # 200 tuples/s of 0.2 ms, and 3 of 0.5 ms.
    assert of["parse"] == pytest.approx(np.full(3, (200 * 0.2 + 3 * 0.5) / 1000 * CORE_HZ))
    assert not of["store"].any(), "GenLoad waits for a millisecond and more"
    assert load.executing[topology.executor_component == topology.component_index["store"]] == pytest.approx(0.75)
    requested = problem.workload.requested[0][topology.component_index["source"]]
    assert requested["cpu.pcore.percent"] == 20
    assert requested["onheap.memory.mb"] == 256


def test_written_load_is_read_again_with_the_same_rates(tmp_path):
    before = read(tmp_path, "".join(line for line in RECORDED.splitlines(keepends=True) if "control" not in line))
    text = write_loadgen(before, 0)
    again = read(tmp_path, text)
    assert again.topologies[0].executor_counts == before.topologies[0].executor_counts
    for source, to in (("source", "parse"), ("parse", "store"), ("source", "__acker"), ("parse", "__acker")):
        assert traffic(again, source, to) == pytest.approx(traffic(before, source, to), rel=0.01)
    assert again.loads[0].cpu_hz.sum() == pytest.approx(before.loads[0].cpu_hz.sum())
    document = yaml.safe_load(text)
    assert document["config"]["topology.max.spout.pending"] == 100
    for stream in document["streams"]:
        assert set(stream) == {"from", "to", "grouping", "execTime", "processTime"}
        assert stream["execTime"].keys() == {"mean", "stddev", "min", "max"}


def test_components_without_executors_neither_send_nor_receive(tmp_path):
    problem = read(tmp_path, RECORDED.replace("config: {", "config: {topology.tasks: 0, "))
    assert [each.id for each in problem.topologies[0].components] == ["__acker"]
    assert not problem.loads[0].cpu_hz.any()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(1, 1e5), min_size=2, max_size=4), st.sampled_from(["SHUFFLE", "LOCAL_OR_SHUFFLE", "GLOBAL"]))
def test_a_chain_of_any_rates_survives(tmp_path_factory, rates, kind):
    tmp_path = tmp_path_factory.mktemp("loadgen")
    names = [f"c{number}" for number in range(len(rates))]
    document = {
        "name": "chain",
        "spouts": [{"id": "c0", "parallelism": 2, "streams": [{"streamId": "x", "rate": {"mean": rates[0]}}]}],
        "bolts": [
            {"id": name, "parallelism": 3, "streams": [{"streamId": "x", "rate": {"mean": tps}}]}
            for name, tps in zip(names[1:], rates[1:], strict=True)
        ],
        "streams": [
            {"from": a, "to": b, "grouping": {"type": kind, "streamId": "x"}, "execTime": {"mean": 0.01}}
            for a, b in pairwise(names)
        ],
    }
    before = read(tmp_path, yaml.safe_dump(document))
    again = read(tmp_path, write_loadgen(before, 0))
    for a, b in pairwise(names):
        assert traffic(again, a, b) == pytest.approx(traffic(before, a, b))
    assert make_scheduler("even").schedule(again).slot_of_executor.min() >= 0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("to: store", "to: nowhere"), "$.streams[2].to: unknown bolt 'nowhere'"),
        (("from: parse", "from: nothing"), "$.streams[2].from: 'nothing' has no stream 'default' in its streams"),
        (("type: ALL", "type: SOME"), "$.streams[1].grouping.type: should be one of SHUFFLE"),
        (("mean: 300", "mean: -1"), "$.spouts[0].streams[0].rate.mean"),
        (("parallelism: 3", "parallelism: 0"), "$.bolts[0].parallelism"),
        (("id: store", "id: parse"), "two components have the same id"),
        (("topology.workers: 2", "topology.workers: many"), "topology.workers"),
        (("spouts:", "taps:"), "$.spouts: required field missing"),
    ],
)
def test_every_fault_has_its_place(tmp_path, change, fault):
    path = tmp_path / "orders.yaml"
    path.write_text(RECORDED.replace(*change, 1))
    _, _, errors = read_loadgen([path], StormConf([]), CORE_HZ)
    found = [f"{each.path}: {each.message}" for error in errors for each in error.faults]
    assert any(fault in each for each in found), found
