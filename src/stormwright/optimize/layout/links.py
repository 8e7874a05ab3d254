"""Traffic of executors in the form for a search: fixed links, and flows to sinks.

Traffic comes in two kinds. Traffic to a fixed executor is a *link* of the two, and its cost depends on their
distance. Traffic to any executor of a component that is near enough is a *flow*: where it ends depends on the
whole placement, so it has a sender and a *sink* only (`stormwright.optimize.kernel.flows`).

Links form a symmetric sparse matrix in rows (CSR): `first` is where rows begin, `executor` the column, `tps` and
`pull` two matrices of the same structure. *Pull* is the attraction of executors before anything is placed: links, and
flows as if they were spread evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stormwright.model import UNPLACED, Problem, Traffic, traffic_under
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.flows import Flows
from stormwright.model.traffic_matrix import pair_traffic
from stormwright.optimize.kernel.records import FLOW, Records

#: Significant bits of a double: sums of rates stay within them, so that they are exact.
_BITS = 52


class Sink(NamedTuple):
    """A component that flows of one grouping go to.

    Parameters
    ----------
    topology
        Index of the topology.
    members
        Executors of the component, increasing.
    local
        Whether the grouping knows only the worker and all.
    limit_tps
        Rate that one executor takes before the rest goes on.
    """

    topology: int
    members: IndexArray
    local: bool
    limit_tps: float


@dataclass(frozen=True)
class Links:
    """Traffic of executors in both directions, by executor, and their flows.

    Rates are rounded to multiples of a power of two, by at most P × 2⁻⁵¹ of the largest one for P rates, so that every
    sum of them is exact: the order of pairs has no influence, and sums that are updated for long do not drift.

    Parameters
    ----------
    first
        First link of each executor in the next three, shape (E + 1,).
    executor
        The other executor, increasing.
    tps
        Traffic of the two whatever the placement, in tuples/s.
    pull
        The same, flows included as if they were spread evenly.
    first_flow, flows
        First flow of each executor, shape (E + 1,), in the second; of `FLOW`, each to another sink.
    sinks
        Sorted by topology, those of one component after each other.
    """

    first: IndexArray
    executor: IndexArray
    tps: FloatArray
    pull: FloatArray
    first_flow: IndexArray
    flows: Records
    sinks: tuple[Sink, ...]

    @classmethod
    def fixed(cls, problem: Problem, traffic: Traffic) -> Links:
        """Return the links of `traffic`, wherever executors go."""
        unit = _unit(traffic.tps)
        both = _both_ways(problem, traffic, np.round(traffic.tps / unit) * unit)
        no_flows = np.zeros(problem.num_executors + 1, np.int64), np.empty(0, FLOW)
        return cls(both.indptr, both.indices, both.data, both.data.copy(), *no_flows, ())

    @classmethod
    def following(cls, problem: Problem) -> Links:
        """Return the links of fixed pairs, and flows that follow the placement.

        Flows of one executor to one sink are added up. Those to a component without executors, or of no rate, are left
        out.
        """
        nowhere = np.full(problem.num_executors, UNPLACED, np.int32)
        pairs, spread = pair_traffic(problem), traffic_under(problem, nowhere)
        unit = _unit(np.concatenate([spread.tps, *(load.flow_tps for load in problem.loads)]))
        source, target = (np.concatenate([getattr(t, end) for t in (pairs, spread)]) for end in ("source", "target"))
        # Real parts are fixed, imaginary ones are pull: both get the same places in one matrix.
        rates = np.round(np.concatenate([pairs.tps, 1j * spread.tps]) / unit) * unit
        both = _both_ways(problem, Traffic(source, target, np.abs(rates)), rates)
        first_flow, flows, sinks = _flows(problem, unit)
        return cls(both.indptr, both.indices, both.data.real.copy(), both.data.imag.copy(), first_flow, flows, sinks)

    def pull_of_executors(self) -> FloatArray:
        """Return the sum of `pull` over the links of every executor, shape (E,)."""
        totals = np.zeros(len(self.first) - 1)
        some = np.flatnonzero(self.first[1:] > self.first[:-1])
        if len(some):
            totals[some] = np.add.reduceat(self.pull, self.first[some])
        return totals


def _unit(tps: FloatArray) -> float:
    """Return the power of two that all rates are rounded to multiples of.

    With 2ᵏ no less than 2 P times the largest of P rates, no sum of them, both directions included, is above 2ᵏ. In
    units of 2ᵏ⁻⁵² all of these are whole numbers up to 2⁵², so that a double holds every one exactly.
    """
    most = float(np.max(tps, initial=0.0)) * max(2 * len(tps), 1)
    return float(2.0 ** (np.ceil(np.log2(most)) - _BITS)) if most > 0 else 1.0


def _both_ways(problem: Problem, traffic: Traffic, rates: np.ndarray) -> csr_array:
    """Return rates of pairs as a symmetric matrix with sorted rows, shape (E, E), without its diagonal and zeros."""
    real = (traffic.source != traffic.target) & (traffic.tps > 0)
    shape = (problem.num_executors, problem.num_executors)
    one_way = csr_array((rates[real], (traffic.source[real], traffic.target[real])), shape=shape)
    both: csr_array = (one_way + one_way.T).tocsr()
    both.sort_indices()
    return both


def _flows(problem: Problem, unit: float) -> tuple[IndexArray, Records, tuple[Sink, ...]]:
    """Return the flows by executor, and their sinks."""
    every = Flows.of(problem.loads, [topology.executor_component for topology in problem.topologies])
    count = problem.num_executors
    by_component = np.argsort(every.executor_component, kind="stable")
    of_component = every.executor_component[by_component]
    begin, end = (np.searchsorted(of_component, every.component, side=side) for side in ("left", "right"))
    flow = np.flatnonzero((every.tps > 0) & (end > begin))
    _, at, sink = np.unique((every.component * 2 + every.local)[flow], return_index=True, return_inverse=True)
    sinks = []
    for one in flow[at].tolist():
        members = by_component[begin[one] : end[one]]
        topology = int(problem.executor_topology[members[0]])
        sinks.append(Sink(topology, members, bool(every.local[one]), float(every.limit_tps[one])))
    keys, together = np.unique(sink * max(count, 1) + every.source[flow], return_inverse=True)
    tps = np.bincount(together, np.round(every.tps[flow] / unit) * unit, len(keys))
    number, executor = np.divmod(keys[tps > 0], max(count, 1))
    order = np.argsort(executor, kind="stable")
    flows = np.empty(len(order), FLOW)
    flows["sink"], flows["tps"] = number[order], tps[tps > 0][order]
    return np.searchsorted(executor[order], np.arange(count + 1)), flows, tuple(sinks)
