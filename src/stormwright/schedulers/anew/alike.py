"""Which nodes and racks may stand in for each other: nothing that a placement costs or may do tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import IndexArray
from stormwright.schedulers.placing.favour import favour


def node_kinds(problem: Problem) -> IndexArray:
    """A number for every node, the same for nodes that differ in nothing but their rack and their name, shape (N,).

    What counts is what limits look at, what predictions do, and what topologies wish: capacity, generic resources,
    slots, link, tags and all else in ``supervisor.scheduler.meta``, whether it may take anything new, and who favours
    its host. Nodes that share a host are alike among themselves only, as a host may be set apart.
    """
    wishes = [rank for index in range(len(problem.topologies)) if (rank := favour(problem, index)) is not None]
    wished = np.array(wishes, dtype=np.int64).reshape(len(wishes), len(problem.supervisors))
    numbers: dict[Hashable, int] = {}
    kinds = []
    for index, node in enumerate(problem.supervisors):
        kind = (
            node.cpu_hz,
            frozenset(node.resources.items()),
            frozenset((node.scheduler_meta or {}).items()),
            node.link_bps,
            len(node.ports),
            node.host in problem.blacklisted_hosts,
            bool(problem.node_usable[index]),
            "" if node.host in problem.cluster.lone_hosts else node.host,
            wished[:, index].tobytes(),
        )
        kinds.append(numbers.setdefault(kind, len(numbers)))
    return np.array(kinds, dtype=np.int64)


def rack_kinds(problem: Problem, kinds: IndexArray) -> IndexArray:
    """A number for every rack, the same for racks with equally many nodes of each kind, shape (number of racks,)."""
    racks = int(problem.node_rack.max(initial=-1)) + 1
    nodes: list[Counter[int]] = [Counter() for _ in range(racks)]
    for rack, kind in zip(problem.node_rack.tolist(), kinds.tolist(), strict=True):
        nodes[rack][kind] += 1
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(frozenset(of.items()), len(numbers)) for of in nodes], dtype=np.int64)
