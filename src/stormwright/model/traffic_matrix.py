"""The traffic matrix R under a placement: fixed pairs, and flows that follow the placement (`flows`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.model.arrays import ByContent, FloatArray, IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.flows import Flows, flow_pairs
from stormwright.model.problem import Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Scopes(NamedTuple):
    """Slot, node and rack of every executor, -1 for none; shape (E,) each."""

    slot: IntArray
    node: IntArray
    rack: IntArray


def scopes_of(problem: Problem, slot_of_executor: IntArray) -> Scopes:
    """Return slot, node and rack of every executor under an assignment.

    Parameters
    ----------
    problem
        Problem with the load.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    """
    node = np.append(problem.slot_node, UNPLACED)[slot_of_executor]
    return Scopes(slot_of_executor, node, np.append(problem.node_rack, UNPLACED)[node])


@dataclass(frozen=True, eq=False)
class Traffic(ByContent):
    """Directed traffic between executors (numbered over the whole problem).

    Parameters
    ----------
    source, target
        Sending and receiving executor of each pair, shape (P,).
    tps
        Tuples per second, shape (P,).
    """

    source: IntArray
    target: IntArray
    tps: FloatArray

    def symmetric(self, num_executors: int) -> csr_array:
        """Return R + Rᵀ as a CSR matrix, shape (E, E): the traffic of two executors in both directions."""
        from scipy.sparse import csr_array  # takes longer to import than all of the model

        one_way = csr_array((self.tps, (self.source, self.target)), shape=(num_executors, num_executors))
        return (one_way + one_way.T).tocsr()


def traffic_under(problem: Problem, slot_of_executor: IntArray) -> Traffic:
    """Return the traffic of `problem` with its executors in `slot_of_executor`.

    A flow goes to the executors of its target component in the nearest scope that has any: the source's own worker,
    then its node, then its rack, then all; ``local_or_shuffle`` distinguishes only the worker from all. What the
    executors there cannot take (`TopologyLoad.flow_limit_tps`) spills over to the next scope. Within the scope it is
    spread evenly. This is LoadAwareShuffleGrouping of Storm 2.8.3, averaged over time. Executors without a slot are
    distant from all others, so the flows of an unplaced problem spread evenly.
    """
    flows = Flows.of(problem.loads, [topology.executor_component for topology in problem.topologies])
    return _joined([pair_traffic(problem), Traffic(*flow_pairs(flows, scopes_of(problem, slot_of_executor)))])


def pair_traffic(problem: Problem) -> Traffic:
    """Return the traffic of fixed pairs, independent of the placement.

    Returns
    -------
    Traffic
        Of all topologies, executors numbered over the problem.
    """
    return _joined([_pairs_of(problem, index) for index in range(len(problem.topologies))])


def measured_traffic(problem: Problem) -> Traffic:
    """Return the traffic under the current assignment, which the published schedulers take as fixed."""
    return traffic_under(problem, problem.current_slot)


def _pairs_of(problem: Problem, index: int) -> Traffic:
    load, offset = problem.loads[index], problem.executor_offset[index]
    return Traffic(load.pair_source + offset, load.pair_target + offset, load.pair_tps)


def _joined(parts: Sequence[Traffic]) -> Traffic:
    if not parts:
        return Traffic(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
    return Traffic(
        np.concatenate([part.source for part in parts]).astype(np.int32),
        np.concatenate([part.target for part in parts]).astype(np.int32),
        np.concatenate([part.tps for part in parts]),
    )
