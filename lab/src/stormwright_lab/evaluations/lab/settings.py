"""Size of the lab's cluster, real or virtual."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stormwright.storm.local_cluster.plan import of_nodes
from stormwright_lab.evaluations.definitions import BlockKind

#: Nodes of each kind of cell. One slot of each node is spare, so that nothing waits for a worker that ends.
NODES: Mapping[BlockKind, int] = {"steady": 5, "kills": 4, "moves": 3}
SLOTS = 6

#: Cores that Nimbus, ZooKeeper and this process need to be no limit themselves; and what a node has at most, and least.
_RESERVED_CORES, _MAX_CORES, _MIN_CORES = 0.5, 0.4, 0.1

#: Part of the machine for all nodes together while workers start, and their links; nothing is measured then.
_WIDE, WIDE_LINK = 0.93, "200mbit"

#: The probe's; short beside the stretches in which figures are measured.
PROBE_MS = 500


def cores_of(kind: BlockKind) -> float:
    """Return the CPU limit of each node during a measurement; only a service needs cores for Spark."""
    spare = len(os.sched_getaffinity(0)) - _RESERVED_CORES
    return max(min(int(spare / NODES[kind] * 20 + 1e-9) / 20, _MAX_CORES), _MIN_CORES)


def wide_cores(kind: BlockKind) -> float:
    """Return the cores of each node while workers start."""
    return max(round(len(os.sched_getaffinity(0)) * _WIDE / NODES[kind], 2), cores_of(kind))


def cores_of_used_nodes(kind: BlockKind, cores: float | tuple[float, ...] | None, used: int) -> tuple[float, ...]:
    """Return the cores that each node has if it is in use: its limit, or its share of the machine if that is less.

    Parameters
    ----------
    kind
        Kind of the cells.
    cores
        Limit of all nodes, or of each; None for that of the kind.
    used
        Number of nodes in use.
    """
    share = len(os.sched_getaffinity(0)) * _WIDE / max(used, 1)
    limits = of_nodes(cores_of(kind) if cores is None else cores, NODES[kind])
    return tuple(min(limit, share) for limit in limits)
