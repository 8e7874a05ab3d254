"""Other slots for the same placement, so that as little of what runs moves as can be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IndexArray, IntArray, frozen
from stormwright.schedulers.placement.placing import favour

# Equivalent nodes ---------------------------------------------------------------------------------
# Which nodes and racks may stand in for each other: nothing that a placement costs or may do tells them apart.


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


# Matching -----------------------------------------------------------------------------------------
# Heaviest matchings of what is new to what there is.

#: New one and old one → what it is worth that the new one takes the old one's name.
Worth = Mapping[tuple[int, int], float]


def heaviest(worth: Worth) -> dict[int, int]:
    """New one → old one, each at most once, of the greatest worth together; who would gain nothing has none.

    Parameters
    ----------
    worth
        Above 0, of the pairs that are worth anything: integers, so that sums are exact.
    """
    rows, columns = ({each: number for number, each in enumerate(sorted({p[s] for p in worth}))} for s in (0, 1))
    if len(rows) == len(worth) == len(columns):
        return dict(worth.keys())
    from scipy.sparse import coo_array  # both take a while, and few answers need them
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    # Each may also take a column of its own, which is worth nothing. Costs are above 0, as those of 0 are no entries.
    nothing = max(worth.values()) + 1.0
    row = [rows[new] for new, _ in worth] + list(range(len(rows)))
    column = [columns[old] for _, old in worth] + list(range(len(columns), len(columns) + len(rows)))
    cost = [nothing - value for value in worth.values()] + [nothing] * len(rows)
    graph = coo_array((np.array(cost), (np.array(row), np.array(column)))).tocsr()
    new, old = min_weight_full_bipartite_matching(graph)
    of_row, of_column = list(rows), list(columns)
    taken = zip(new.tolist(), old.tolist(), strict=True)
    return {of_row[n]: of_column[o] for n, o in taken if o < len(columns)}


# Relabel ------------------------------------------------------------------------------------------


def renamed(problem: Problem, slots: IntArray) -> IntArray:
    """The placement `slots` with racks, nodes and slots exchanged for others that are alike.

    Three matchings inside each other, each of the greatest weight (R. Jonker, A. Volgenant, "A shortest augmenting path
    algorithm for dense and sparse linear assignment problems", Computing 38, 1987,
    https://doi.org/10.1007/BF02278710): workers take slots of a node, nodes of a rack stand in for nodes, and racks for
    racks. The weight is the number of executors that stay in their slots, and among as many that of workers that run
    on as they are. Cost and limits of the placement stay what they are.

    Workers that keep nothing get slots in which nothing runs now, as far as there are any, so that they can start while
    others still stop. Ties go to what the placement says, then to the lower index.

    Parameters
    ----------
    problem
        What runs.
    slots
        Slot of every executor, -1 for none, shape (E,).

    Returns
    -------
    IntArray
        The same in other slots, shape (E,).
    """
    if not np.any((problem.current_slot != UNPLACED) & (slots != UNPLACED)):
        return slots
    return _Renaming(problem, slots).slots()


class _Renaming:
    """What is exchanged for what in one placement."""

    def __init__(self, problem: Problem, slots: IntArray) -> None:
        self._problem, self._placed = problem, slots
        self._node: list[int] = problem.slot_node.tolist()
        self._rack: list[int] = problem.node_rack.tolist()
        self._kind: list[int] = node_kinds(problem).tolist()
        self._runs = set(problem.current_slot.tolist())
        #: Node of the placement and node → what it is worth that workers of the one take slots of the other.
        self._stays: defaultdict[tuple[int, int], dict[tuple[int, int], float]] = defaultdict(dict)
        for pair, value in _worth(problem.current_slot, slots).items():
            nodes = self._node[pair[0]], self._node[pair[1]]
            if self._kind[nodes[0]] == self._kind[nodes[1]]:
                self._stays[nodes][pair] = value

    def slots(self) -> IntArray:
        """Slot of every executor, shape (E,)."""
        node_to = self._nodes()
        of_node: defaultdict[int, list[int]] = defaultdict(list)
        for slot in sorted(set(self._placed.tolist()) - {UNPLACED}):
            of_node[self._node[slot]].append(slot)
        to = np.arange(len(self._node) + 1, dtype=np.int32)
        to[UNPLACED] = UNPLACED
        first = np.searchsorted(self._problem.slot_node, np.arange(len(self._rack) + 1)).tolist()
        for node, used in of_node.items():
            target = node_to[node]
            ports = range(first[target], first[target + 1])
            kept = heaviest(self._stays.get((node, target), {}))
            for slot, port in self._filled(used, ports, kept, first[target] - first[node]):
                to[slot] = port
        return frozen(to[self._placed], np.int32, own=True)

    def _filled(
        self, used: list[int], ports: Iterable[int], kept: dict[int, int], shift: int
    ) -> Iterable[tuple[int, int]]:
        """Every worker's slot and the one that it takes: what it keeps, else one in which nothing runs now."""
        left = sorted(set(ports) - set(kept.values()))
        for slot in used:
            if slot not in kept:
                best = min(left, key=lambda port: (port in self._runs, port != slot + shift, port))
                left.remove(best)
                kept[slot] = best
        return kept.items()

    def _nodes(self) -> dict[int, int]:
        """Node of the placement → the node that stands in for it, of those that are used."""
        worth = {nodes: _sum(pairs) for nodes, pairs in self._stays.items()}
        between: defaultdict[tuple[int, int], dict[tuple[int, int], float]] = defaultdict(dict)
        racks = rack_kinds(self._problem, np.array(self._kind)).tolist()
        for nodes, value in worth.items():
            pair = self._rack[nodes[0]], self._rack[nodes[1]]
            if racks[pair[0]] == racks[pair[1]]:
                between[pair][nodes] = value
        chosen = {pair: heaviest(inside) for pair, inside in between.items()}
        rack_worth = {pair: sum(worth[nodes] for nodes in found.items()) for pair, found in chosen.items()}
        rack_to = _completed(heaviest(rack_worth), racks, racks)
        node_to: dict[int, int] = {}
        for pair in rack_to.items():
            node_to |= chosen.get(pair, {})
        place = [(rack_to[rack], kind) for rack, kind in zip(self._rack, self._kind, strict=True)]
        there = list(zip(self._rack, self._kind, strict=True))
        return _completed(node_to, place, there)


def _worth(now: IntArray, new: IntArray) -> Worth:
    """Slot of the placement and slot of now → what it is worth that they are the same.

    An executor counts more than all workers together.
    """
    both = (now != UNPLACED) & (new != UNPLACED)
    pairs, counts = np.unique(np.stack([new[both], now[both]]), axis=1, return_counts=True)
    size_new, size_now = (np.bincount(of[of != UNPLACED], minlength=int(of.max()) + 1) for of in (new, now))
    whole = (size_new[pairs[0]] == counts) & (size_now[pairs[1]] == counts)
    value = counts * float(len(counts) + 1) + whole
    return dict(zip(zip(*pairs.tolist(), strict=True), value.tolist(), strict=True))


def _sum(pairs: Worth) -> float:
    """What the best matching of them is worth."""
    return sum(pairs[pair] for pair in heaviest(pairs).items())


def _completed(chosen: dict[int, int], place: Sequence[object], there: Sequence[object]) -> dict[int, int]:
    """Everybody's stand-in: who has none takes itself, else the first that is left of those that are alike.

    Parameters
    ----------
    chosen
        Those that are settled.
    place, there
        What everybody's stand-in has to be, and what everybody is.
    """
    free: defaultdict[object, list[int]] = defaultdict(list)
    taken = set(chosen.values())
    waiting = [each for each in range(len(place)) if each not in chosen]
    itself = {each: each for each in waiting if place[each] == there[each] and each not in taken}
    taken |= itself.keys()
    for each in range(len(there) - 1, -1, -1):
        if each not in taken:
            free[there[each]].append(each)
    return {**chosen, **{each: itself[each] if each in itself else free[place[each]].pop() for each in waiting}}
