"""NimbusRequests of Nimbus as its plug-in writes them: a whole cluster, with configurations as long as Storm's are."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

#: Format of a topology's identifier, from its number.
TOPOLOGY_ID = "topology-{0}-{0}-1700000000"

SLOTS_A_NODE, NODES_A_RACK, EXECUTORS_A_WORKER = 4, 25, 10

#: Parallelism of components and what each listens to, in parts of a topology of 100 executors.
_COMPONENTS = (("a-spout", 10, ()), ("b-parse", 20, (0,)), ("c-count", 30, (1,)), ("d-join", 20, (1, 2)),
               ("e-sink", 10, (3,)), ("__acker", 10, (0, 1, 2, 3, 4)))  # fmt: skip

#: A stored configuration holds Storm's own keys besides the submitter's: some seventy.
_CONF: dict[str, Any] = {
    **{f"topology.some.setting.number.{number}.of.the.defaults": number for number in range(55)},
    "topology.acker.executors": None,
    "topology.component.cpu.pcore.percent": 10.0,
    "topology.component.resources.offheap.memory.mb": 0.0,
    "topology.component.resources.onheap.memory.mb": 128.0,
    "topology.enable.message.timeouts": True,
    "topology.kryo.factory": "org.apache.storm.serialization.DefaultKryoFactory",
    "topology.priority": 29,
    "topology.ras.one.component.per.worker": False,
    "topology.ras.one.executor.per.worker": False,
    "topology.scheduler.strategy":
        "org.apache.storm.scheduler.resource.strategies.scheduling.DefaultResourceAwareStrategy",
    "topology.spout.wait.strategy": "org.apache.storm.policy.WaitStrategyProgressive",
    "topology.tuple.serializer": "org.apache.storm.serialization.types.ListDelegateSerializer",
    "topology.worker.max.heap.size.mb": 768.0,
    "topology.workers": 10,
}  # fmt: skip


class Cluster:
    """A cluster and its topologies, in which some wait for slots.

    Parameters
    ----------
    topologies, executors, nodes
        How many there are, executors in all.
    """

    def __init__(self, topologies: int, executors: int, nodes: int) -> None:
        rng = np.random.default_rng(1)
        self._supervisors = [_supervisor(number, rng.bytes(16).hex()) for number in range(nodes)]
        each = executors // topologies
        self._topologies = [_topology(number, each) for number in range(topologies)]
        slots = [[node["id"], port] for port in range(6700, 6700 + SLOTS_A_NODE) for node in self._supervisors]
        self._placed = {}
        for topology in self._topologies:
            workers = topology["num_workers"]
            own, slots = slots[:workers], slots[workers:]
            self._placed[topology["id"]] = {
                "slots": own, "slot_of_executor": [executor % workers for executor in range(each)]
            }  # fmt: skip

    def question(self, waiting: int) -> bytes:
        """What Nimbus asks while the last `waiting` topologies have no slots."""
        running = len(self._topologies) - waiting
        problem = {
            "schema": "stormwright-problem/1",
            "name": "nimbus",
            "conf": {"storm.scheduler": "stormwright.PlacementScheduler"},
            "blacklisted_hosts": [],
            "greylisted_supervisors": [],
        }
        assignments = list(self._placed.items())[:running]
        parts = [
            orjson.dumps({"schema": "stormwright-snapshot/1", "cluster": {"nimbus_host": "nimbus"}})[:-1],
            b',"problem":', orjson.dumps(problem)[:-1],
            b',"supervisors":[', _lines(map(orjson.dumps, self._supervisors)),
            b'],"topologies":[', _lines(map(orjson.dumps, self._topologies)),
            b'],"assignments":{', _lines(orjson.dumps({name: placed})[1:-1] for name, placed in assignments),
            b"}}}",
        ]  # fmt: skip
        return b"".join(parts)


def _lines(items: Any) -> bytes:
    return b"\n" + b",\n".join(items) + b"\n"


def _supervisor(number: int, name: str) -> dict[str, Any]:
    return {
        "id": f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}-10.0.{number // 250}.{number % 250}",
        "host": f"worker-{number}.storm.example.org",
        "rack": f"rack-{number // NODES_A_RACK}",
        "ports": list(range(6700, 6700 + SLOTS_A_NODE)),
        "scheduler_meta": None,
        "resources": {"cpu.pcore.percent": 1600.0, "memory.mb": 65536.0},
    }


def _topology(number: int, executors: int) -> dict[str, Any]:
    shares = np.array([share for _, share, _ in _COMPONENTS])
    parallelism = np.maximum(shares * executors // 100, 1)
    parallelism[0] += executors - parallelism.sum()
    starts = 1 + np.cumsum(parallelism) - parallelism
    components = [
        {
            "id": name,
            "type": "system" if name.startswith("__") else "bolt" if sources else "spout",
            "parallelism": int(parallelism[index]),
            "inputs": [
                {"from": _COMPONENTS[source][0], "stream": "default", "grouping": "fields" if index % 2 else "shuffle"}
                for source in sources
            ],
            "resources": {"cpu.pcore.percent": 10.0, "onheap.memory.mb": 128.0, "offheap.memory.mb": 0.0},
        }
        for index, (name, _, sources) in enumerate(_COMPONENTS)
    ]
    return {
        "id": TOPOLOGY_ID.format(number),
        "name": f"topology-{number}",
        "owner": "storm",
        "launch_time": 1_700_000_000 + number,
        "num_workers": max(1, executors // EXECUTORS_A_WORKER),
        "conf": {**_CONF, "topology.name": f"topology-{number}"},
        "components": components,
        "executor_runs": [[index, int(starts[index]), int(parallelism[index]), 1] for index in range(len(_COMPONENTS))],
    }
