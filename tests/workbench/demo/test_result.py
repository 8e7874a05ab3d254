"""When a demonstration has gained something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.workbench.demo.results import demo_result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "gained"),
    [
        ({}, False),
        ({"acked_tps": 1.2}, True),
        ({"mean_latency_ms": 0.5}, True),
        ({"nodes": 0.5}, True),
        ({"inter_node_per_acked": 0.5}, True),
        ({"acked_tps": 0.9, "mean_latency_ms": 0.5, "nodes": 0.5, "inter_node_per_acked": 0.5}, False),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_improvement_requires_gain_without_throughput_loss(changes, gained):
    """Figures after by figures before; less of anything is no gain where throughput fell."""
    result = demo_result()
    known = {"acked_tps": 1000.0, "mean_latency_ms": 20.0, "nodes": 2, "inter_node_per_acked": 4.0}
    before = replace(result.topologies[0].before, **known)
    after = replace(before, **{name: known[name] * factor for name, factor in changes.items()})
    assert replace(result, topologies=[replace(result.topologies[0], before=before, after=after)]).improved is gained


@pytest.mark.long
def test_difference_counts_as_improvement_only_after_moves():
    result = demo_result()
    topology = result.topologies[0]
    better = replace(topology, after=replace(topology.before, acked_tps=2 * topology.before.acked_tps))
    assert replace(result, topologies=[better]).improved
    assert not replace(result, topologies=[better], moves=[]).improved
