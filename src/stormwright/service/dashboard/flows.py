"""Traffic between components of a topology, and between nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray
from stormwright.model.traffic_matrix import measured_traffic

#: Rows and columns of a picture of traffic at most; of more nodes there are racks, or those with most traffic.
MAX_PLACES = 32


@dataclass(frozen=True)
class Flow:
    """Tuples/s from a component (by index) to another."""

    source: int
    target: int
    tps: float


@dataclass(frozen=True, eq=False)
class Heat:
    """Traffic from place to place, in tuples/s.

    Parameters
    ----------
    kind
        What a place is: ``node`` or ``rack``.
    names
        Of the places; the last stands for all others where `others` is not 0.
    others
        Places that the last one stands for.
    tps
        From row to column, shape (P, P).
    total_tps
        Between nodes, all of it.
    """

    kind: str
    names: tuple[str, ...]
    others: int
    tps: FloatArray
    total_tps: float

    @classmethod
    def of(cls, problem: Problem) -> Heat:
        """Return the traffic by node if these are few, else by rack, else between the busiest nodes."""
        traffic = measured_traffic(problem)
        slots = problem.current_slot
        there = (slots[traffic.source] != UNPLACED) & (slots[traffic.target] != UNPLACED)
        source, target = (problem.slot_node[slots[each[there]]] for each in (traffic.source, traffic.target))
        tps, count = traffic.tps[there], len(problem.supervisors)
        total = float(tps[source != target].sum())
        nodes = problem.cluster.node_names
        if count <= MAX_PLACES:
            return cls("node", nodes, 0, _matrix(source, target, tps, count), total)
        racks = tuple(dict.fromkeys(supervisor.rack for supervisor in problem.supervisors))
        if 1 < len(racks) <= MAX_PLACES:
            both = problem.node_rack[source], problem.node_rack[target]
            return cls("rack", racks, 0, _matrix(*both, tps, len(racks)), total)
        crossing = tps * (source != target)
        most = np.bincount(source, crossing, count) + np.bincount(target, crossing, count)
        shown = np.argsort(-most, kind="stable")[: MAX_PLACES - 1]
        place = np.full(count, MAX_PLACES - 1)
        place[shown] = np.arange(MAX_PLACES - 1)
        others = count - (MAX_PLACES - 1)
        names = (*(nodes[node] for node in shown), f"{others:,} others")
        return cls("node", names, others, _matrix(place[source], place[target], tps, MAX_PLACES), total)


def component_flows(problem: Problem, topology: int) -> list[Flow]:
    """Return the measured traffic between components of a topology (by index), largest first."""
    load, component = problem.loads[topology], problem.topologies[topology].executor_component
    count = len(problem.topologies[topology].components)
    matrix = np.zeros((count, count))
    np.add.at(matrix, (component[load.pair_source], component[load.pair_target]), load.pair_tps)
    np.add.at(matrix, (component[load.flow_source], load.flow_component), load.flow_tps)
    sources, targets = np.nonzero(matrix)
    found = [Flow(int(s), int(t), float(matrix[s, t])) for s, t in zip(sources, targets, strict=True)]
    return sorted(found, key=lambda flow: (-flow.tps, flow.source, flow.target))


def _matrix(source: FloatArray, target: FloatArray, tps: FloatArray, count: int) -> FloatArray:
    flat = np.bincount(source.astype(np.int64) * count + target, tps, count * count)
    return flat.reshape(count, count).astype(float)
