"""Hosts that a topology prefers or avoids; they break ties and never leave anything out."""

from __future__ import annotations

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.model.topology_config import read_favoured_hosts


def favour(problem: Problem, topology: int) -> IndexArray | None:
    """Return a topology's preference of every node: 0 favoured, 1 neutral, 2 unfavoured, (N,); None if all are equal.

    A host in both lists is favoured, as in Storm 2.8.3 (``NodeSorter``).
    """
    (favoured, unfavoured), _ = read_favoured_hosts(problem.topologies[topology].conf)
    if not favoured and not unfavoured:
        return None
    hosts = [node.host for node in problem.supervisors]
    return np.array([0 if host in favoured else 2 if host in unfavoured else 1 for host in hosts], dtype=np.int64)


def most_favoured(nodes: BoolArray, rank: IndexArray | None) -> BoolArray:
    """Return the most preferred of `nodes`; all if there are no preferences."""
    if rank is None or not nodes.any():
        return nodes
    best: BoolArray = nodes & (rank == rank[nodes].min())
    return best
