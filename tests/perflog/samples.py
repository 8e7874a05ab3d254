"""A record as the probe writes it, and ways to change it."""

from __future__ import annotations

import copy
import json
from typing import Any

from stormwright.perflog import LATENCY_EDGES_MS

RECORD: dict[str, Any] = {
    "version": 1,
    "worker": {
        "topology": "wc-1-1600000000", "supervisor": "a", "host": "10.0.0.2", "port": 6700, "pid": 123,
        "start_ms": 1_690_000_000_000, "last": 0,
    },
    "seq": 0,
    "start_ms": 1_690_000_001_000,
    "length_ns": 1_000_312_345,
    "written_ms": 1_690_000_002_001,
    "process_cpu_ns": 812_345_678,
    "heap_bytes": 123_456_789,
    "executors": [
        {
            "component": "split", "type": "bolt", "first_task": 5, "last_task": 6, "cpu_ns": 123, "received": 10,
            "emitted": 20, "trees": 0, "acked": 10, "failed": 0, "execute_ns": 456, "queue": 0.01,
            "pending": 0, "waited_ns": 789, "inputs": [[0, 10, 456]],
        }
    ],
    "streams": [["spout", "default", "split", "shuffle"]],
    "pairs": [[5, 9, 0, 1893, 30288]],
    "complete_latency": {"edges_ms": list(LATENCY_EDGES_MS), "counts": [0, 3, 1]},
    "threads": {"messaging_ns": 3_456_789, "gc_ns": 123_456, "compiler_ns": 0, "other_ns": 54_321},
    "gc": {"collections": 2, "ms": 13},
    "node": {
        "received_bytes": 1_234_567, "sent_bytes": 765_432, "millicores": 400, "throttled_ns": 98_765_432,
        "core_hz": 2_445_420_000, "quota_period_us": 100_000, "processors": 2,
    },
}  # fmt: skip


def edited(record: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with one part set, or left out where the value is ``...``."""
    record = copy.deepcopy(record)
    part: Any = record
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in parents:
        part = part[step]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return record


def encoded(record: dict[str, Any]) -> bytes:
    """One line, by another JSON writer than the package's."""
    return json.dumps(record).encode()
