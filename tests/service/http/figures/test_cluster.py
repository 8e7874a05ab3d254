"""Metrics of the cluster: what they count, how they are labelled, and that there are never too many."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client.core import Metric

from stormwright.model import LoadProfile, TopologyLoad
from stormwright.model.load import assumed_load
from stormwright.service.http import cluster_metrics
from stormwright.service.http.cluster_metrics import DETAILS, of_cluster
from tests.controller.builders import on, place, problem, topology

#: What Storm's own reporters tell metrics apart by; a supervisor's id is what our API calls a node.
STORMS_LABELS = {"topology", "host", "port", "component", "task", "stream"}


def samples(metrics: Iterable[Metric]) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(each.name, tuple(each.labels.values())): each.value for metric in metrics for each in metric.samples}


@pytest.fixture
def busy():
    """Two topologies of four executors: one on two nodes with a measured load, one of which half has no slot."""
    one, other = topology("one"), topology("other")
    current = {one.id: on("n0", "n1"), other.id: place([("n1", 6701)], [0, 0, -1, -1])}
    plain = problem([one, other], current=current)
    load: TopologyLoad = assumed_load(one, plain.core_hz)
    return plain.with_load(LoadProfile({one.id: load}))


def test_topologies_and_nodes_are_counted(busy):
    found = samples(of_cluster(busy, {}))
    one, other = (each.id for each in busy.topologies)

    def of(name: str, *labels: str) -> float | None:
        return found.get((f"stormwright_{name}", labels))

    assert [of("topology_executors", each) for each in (one, other)] == [4, 4]
    assert [of("topology_unplaced_executors", each) for each in (one, other)] == [0, 2]
    assert [of("topology_workers", each) for each in (one, other)] == [2, 1]
    nodes = [("n0", "host0"), ("n1", "host1"), ("n2", "host2")]
    assert [of("node_slots", *each) for each in nodes] == [2, 2, 2]
    assert [of("node_workers", *each) for each in nodes] == [1, 2, 0]
    assert [of("node_executors", *each) for each in nodes] == [2, 4, 0]
    # Storm's default request is 10 of the 100 points of a core, for each of four executors.
    assert of("topology_cpu_cores", one) == pytest.approx(0.4)
    assert of("topology_cpu_cores", other) is None, "it was not measured"


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("component", {("one-1-0", "a-spout"): 1, ("one-1-0", "b-bolt"): 3}),
        ("worker", {("one-1-0", "host0", "6700"): 2, ("one-1-0", "host1", "6700"): 2}),
        (
            "executor",
            {
                ("one-1-0", "a-spout", "1", "host0", "6700"): 1,
                ("one-1-0", "b-bolt", "2", "host0", "6700"): 1,
                ("one-1-0", "b-bolt", "3", "host1", "6700"): 1,
                ("one-1-0", "b-bolt", "4", "host1", "6700"): 1,
            },
        ),
    ],
)
def test_detailed_metrics_use_label_names_of_storm(busy, detail, expected):
    metrics = [each for each in of_cluster(busy, {}, detail) if each.name.startswith(f"stormwright_{detail}_")]
    assert {name for metric in metrics for each in metric.samples for name in each.labels} <= STORMS_LABELS
    found = samples(metrics)
    counted = {key[1]: value for key, value in found.items() if key[0].endswith("_executors")}
    assert {labels: count for labels, count in counted.items() if labels[0] == "one-1-0"} == expected
    cores = {key[1]: value for key, value in found.items() if key[0].endswith("_cpu_cores")}
    assert cores == {key: pytest.approx(0.1 * count) for key, count in expected.items()}


@pytest.mark.parametrize("detail", DETAILS)
def test_number_of_metric_samples_is_limited(monkeypatch, detail):
    monkeypatch.setattr(cluster_metrics, "MAX_SAMPLES", 5)
    large = problem([topology(f"t{i}", bolts=50) for i in range(8)], slots=8)
    by_default = len(samples(of_cluster(large, {})))
    assert by_default <= 6 * len(large.topologies) + 3 * len(large.supervisors), "none is of an executor"
    found = samples(of_cluster(large, {}, detail))
    assert len(found) <= by_default + 2 * 5 + 1
    if detail in ("component", "executor"):
        assert found["stormwright_detail_left_out", (detail,)] == (16 if detail == "component" else 408)
