"""What advice has Nimbus do, on the session's cluster."""

from __future__ import annotations

from collections import Counter

import pytest

from stormwright.advise.commands import RebalanceOrder, carry_out

pytestmark = pytest.mark.storm


def test_a_topology_gets_the_executors_and_workers_of_an_order(storm_cluster, eventually):
    storm_cluster.run_topology("stormwright.topologies.WordCount", ["name=resized", "count=3"], {"topology.workers": 2})

    def runs() -> Counter[str]:
        executors = gateway.topology(found["id"])["executors"]
        return Counter(executor["component"] for executor in executors if executor["uptime_s"])

    def all_run() -> bool:
        executors = gateway.topology(found["id"])["executors"]
        return bool(executors) and all(executor["uptime_s"] for executor in executors)

    def workers() -> int:
        executors = gateway.topology(found["id"])["executors"]
        return len({(executor["host"], executor["port"]) for executor in executors})

    with storm_cluster.gateway() as gateway:
        try:
            (found,) = [topology for topology in gateway.cluster()["topologies"] if topology["name"] == "resized"]
            eventually(lambda: all_run() and runs()["count"] == 3, "all executors run")
            before = runs()
            carry_out(RebalanceOrder("resized", {"count": 2}, 1), gateway, 0)
            eventually(lambda: runs() == Counter({**before, "count": 2}) and workers() == 1, "it has fewer")
            carry_out(RebalanceOrder("resized", {"count": 3}, 2), gateway, 0)
            eventually(lambda: runs() == before and workers() == 2, "it has them again")
        finally:
            gateway.kill("resized", 0)
