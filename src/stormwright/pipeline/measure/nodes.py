"""What nodes have left: CPU in use and capacity, memory of their workers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from stormwright.model import Problem
from stormwright.pipeline.panes.windows import kind_of
from stormwright.pipeline.settings import StreamSettings


@dataclass(frozen=True)
class NodeLoad:
    """One node in a window.

    Parameters
    ----------
    cpu_cores
        Cores that its workers use on average, including what no executor accounts for (GC, network).
    capacity_cores
        Cores that it has; None where nobody has told.
    heap_bytes
        Java heap that its workers have in use, of each the most in the window.
    workers
        How many were heard of.
    """

    cpu_cores: float
    capacity_cores: float | None
    heap_bytes: int
    workers: int

    @property
    def headroom_cores(self) -> float | None:
        """Cores that are left; below 0 where the node has more to do than it can."""
        return None if self.capacity_cores is None else self.capacity_cores - self.cpu_cores

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"headroom_cores": self.headroom_cores}


def node_loads(
    facts: pa.Table, cpu_cores: Mapping[str, float], capacity_cores: Mapping[str, float]
) -> dict[str, NodeLoad]:
    """The nodes of a window, by supervisor.

    Parameters
    ----------
    facts
        Of one window.
    cpu_cores, capacity_cores
        By supervisor what is in use on average and, where known, what there is.
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
    """Cores of every node of a problem, by supervisor; a node without a limit is left out."""
    return {
        node.id: node.cpu_hz / settings.core_hz_at(node.id, problem.core_hz)
        for node in problem.supervisors
        if math.isfinite(node.cpu_hz)
    }
