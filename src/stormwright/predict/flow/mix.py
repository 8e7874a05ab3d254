"""What tuples take by the component that they come from, where that was told apart; and by the mix that was measured.

An executor's work per tuple, as measured, is that of a tuple in the mean. Under another placement it may get more of
those that take long: then it is by what of each comes, in parts of what came while it was measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.predict.sums import sums

if TYPE_CHECKING:
    from stormwright.predict.flow.graph import GraphEdges


class Mix(NamedTuple):
    """How much more than in the mean tuples take.

    Parameters
    ----------
    edge
        Factor of a tuple that comes along each edge, shape (D,).
    measured
        Mean factor of the tuples that each executor got while it was measured, shape (E,).
    mixed
        Executors for which it matters along which edge a tuple comes, shape (E,).
    """

    edge: FloatArray
    measured: FloatArray
    mixed: BoolArray

    def at(self, executors: IndexArray, edges: IndexArray) -> Mix:
        """Of some executors and edges."""
        return Mix(self.edge[edges], self.measured[executors], self.mixed[executors])

    def worked(self, handled: FloatArray, came: FloatArray, graph: GraphEdges) -> FloatArray:
        """Tuples that every executor handles, each counting as many of the mean as it takes, shape (E,).

        Parameters
        ----------
        handled
            Tuples that it handles, shape (E,).
        came
            Tuples that come along edges, by the end at which they come, shape (K,).
        graph
            Has the edges.
        """
        by_edge = sums(graph.targets.executor, self.edge[graph.targets.edge] * came, handled.shape[-1])
        return np.where(self.mixed, by_edge / self.measured, handled)
