"""Ends of edges: every executor of an edge's source or target component, numbered edge by edge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import IndexArray
from stormwright.predict.flow.layout import FlowLayout


class EdgeEnds(NamedTuple):
    """Ends of all edges on one side.

    Parameters
    ----------
    edge, executor
        Edge and executor of every end, shape (K,).
    first
        First end of each edge, shape (D,).
    position
        Position of every executor within its component, shape (E,).
    """

    edge: IndexArray
    executor: IndexArray
    first: IndexArray
    position: IndexArray

    @classmethod
    def of(cls, component: IndexArray, layout: FlowLayout) -> EdgeEnds:
        """Return the ends at the given components of edges, shape (D,)."""
        size = layout.size[component]
        first = np.cumsum(size) - size
        edge = np.repeat(np.arange(len(size)), size)
        member = np.arange(len(edge)) - np.repeat(first - layout.first[component], size)
        position = np.empty(len(layout.members), dtype=np.int64)
        position[layout.members] = np.arange(len(position)) - np.repeat(layout.first[:-1], layout.size)
        return cls(edge, layout.members[member], first, position)

    def number(self, edge: IndexArray, executor: IndexArray) -> IndexArray:
        """Return the numbers of ends."""
        found: IndexArray = self.first[edge] + self.position[executor]
        return found
