"""Hosts that a topology would rather have, or rather not: wishes, which break ties and never leave anything out."""

from __future__ import annotations

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.model.topology_config import read_favoured_hosts


def favour(problem: Problem, topology: int) -> IndexArray | None:
    """What a topology thinks of every node: 0 favoured, 1 neither, 2 unfavoured, shape (N,); None if all are alike.

    A host in both lists is favoured, as in Storm 2.8.3 (``NodeSorter``).
    """
    (favoured, unfavoured), _ = read_favoured_hosts(problem.topologies[topology].conf)
    if not favoured and not unfavoured:
        return None
    hosts = [node.host for node in problem.supervisors]
    return np.array([0 if host in favoured else 2 if host in unfavoured else 1 for host in hosts], dtype=np.int64)


def most_favoured(nodes: BoolArray, rank: IndexArray | None) -> BoolArray:
    """Those of `nodes` that a topology likes best; all if it has no wishes."""
    if rank is None or not nodes.any():
        return nodes
    best: BoolArray = nodes & (rank == rank[nodes].min())
    return best
