"""Small problems and records for the controller's tests."""

from __future__ import annotations

from typing import Any

from stormwright.controller.requests import NoPlan
from stormwright.model import (
    Component,
    Grouping,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.perflog.schema import sample_record
from stormwright.plans.plan import Plan


def topology(name: str, spouts: int = 1, bolts: int = 3, workers: int = 2) -> Topology:
    components = (
        Component("a-spout", "spout", spouts),
        Component("b-bolt", "bolt", bolts, (Grouping("a-spout", kind="fields", fields=("word",)),)),
    )
    return Topology(f"{name}-1-0", name, workers, components, default_executor_runs(components))


def problem(topologies: list[Topology], nodes: int = 3, slots: int = 2, **more: Any) -> Problem:
    supervisors = tuple(
        Supervisor(f"n{i}", f"host{i}", tuple(range(6700, 6700 + slots)), cpu_hz=6e9) for i in range(nodes)
    )
    return Problem(supervisors, tuple(topologies), **more)


def place(slots: list[tuple[str, int]], slot_of_executor: list[int]) -> TopologyAssignment:
    return TopologyAssignment(tuple(WorkerSlot(*slot) for slot in slots), tuple(slot_of_executor))


def on(*nodes: str) -> TopologyAssignment:
    """Four executors, evenly in a worker each at port 6700 of `nodes`."""
    return place([(node, 6700) for node in nodes], [executor * len(nodes) // 4 for executor in range(4)])


def record(
    topology_id: str,
    supervisor: str,
    seq: int,
    *,
    port: int = 6700,
    tasks: tuple[int, int] = (1, 1),
    kind: str = "spout",
    trees: int = 0,
    acked: int = 0,
    failed: int = 0,
    queue: float = 0.0,
    start_ms: int = 0,
    length_ms: float = 1000.0,
    pairs: list[list[int]] | None = None,
    latency: list[int] | None = None,
    last: int = 0,
) -> dict[str, Any]:
    worker = {
        "topology": topology_id, "supervisor": supervisor, "host": supervisor, "port": port, "pid": 1, "start_ms": 0,
        "last": last,
    }  # fmt: skip
    executor = {
        "component": "a-spout", "type": kind, "first_task": tasks[0], "last_task": tasks[1], "cpu_ns": 0,
        "received": 0, "emitted": 0, "trees": trees, "acked": acked, "failed": failed, "execute_ns": 0, "queue": queue,
    }  # fmt: skip
    return sample_record(optional=False) | {
        "worker": worker,
        "seq": seq,
        "start_ms": start_ms,
        "length_ns": int(length_ms * 1e6),
        "written_ms": start_ms,
        "process_cpu_ns": 0,
        "executors": [executor],
        "streams": [["a-spout", "__ack_init", "__acker", "fields"]],
        "pairs": pairs or [],
        "complete_latency": {"edges_ms": [1.0, 2.0, 4.0, 8.0], "counts": latency or []},
    }


def searched(decision: Plan | NoPlan) -> bool:
    """Whether a scheduler was run."""
    return isinstance(decision, Plan) or decision.searched
