"""On how many nodes a topology should be, and with how many of its workers on each: what beta and delta say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.optimize.construction.greedy import Bins, Items


@dataclass(frozen=True)
class NodeTargets:
    """What topologies, by index, should use; one that is missing may use what it likes.

    Parameters
    ----------
    most_nodes, least_nodes
        Nodes at most, and at least.
    widest
        Nodes that more would be of no use: there are no more, or no more workers.
    on_node
        Workers on one node at most.
    """

    most_nodes: dict[int, int] = field(default_factory=dict)
    least_nodes: dict[int, int] = field(default_factory=dict)
    widest: dict[int, int] = field(default_factory=dict)
    on_node: dict[int, int] = field(default_factory=dict)


def own_wishes(workers: Items, nodes: Bins, beta: Sequence[float], delta: Sequence[float]) -> NodeTargets:
    """Beta bounds the nodes of a topology from above; 1 is no bound, and nor is a delta of 1.

    Parameters
    ----------
    workers
        Of all topologies, whose indices are their groups.
    nodes
        Those that may take none have room for no items.
    beta
        Of every topology. 0: as few nodes as have its slots, CPU and memory; 1: as many as pay.
    delta
        Of every topology. 0: equally many slots on each node; 1: as many as nodes have.
    """
    wishes = NodeTargets()
    highest = int(np.max(nodes.items, initial=0))
    for topology, count in Counter(workers.group.tolist()).items():
        if delta[topology] < 1:
            level = next((m for m in range(highest) if np.minimum(nodes.items, m).sum() >= count), highest)
            wishes.on_node[topology] = level + math.ceil(delta[topology] * (highest - level))
        if beta[topology] < 1:
            slots = np.minimum(nodes.items, wishes.on_node.get(topology, highest))
            widest = max(1, min(int(np.count_nonzero(slots)), count))
            fewest = min(_fewest(workers, nodes, slots, topology), widest)
            wishes.widest[topology] = widest
            wishes.most_nodes[topology] = fewest + math.ceil(beta[topology] * (widest - fewest))
    return wishes


def authors_wishes(workers: Items, nodes: Bins, beta: Sequence[float], delta: Sequence[float]) -> NodeTargets:
    """Beta bounds the nodes of a topology from below, delta its workers on a node from above, by the authors' formulas.

    With W workers and n = min(N, W) nodes, at least ⌈W/n⌉ + ⌈beta (n - ⌈W/n⌉)⌉ nodes are used, which is u, and on a
    node at most ⌈W/u⌉ + ⌈delta (W - u + 1 - ⌈W/u⌉)⌉ workers are. That ⌈W/n⌉ are slots of a node, which the formula
    takes for nodes, is theirs; where it gives more nodes than there are, all are used.

    Parameters
    ----------
    workers, nodes, beta, delta
        As for `own_wishes`.
    """
    wishes = NodeTargets()
    num_nodes = int(np.count_nonzero(nodes.items))
    for topology, count in Counter(workers.group.tolist()).items():
        most = max(1, min(num_nodes, count))
        least = math.ceil(count / most)
        used = max(1, min(least + math.ceil(beta[topology] * (most - least)), most))
        fewest = math.ceil(count / used)
        wishes.least_nodes[topology] = used
        wishes.on_node[topology] = fewest + math.ceil(delta[topology] * (count - used + 1 - fewest))
    return wishes


def _fewest(workers: Items, nodes: Bins, slots: FloatArray, topology: int) -> int:
    """Nodes below which no placement of a topology keeps to slots, CPU and memory."""
    own, usable = workers.group == topology, slots > 0
    needs = (
        (slots, float(np.count_nonzero(own))),
        (nodes.cpu_hz, float(workers.cpu_hz[own].sum())),
        (nodes.memory_mb, float(workers.memory_mb[own].sum())),
    )
    return max(_nodes_for(has[usable], needed) for has, needed in needs)


def _nodes_for(has: FloatArray, needed: float) -> int:
    reach = np.cumsum(np.sort(has)[::-1]) * (1 + RELATIVE_TOLERANCE)
    return int(np.searchsorted(reach, needed)) + 1
