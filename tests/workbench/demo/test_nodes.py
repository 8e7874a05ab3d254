"""What the nodes used between two moments."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stormwright.storm.local_cluster import LinkBytes, NodeCpu
from stormwright.workbench.demo.node_use import NodeMeter, NodeUse, fullest, with_worker_cores
from tests.controller.builders import record


class Cluster:
    """Two samples, 10 s apart."""

    plan = SimpleNamespace(nodes=[SimpleNamespace(name="node1", link="5mbit")])

    def __init__(self, cpu, link):
        self._cpu, self._link = iter(cpu), iter(link)

    def node_cpu(self):
        return next(self._cpu)

    def net_bytes(self):
        return next(self._link)


@pytest.fixture
def clock():
    ticks = iter([100.0, 110.0])
    return SimpleNamespace(monotonic=lambda: next(ticks))


def test_cores_and_links(clock):
    cpu = [{"node1": NodeCpu(5.0, 0.4, 100, 50)}, {"node1": NodeCpu(8.0, 0.4, 600, 175)}]
    link = [{"node1": LinkBytes(1_000_000, 0)}, {"node1": LinkBytes(6_000_000, 2_500_000)}]
    (used,) = NodeMeter(Cluster(cpu, link), clock).use().values()
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


def test_nodes_without_limits_and_links(clock):
    (used,) = NodeMeter(Cluster([{}, {}], [{}, {}]), clock).use().values()
    assert used == NodeUse(None, None, None, None, None, 5.0)
    assert (used.cpu_share, used.link_shares) == (None, (None, None))
    assert fullest({"node1": used}) is None


def test_worker_cpu_is_used_for_nodes_without_cgroups():
    records = [record("t", node, 0, port=port, start_ms=at) for node, port, at in CASES]
    records = [each | {"process_cpu_ns": 5e8} for each in records]
    none, held = NodeUse(None, None, None, None), NodeUse(0.3, 0.1, None, None, limit_cores=0.4)
    used = {"node1": none, "node2": none, "node3": held}
    hosts = {"node1": "a", "node2": "b", "node3": "c"}
    found = with_worker_cores(used, hosts, records, 1_000, 3_000)
    assert {node: use.cores for node, use in found.items()} == {"node1": 0.75, "node2": 0.0, "node3": 0.3}


#: Host, port and start of records of 0.5 CPU seconds: three of the first node are within 2 s.
CASES = [("a", 6700, 1_000), ("a", 6700, 2_000), ("a", 6701, 2_500), ("a", 6700, 3_000), ("c", 6700, 1_000)]


def test_fullest_resource_is_named_and_full_only_near_its_limit():
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
