"""The least that is enough, by trying out everything: for problems of a dozen executors on a few nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np

from stormwright.advise.search.evaluation import EvaluatedPlacement
from stormwright.advise.search.kinds import NodeMix, mixes
from stormwright.advise.search.trials import ExecutorCounts, Key, MixTrials
from stormwright.model import Assignment
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.predict.demand import TreeDemand
from stormwright.predict.steady import Placed, limits
from stormwright.predict.workers import nodes_of

#: So many executors more than the fewest are looked at before a mix is given up.
MORE = 3

#: Work that differs by less is the same but for rounding.
_ROUNDING = 1e-9


def least_of_all(
    trials: MixTrials, most_nodes: int, more: int = MORE
) -> tuple[EvaluatedPlacement, list[dict[Key, int]]] | None:
    """The cheapest nodes with the fewest executors, and all numbers of executors that are as few; None for nothing.

    Every mix of nodes, every number of executors, and every placement with a worker a node is tried, from the cheapest
    and fewest on. Numbers of executors that are too few for their own work are left out, and those with many more than
    the fewest.

    Parameters
    ----------
    trials
        Of a single topology.
    most_nodes
        Of the mixes that are tried.
    more
        Executors beyond the fewest that are looked at before a mix is given up.
    """
    keys = sorted(trials.sizes)
    fastest = max(kind.core_hz for kind in trials.kinds) / trials.base.core_hz
    least = [trials.sizes[key].least(trials.allowed * fastest) for key in keys]
    if None in least:
        return None
    ranges = [range(first or 1, trials.sizes[key].tasks + 1) for key, first in zip(keys, least, strict=True)]
    every = sorted(product(*ranges), key=sum)
    for mix in mixes(trials.kinds, most_nodes):
        best: EvaluatedPlacement | None = None
        found: list[dict[Key, int]] = []
        for numbers in every:
            counts = dict(zip(keys, numbers, strict=True))
            most = sum(found[0].values()) if found else sum(every[0]) + more
            if sum(numbers) > most:
                break
            one = next(roomy_placements(trials, counts, mix), None)
            if one is not None:
                best = best or one
                found.append(counts)
        if best is not None:
            return best, found
    return None


def roomy_placements(trials: MixTrials, counts: ExecutorCounts, mix: NodeMix) -> Iterator[EvaluatedPlacement]:
    """All placements on all of some nodes with a worker each that leave enough free; of those that are alike, one.

    Alike are executors of a component that have equally much to do, and nodes of a kind. Placements that overfill a
    node by their own work alone are left out.

    Parameters
    ----------
    trials
        Of a single topology.
    counts
        Its executors.
    mix
        The nodes.
    """
    problem, profile = trials.made(counts)
    problem = replace(problem, supervisors=mix.supervisors)
    work_hz = profile.work_cycles(*trials.known) * profile.handled_tps
    rates = profile.rate_tps
    nodes = nodes_of(problem)
    room_hz = (trials.allowed * nodes.cores - trials.known[0].worker_cores) * nodes.core_hz * (1 + _ROUNDING)
    groups = list(_alike(problem.topologies[0].executor_component, work_hz))
    each_hz = np.array([work_hz[members[0]] for members in groups])
    kinds = [mix.kinds.index(mix.kind_of(node)) for node in range(mix.size)]
    first_slot = np.searchsorted(problem.slot_node, np.arange(mix.size))
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for chosen in product(*(list(_dealt(len(members), mix.size)) for members in groups)):
        table = np.array(chosen)
        if np.any(each_hz @ table > room_hz) or np.any(table.sum(axis=0) == 0):
            continue
        signature = tuple(sorted((kind, *column) for kind, column in zip(kinds, table.T.tolist(), strict=True)))
        if signature in seen:
            continue
        seen.add(signature)
        slots: IntArray = np.empty(problem.num_executors, np.int32)
        for members, on in zip(groups, chosen, strict=True):
            slots[members] = first_slot[np.repeat(np.arange(mix.size), on)]
        demand = TreeDemand.of(profile, Placed.under(profile, problem, slots).routes, problem, *trials.known)
        shares, free = limits(demand)
        if np.max(shares @ rates + 1 - free) <= trials.allowed + _ROUNDING:
            yield trials.judged_at(problem, mix, Assignment(slots), counts)


def _alike(component: IntArray, work_hz: FloatArray) -> Iterator[IndexArray]:
    """Executors that have equally much to do, component by component."""
    for number in np.unique(component).tolist():
        own = np.flatnonzero(component == number)
        _, group = np.unique(np.round(work_hz[own] / max(work_hz.max(), 1.0), 9), return_inverse=True)
        for which in range(int(group.max()) + 1):
            yield own[group == which]


def _dealt(count: int, nodes: int) -> Iterator[tuple[int, ...]]:
    """All ways to deal out so many to some nodes."""
    for bars in combinations(range(count + nodes - 1), nodes - 1):
        ends = (-1, *bars, count + nodes - 1)
        yield tuple(after - before - 1 for before, after in pairwise(ends))
