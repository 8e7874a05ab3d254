"""A small problem document, and the same with one thing changed."""

from __future__ import annotations

import copy
from typing import Any

SMALL: dict[str, Any] = {
    "schema": "stormwright-problem/1",
    "name": "small",
    "conf": {"isolation.scheduler.machines": {"wc": 2}},
    "supervisors": [
        {
            "id": "s0",
            "host": "h0",
            "rack": "r0",
            "ports": [6700, 6701],
            "scheduler_meta": {"tags": "a"},
            "resources": {"cpu.pcore.percent": 200.0, "memory.mb": 4096.0, "gpu.count": 1.0},
        },
        {
            "id": "s1",
            "host": "h1",
            "rack": "r1",
            "ports": [6700],
            "scheduler_meta": None,
            "resources": {"memory.mb": 2048.0},
            "cpu_hz": 5e9,
            "link_bps": 1e9,
        },
    ],
    "blacklisted_hosts": ["h9"],
    "greylisted_supervisors": ["s1"],
    "topologies": [
        {
            "id": "wc-1-1600000000",
            "name": "wc",
            "owner": "me",
            "launch_time": 7,
            "num_workers": 2,
            "conf": {"stormwright.max.executors.per.worker": 3, "topology.priority": 29},
            "components": [
                {"id": "spout", "type": "spout", "parallelism": 1, "inputs": [], "resources": {}},
                {
                    "id": "count",
                    "type": "bolt",
                    "parallelism": 3,
                    "inputs": [{"from": "spout", "stream": "default", "grouping": "fields", "fields": ["word"]}],
                    "resources": {"cpu.pcore.percent": 20.0},
                    "shared_memory": [{"name": "m", "off_heap_worker": 10.0}],
                    "tags": ["a", "b"],
                },
            ],
            "executor_runs": [[1, 1, 2, 2], [1, 5, 1, 1], [0, 6, 1, 1]],
        }
    ],
    "assignments": {
        "wc-1-1600000000": {"slots": [["s0", 6700], ["gone", 1]], "slot_of_executor": [0, 1, -1, 0]},
    },
    "load": {
        "wc-1-1600000000": {
            "cpu_hz": [1e9, 2e9, 0, 5],
            "memory_mb": [100, 100, 100, 50.5],
            "pairs": [[3, 0, 12.5], [3, 1, 0]],
            "flows": [[3, "count", "shuffle", 8.0]],
            "flow_limits": {"count": 40.0},
            "bytes_per_tuple": 16.0,
            "pair_bytes_per_s": [200.0, 0.0],
            "flow_bytes_per_s": [128.0],
            "forecast_cpu_hz": [2e9, 2e9, 1.0, 5.0],
            "live_heap_mb": [40.0, 41.5, 12.0, 60.0],
            "waited": [0.25, 0.0, 1.0, 0.5],
            "executing": [0.5, 0.0, 1.0, 0.0],
            "runs_per_s": [1000.0, 0.0, 2.5, 400.0],
            "pending_trees": [0.0, 0.0, 0.0, 12.5],
        }
    },
    "node_cpu_hz": {"s0": 4e9, "s1": 1e9},
    "node_quota_hz": {"s0": 5e9},
    "node_overhead_hz": {"s0": 3e8},
}

TOPOLOGY = "wc-1-1600000000"

#: Instead of measurements of nodes that are not there.
NO_NODES: dict[str, Any] = {"node_cpu_hz": {}, "node_quota_hz": {}, "node_overhead_hz": {}}


def small(*path: Any, value: Any = None, drop: bool = False) -> dict[str, Any]:
    """A copy of `SMALL` in which what is at `path` is `value`, or is not there."""
    document = copy.deepcopy(SMALL)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if drop:
        del place[path[-1]]
    elif path:
        place[path[-1]] = value
    return document
