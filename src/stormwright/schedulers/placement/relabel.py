"""Relabelling: other slots for the same placement, so that as few running executors as possible move."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IndexArray, IntArray, frozen
from stormwright.schedulers.placement.favoured_hosts import favour

#: (New one, old one) → weight of the exchange.
Worth = Mapping[tuple[int, int], float]


def node_kinds(problem: Problem) -> IndexArray:
    """Return a number for every node, equal for nodes that differ only in rack and name, shape (N,).

    Everything that affects constraints, predictions or preferences is compared: capacity, generic resources, slots,
    link, tags and all else in ``supervisor.scheduler.meta``, whether it is open, and which topologies favour its host.
    Nodes that share a host are equal only to each other, as a host may be isolated.
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
    """Return a number for every rack, equal for racks with equally many nodes of each kind."""
    racks = int(problem.node_rack.max(initial=-1)) + 1
    nodes: list[Counter[int]] = [Counter() for _ in range(racks)]
    for rack, kind in zip(problem.node_rack.tolist(), kinds.tolist(), strict=True):
        nodes[rack][kind] += 1
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(frozenset(values.items()), len(numbers)) for values in nodes], dtype=np.int64)


def heaviest(worth: Worth) -> dict[int, int]:
    """Return a maximum-weight matching, new → old; pairs without gain are not matched.

    Parameters
    ----------
    worth
        Weights above 0 of pairs: integers, so that sums are exact.
    """
    rows, columns = ({each: number for number, each in enumerate(sorted({p[s] for p in worth}))} for s in (0, 1))
    if len(rows) == len(worth) == len(columns):
        return dict(worth.keys())
    from scipy.sparse import coo_array  # both are slow to import, and few answers need them
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    # Each may also take a column of its own, without weight. Costs are above 0, as zeros are not stored.
    nothing = max(worth.values()) + 1.0
    row = [rows[new] for new, _ in worth] + list(range(len(rows)))
    column = [columns[old] for _, old in worth] + list(range(len(columns), len(columns) + len(rows)))
    cost = [nothing - value for value in worth.values()] + [nothing] * len(rows)
    graph = coo_array((np.array(cost), (np.array(row), np.array(column)))).tocsr()
    new, old = min_weight_full_bipartite_matching(graph)
    of_row, of_column = list(rows), list(columns)
    taken = zip(new.tolist(), old.tolist(), strict=True)
    return {of_row[n]: of_column[o] for n, o in taken if o < len(columns)}


def renamed(problem: Problem, slots: IntArray) -> IntArray:
    """Return the placement `slots` with racks, nodes and slots exchanged for equal ones.

    Three matchings inside each other, each of the greatest weight (R. Jonker, A. Volgenant, "A shortest augmenting path
    algorithm for dense and sparse linear assignment problems", Computing 38, 1987, https://doi.org/10.1007/BF02278710):
    workers take slots of a node, nodes of a rack stand in for nodes, and racks for racks. The weight is the number of
    executors that stay in their slots, and at ties that of workers that continue unchanged. Cost and constraints of the
    placement do not change.

    Other workers get slots in which nothing runs now, if there are any, so that they can start while others still stop.
    Ties go to the given placement, then to the lower index.

    Parameters
    ----------
    problem
        Problem with the running placement.
    slots
        Slot of every executor, -1 for none, shape (E,).

    Returns
    -------
    IntArray
        The relabelled placement, shape (E,).
    """
    if not np.any((problem.current_slot != UNPLACED) & (slots != UNPLACED)):
        return slots
    return _SlotExchange(problem, slots).slots()


class _SlotExchange:
    """Computation of the exchanges for one placement."""

    def __init__(self, problem: Problem, slots: IntArray) -> None:
        self._problem, self._placed = problem, slots
        self._node: list[int] = problem.slot_node.tolist()
        self._rack: list[int] = problem.node_rack.tolist()
        self._kind: list[int] = node_kinds(problem).tolist()
        self._runs = set(problem.current_slot.tolist())
        #: (Node of the placement, node) → weight if workers of the one take slots of the other.
        self._stays: defaultdict[tuple[int, int], dict[tuple[int, int], float]] = defaultdict(dict)
        for pair, value in _worth(problem.current_slot, slots).items():
            nodes = self._node[pair[0]], self._node[pair[1]]
            if self._kind[nodes[0]] == self._kind[nodes[1]]:
                self._stays[nodes][pair] = value

    def slots(self) -> IntArray:
        """Return the slot of every executor, shape (E,)."""
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
            matched = heaviest(self._stays.get((node, target), {}))
            for slot, port in self._filled(used, ports, matched, first[target] - first[node]):
                to[slot] = port
        return frozen(to[self._placed], np.int32, own=True)

    def _filled(
        self, used: list[int], ports: Iterable[int], matched: dict[int, int], shift: int
    ) -> Iterable[tuple[int, int]]:
        """Yield every worker's slot and its new one: the matched one, else one in which nothing runs now."""
        left = sorted(set(ports) - set(matched.values()))
        for slot in used:
            if slot not in matched:
                best = min(left, key=lambda port: (port in self._runs, port != slot + shift, port))
                left.remove(best)
                matched[slot] = best
        return matched.items()

    def _nodes(self) -> dict[int, int]:
        """Return the substitute of every used node."""
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
    """Return the weights of pairs of new and present slots.

    An executor counts more than all workers together.
    """
    both = (now != UNPLACED) & (new != UNPLACED)
    pairs, counts = np.unique(np.stack([new[both], now[both]]), axis=1, return_counts=True)
    size_new, size_now = (
        np.bincount(values[values != UNPLACED], minlength=int(values.max()) + 1) for values in (new, now)
    )
    whole = (size_new[pairs[0]] == counts) & (size_now[pairs[1]] == counts)
    value = counts * float(len(counts) + 1) + whole
    return dict(zip(zip(*pairs.tolist(), strict=True), value.tolist(), strict=True))


def _sum(pairs: Worth) -> float:
    """Return the weight of the best matching."""
    return sum(pairs[pair] for pair in heaviest(pairs).items())


def _completed(chosen: dict[int, int], place: Sequence[object], there: Sequence[object]) -> dict[int, int]:
    """Return all substitutes: unmatched ones take themselves if free, else the first free equal one.

    Parameters
    ----------
    chosen
        Substitute of each matched one.
    place, there
        Required kind of each one's substitute, and kind of each one.
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
