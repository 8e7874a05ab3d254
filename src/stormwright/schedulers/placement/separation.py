"""What may not be together: `ComponentLimits` as schedulers ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.model.component_limits import ComponentLimits, count_components
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.toolkit.limits import max_executors_per_worker

#: Components from which sets of them that may not be together are looked for: those that need most workers.
_STARTS = 100


def runs_apart(problem: Problem, topology: int) -> bool:
    """Whether a topology, all of whose executors run, keeps its limits on components where it runs."""
    limits = problem.component_limits.get(topology)
    if limits is None:
        return True
    slots = problem.current_slot[problem.executors_of(topology)]
    of = problem.topologies[topology]
    component, count = of.executor_component, len(of.components)
    on_nodes = count_components(problem.slot_node[slots], component, len(problem.supervisors), count)
    in_workers = count_components(np.unique(slots, return_inverse=True)[1], component, len(slots), count)
    return not limits.crowded(on_nodes).any() and not limits.clashes(in_workers).any()


def apart_shortages(draft: PartialPlacement, topology: int, executors: IndexArray, workers: int) -> Iterator[str]:
    """Why no placement of some executors in that many workers keeps the topology's limits on components, if so.

    What is found is certain; what is not may still fail.

    Parameters
    ----------
    draft
        What is placed so far, which takes room on nodes.
    topology
        Its index. One without such limits lacks nothing.
    executors
        Those to place, numbered over the problem.
    workers
        How many they are to be in.

    Yields
    ------
    A sentence with numbers for every component that usable nodes cannot take all of, then one if workers are too few.
    """
    problem = draft.problem
    limits = problem.component_limits.get(topology)
    if limits is None:
        return
    of, own = problem.topologies[topology], problem.executors_of(topology)
    component, num_components = of.executor_component, len(of.components)
    waiting = np.bincount(component[executors - own.start], minlength=num_components)
    there = count_components(draft.node_of_executor()[own], component, len(draft.usable), num_components)
    room = np.maximum(limits.most_on_node - there, 0)[draft.usable].sum(axis=0)
    for c in np.flatnonzero(waiting > room).tolist():
        yield (
            f"{waiting[c]} executors of {of.components[c].id}, at most {limits.most_on_node[c]} a node: "
            f"{np.count_nonzero(draft.usable)} usable nodes take {room[c]}"
        )
    fewest = fewest_workers(limits, waiting, max_executors_per_worker(of))
    if fewest > workers:
        yield f"components that may not be together need at least {fewest} workers, {workers} wanted"


def fewest_workers(limits: ComponentLimits, executors: IndexArray, most: int) -> int:
    """A number of workers that no placement goes below.

    Those of components of which each two are incompatible add up; which such components is looked for greedily.

    Parameters
    ----------
    executors
        How many there are of each component, shape (C,).
    most
        Executors that a worker may have.
    """
    alone = np.diagonal(limits.incompatible)
    in_worker = np.where(alone, 1, np.minimum(limits.most_on_node, most))
    needs = -(-executors // in_worker)
    fewest = int(needs.max(initial=0))
    choosy = np.flatnonzero(limits.incompatible.any(axis=1) & (executors > 0))
    choosy = choosy[np.argsort(-needs[choosy], kind="stable")]
    for first in choosy[:_STARTS].tolist():
        fits, together = limits.incompatible[first][choosy] & (choosy != first), int(needs[first])
        # Looking on is of use only as long as all that could come make more than was found.
        while fits.any() and together + int(needs[choosy[fits]].sum()) > fewest:
            nearest = int(np.argmax(fits))
            together += int(needs[choosy[nearest]])
            fits &= limits.incompatible[choosy[nearest]][choosy]
            fits[nearest] = False
        fewest = max(fewest, together)
    return fewest


class CrowdedPlace:
    """Executors of each component of a topology on every node, and which nodes may get more of them.

    Parameters
    ----------
    problem
        Whose nodes and executors are counted.
    topology
        Its index.
    limits
        Its limits; only those on nodes count here.
    node_of
        Node of every executor of the problem, -1 for none, shape (E,). Read once: later changes come by `add`.
    """

    def __init__(self, problem: Problem, topology: int, limits: ComponentLimits, node_of: IndexArray) -> None:
        own, of = problem.executors_of(topology), problem.topologies[topology]
        self._first, self._component, self._most = own.start, of.executor_component, limits.most_on_node
        self._on_nodes = count_components(
            node_of[own], of.executor_component, len(problem.supervisors), len(of.components)
        )

    @classmethod
    def of(cls, problem: Problem, topology: int, node_of: IndexArray) -> CrowdedPlace | None:
        """That of a topology; None if it has no limits on components."""
        limits = problem.component_limits.get(topology)
        return None if limits is None else cls(problem, topology, limits, node_of)

    def admits(self, executors: Sequence[int]) -> BoolArray:
        """Which nodes may get all these executors of the topology, shape (N,)."""
        components, counts = np.unique(self._component[np.array(executors) - self._first], return_counts=True)
        admits: BoolArray = (self._on_nodes[:, components] + counts <= self._most[components]).all(axis=1)
        return admits

    def add(self, executors: Sequence[int], node: int) -> None:
        """Note that these executors are on a node now."""
        np.add.at(self._on_nodes[node], self._component[np.array(executors) - self._first], 1)
