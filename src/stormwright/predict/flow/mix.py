"""Relative work of tuples by source component, and the measured mix of sources.

The measured work per tuple of an executor is a mean. Under another placement it may get more of the expensive tuples:
then its work is scaled by the mix it gets, relative to the measured one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.predict.sums import sums

if TYPE_CHECKING:
    from stormwright.predict.flow.graph import GraphEdges


class Mix(NamedTuple):
    """Work of tuples relative to the mean.

    Parameters
    ----------
    edge
        Factor of a tuple that comes along each edge, shape (D,).
    measured
        Mean factor of the tuples that each executor got while it was measured, shape (E,).
    mixed
        Executors whose work depends on the source of tuples, shape (E,).
    """

    edge: FloatArray
    measured: FloatArray
    mixed: BoolArray

    def at(self, executors: IndexArray, edges: IndexArray) -> Mix:
        """Return the mix of some executors and edges."""
        return Mix(self.edge[edges], self.measured[executors], self.mixed[executors])

    def worked(self, handled: FloatArray, came: FloatArray, graph: GraphEdges) -> FloatArray:
        """Return the tuples that every executor handles, weighted by their relative work, shape (E,).

        Parameters
        ----------
        handled
            Tuples that it handles, shape (E,).
        came
            Tuples that come along edges, by their target end, shape (K,).
        graph
            Graph with the edges.
        """
        by_edge = sums(graph.targets.executor, self.edge[graph.targets.edge] * came, handled.shape[-1])
        return np.where(self.mixed, by_edge / self.measured, handled)
