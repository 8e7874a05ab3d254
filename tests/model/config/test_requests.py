"""What components ask for, worked out by hand after NormalizedResourceRequest of Storm 2.8.3."""

from __future__ import annotations

import pytest

from stormwright.model import Component, Problem, Supervisor, Topology, assumed_load, default_executor_runs
from stormwright.model.requests import read_requests
from stormwright.schedulers import make_scheduler

MAP = "topology.component.resources.map"
ON_HEAP = "topology.component.resources.onheap.memory.mb"
OFF_HEAP = "topology.component.resources.offheap.memory.mb"
CPU = "topology.component.cpu.pcore.percent"


def requested(conf, component="b", own=None):
    requests, misfits = read_requests(conf)
    assert not misfits
    return requests.of(component, own or {})


def amounts(cpu, on_heap, off_heap, **generic):
    return {"cpu.pcore.percent": cpu, "onheap.memory.mb": on_heap, "offheap.memory.mb": off_heap, **generic}


def test_defaults_of_storm():
    assert requested({}) == requested({MAP: None}) == amounts(10, 128, 0)


def test_null_in_place_of_a_default_is_nothing():
    """As NormalizedResourceRequest of Storm 2.8.3 reads it."""
    assert requested({ON_HEAP: None, CPU: None}) == amounts(0, 0, 0)


def test_single_keys_of_the_topology_then_its_map_then_the_component():
    conf = {ON_HEAP: 200, OFF_HEAP: 20, CPU: 30}
    assert requested(conf) == amounts(30, 200, 20)
    conf |= {MAP: {"onheap.memory.mb": 300, CPU: 40, "gpu": 1}}  # older names count in the map too
    assert requested(conf) == amounts(40, 300, 20, gpu=1)
    assert requested(conf, own={"cpu.pcore.percent": 5.0, "gpu": 0.0}) == amounts(5, 300, 20, gpu=0)


def test_ackers_and_metrics_consumers_have_keys_of_their_own():
    conf = {
        CPU: 30,
        MAP: {"onheap.memory.mb": 300},
        "topology.acker.cpu.pcore.percent": 1,
        "topology.acker.resources.onheap.memory.mb": 2,
        "topology.metrics.consumer.resources.offheap.memory.mb": 3,
    }
    assert requested(conf, "__acker") == amounts(1, 2, 0)
    assert requested(conf, "__metrics_org.example.Sink#2") == amounts(30, 300, 3)
    assert requested(conf, "__eventlogger") == amounts(30, 300, 0)


@pytest.mark.parametrize("value", ["100", True, -1, 1e19, float("nan"), [1]])
@pytest.mark.parametrize("key", [CPU, "topology.acker.resources.onheap.memory.mb"])
def test_invalid_resource_amount_is_reported_as_misfit(key, value):
    requests, misfits = read_requests({key: value, MAP: {"gpu": value}})
    assert {steps for _, _, steps in misfits} == {(key,), (MAP, "gpu")}
    assert requests.of("__acker", {}) == amounts(10, 128, 0)
    _, (misfit,) = read_requests({MAP: [1]})
    assert misfit.steps == (MAP,)


def topology(**conf):
    components = (Component("a", "spout", 2), Component("b", "bolt", 1, resources={"onheap.memory.mb": 10.0}))
    return Topology("t", "t", 1, components, default_executor_runs(components), conf=conf)


def test_assumed_load_equals_requested_resources():
    of = topology(**{OFF_HEAP: 4, CPU: 50})
    load = assumed_load(of, 1e9, {CPU: 20, ON_HEAP: 1000})
    assert load.cpu_hz.tolist() == [0.5e9] * 3
    assert load.memory_mb.tolist() == [1004, 1004, 14]


@pytest.mark.parametrize("on_cluster", [True, False])
def test_request_larger_than_any_node_is_unplaced(on_cluster):
    large = {ON_HEAP: 100_000}
    nodes = (Supervisor("s", "h", (1, 2), 4e10, resources={"memory.mb": 8192.0}),)
    of = topology() if on_cluster else topology(**large)
    answer = make_scheduler("online").schedule(Problem(nodes, (of,), conf=large if on_cluster else {}))
    assert len(answer.unplaced) == 3
    assert "memory short by" in answer.status["t"]
