"""What the nodes used between two moments."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stormwright.experiments.demo import nodes
from stormwright.experiments.demo.nodes import NodeMeter, NodeUse
from stormwright.storm.local import LinkBytes, NodeCpu


class Cluster:
    """Two samples, 10 s apart."""

    plan = SimpleNamespace(nodes=[SimpleNamespace(name="node1")])

    def __init__(self, cpu, link):
        self._cpu, self._link = iter(cpu), iter(link)

    def node_cpu(self):
        return next(self._cpu)

    def net_bytes(self):
        return next(self._link)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    ticks = iter([100.0, 110.0])
    monkeypatch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: next(ticks)))


def test_cores_and_links():
    cpu = [{"node1": NodeCpu(5.0, 0.4, 100, 50)}, {"node1": NodeCpu(8.0, 0.4, 600, 175)}]
    link = [{"node1": LinkBytes(1_000_000, 0)}, {"node1": LinkBytes(6_000_000, 2_500_000)}]
    (used,) = NodeMeter(Cluster(cpu, link)).use().values()
    assert used.as_dict() == pytest.approx(
        {"cores": 0.3, "throttled_share": 0.25, "sent_mbit_s": 4.0, "received_mbit_s": 2.0}
    )


def test_nodes_without_limits_and_links():
    assert NodeMeter(Cluster([{}, {}], [{}, {}])).use() == {"node1": NodeUse(None, None, None, None)}
