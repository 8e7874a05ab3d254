"""The true minimum by exhaustive search, for problems of a dozen executors on a few nodes."""

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
from stormwright.predict.steady import PlacedLoad, limits
from stormwright.predict.workers import nodes_of

#: Number of executors beyond the fewest examined before a mix is abandoned.
MORE = 3

#: Work that differs by less is the same but for rounding.
_ROUNDING = 1e-9


def exhaustive_minimum(
    trials: MixTrials, most_nodes: int, more: int = MORE
) -> tuple[EvaluatedPlacement, list[dict[Key, int]]] | None:
    """Return the cheapest nodes with fewest executors, and all equally small executor counts; None if none.

    Every mix of nodes, every number of executors, and every placement with a worker a node is tried, cheapest and
    fewest first. Numbers of executors that are too few for their own work are left out, and those with many more than
    the fewest.

    Parameters
    ----------
    trials
        Trials of a single topology.
    most_nodes
        Maximum number of nodes of a mix.
    more
        Maximum number of executors beyond the fewest for a mix.
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
            one = next(placements_with_headroom(trials, counts, mix), None)
            if one is not None:
                best = best or one
                found.append(counts)
        if best is not None:
            return best, found
    return None


def placements_with_headroom(trials: MixTrials, counts: ExecutorCounts, mix: NodeMix) -> Iterator[EvaluatedPlacement]:
    """Yield placements on all given nodes, a worker each, with enough headroom; without symmetric ones.

    Executors of a component with equal work are equivalent, and so are nodes of a kind. Placements that overfill a node
    by the work alone are left out.

    Parameters
    ----------
    trials
        Trials of a single topology.
    counts
        Number of executors of each component of the topology.
    mix
        Number of nodes per kind.
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
    observed: set[tuple[tuple[int, ...], ...]] = set()
    for chosen in product(*(list(_distributions(len(members), mix.size)) for members in groups)):
        table = np.array(chosen)
        if np.any(each_hz @ table > room_hz) or np.any(table.sum(axis=0) == 0):
            continue
        signature = tuple(sorted((kind, *column) for kind, column in zip(kinds, table.T.tolist(), strict=True)))
        if signature in observed:
            continue
        observed.add(signature)
        slots: IntArray = np.empty(problem.num_executors, np.int32)
        for members, on in zip(groups, chosen, strict=True):
            slots[members] = first_slot[np.repeat(np.arange(mix.size), on)]
        demand = TreeDemand.of(profile, PlacedLoad.under(profile, problem, slots).routes, problem, *trials.known)
        shares, free = limits(demand)
        if np.max(shares @ rates + 1 - free) <= trials.allowed + _ROUNDING:
            yield trials.evaluated_at(problem, mix, Assignment(slots), counts)


def _alike(component: IntArray, work_hz: FloatArray) -> Iterator[IndexArray]:
    """Yield groups of executors with equal work, component by component."""
    for number in np.unique(component).tolist():
        own = np.flatnonzero(component == number)
        _, group = np.unique(np.round(work_hz[own] / max(work_hz.max(), 1.0), 9), return_inverse=True)
        for which in range(int(group.max()) + 1):
            yield own[group == which]


def _distributions(count: int, nodes: int) -> Iterator[tuple[int, ...]]:
    """Yield all distributions of `count` over nodes."""
    for bars in combinations(range(count + nodes - 1), nodes - 1):
        ends = (-1, *bars, count + nodes - 1)
        yield tuple(after - before - 1 for before, after in pairwise(ends))
