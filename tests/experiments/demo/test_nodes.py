"""What the nodes used between two moments."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stormwright.experiments.demo import nodes
from stormwright.experiments.demo.nodes import NodeMeter, NodeUse, fullest
from stormwright.storm.local import LinkBytes, NodeCpu


class Cluster:
    """Two samples, 10 s apart."""

    plan = SimpleNamespace(nodes=[SimpleNamespace(name="node1")], link="5mbit")

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
        {
            "cores": 0.3,
            "throttled_share": 0.25,
            "sent_mbit_s": 4.0,
            "received_mbit_s": 2.0,
            "limit_cores": 0.4,
            "link_mbit_s": 5.0,
        }
    )
    assert used.cpu_share == pytest.approx(0.75)
    assert used.link_shares == pytest.approx((0.8, 0.4))


def test_nodes_without_limits_and_links():
    (used,) = NodeMeter(Cluster([{}, {}], [{}, {}])).use().values()
    assert used == NodeUse(None, None, None, None, None, 5.0)
    assert (used.cpu_share, used.link_shares) == (None, (None, None))
    assert fullest({"node1": used}) is None


def test_what_is_fullest_is_named_and_full_only_near_its_limit():
    used = {
        "a": NodeUse(0.38, 0.5, 20.0, 1.0, limit_cores=0.4, link_mbit_s=25.0),
        "b": NodeUse(0.2, 0.0, 1.0, 24.5, limit_cores=0.4, link_mbit_s=25.0),
    }
    found = fullest(used)
    assert str(found) == "the link into node b, 98%"
    assert found.is_full
    less = fullest({"a": NodeUse(0.2, 0.0, 5.0, 5.0, limit_cores=0.4, link_mbit_s=25.0)})
    assert str(less) == "the CPU of node a, 50%: nothing was full"
    assert not less.is_full
