"""Load and capacity of nodes: CPU, and memory of their workers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from stormwright.model import Problem
from stormwright.pipeline.measurement.windows import kind_of
from stormwright.pipeline.settings import StreamSettings


@dataclass(frozen=True)
class NodeLoad:
    """Load of one node in a window.

    Parameters
    ----------
    cpu_cores
        Cores in use on average, by all of its processes where its control group counts them, else by its workers,
        including what no executor accounts for (GC, network).
    capacity_cores
        Cores of the node, or that its control group allows if they are fewer; None if unknown.
    heap_bytes
        Java heap in use by its workers, the maximum of each in the window.
    workers
        Number of reporting workers.
    """

    cpu_cores: float
    capacity_cores: float | None
    heap_bytes: int
    workers: int

    @property
    def headroom_cores(self) -> float | None:
        """Free cores; negative if the node is overloaded."""
        return None if self.capacity_cores is None else self.capacity_cores - self.cpu_cores

    def as_dict(self) -> dict[str, Any]:
        """Return the load as JSON."""
        return asdict(self) | {"headroom_cores": self.headroom_cores}


def node_loads(
    facts: pa.Table, cpu_cores: Mapping[str, float], capacity_cores: Mapping[str, float]
) -> dict[str, NodeLoad]:
    """Return the loads of nodes in a window, by supervisor.

    Parameters
    ----------
    facts
        Facts of one window.
    cpu_cores, capacity_cores
        Mean use and, if known, capacity by supervisor.
    """
    heaps: dict[str, dict[tuple[str, int], int]] = {}
    # A worker that takes over the port of another has its memory; the latest to start comes last.
    for worker in kind_of(facts, "worker").sort_by("first").to_pylist():
        own = heaps.setdefault(worker["supervisor"], {})
        own[worker["topology"], worker["second"]] = worker["heap_bytes"] or 0
    return {
        node: NodeLoad(
            cpu_cores=used,
            capacity_cores=capacity_cores.get(node),
            heap_bytes=sum(heaps.get(node, {}).values()),
            workers=len(heaps.get(node, {})),
        )
        for node, used in sorted(cpu_cores.items())
    }


def capacity_cores(problem: Problem, settings: StreamSettings) -> dict[str, float]:
    """Return the cores of every node of a problem, by supervisor; nodes without a limit are left out."""
    return {
        node.id: node.cpu_hz / settings.core_hz_at(node.id, problem.core_hz)
        for node in problem.supervisors
        if math.isfinite(node.cpu_hz)
    }
