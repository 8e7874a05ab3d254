"""Limits on components that may not share workers or nodes (`ComponentLimits`), as schedulers use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.model.component_limits import ComponentLimits, count_components
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.toolkit.limits import max_executors_per_worker

#: Number of components from which incompatible sets are grown: those that need most workers.
_STARTS = 100


def is_separated(problem: Problem, topology: int) -> bool:
    """Return whether a completely running topology satisfies its limits on components."""
    limits = problem.component_limits.get(topology)
    if limits is None:
        return True
    slots = problem.current_slot[problem.executors_of(topology)]
    definition = problem.topologies[topology]
    component, count = definition.executor_component, len(definition.components)
    on_nodes = count_components(problem.slot_node[slots], component, len(problem.supervisors), count)
    in_workers = count_components(np.unique(slots, return_inverse=True)[1], component, len(slots), count)
    return not limits.crowded(on_nodes).any() and not limits.clashes(in_workers).any()


def separation_shortages(
    placement: PartialPlacement, topology: int, executors: IndexArray, workers: int
) -> Iterator[str]:
    """Yield why no placement in `workers` workers can satisfy the topology's limits on components.

    Reported shortages are certain; others are possible.

    Parameters
    ----------
    placement
        Partial placement, which uses resources of nodes.
    topology
        Index of the topology. Nothing is yielded for one without such limits.
    executors
        Executors to place, numbered over the problem.
    workers
        Number of workers for them.

    Yields
    ------
    A sentence with numbers for every component that usable nodes cannot take all of, then one if workers are too few.
    """
    problem = placement.problem
    limits = problem.component_limits.get(topology)
    if limits is None:
        return
    definition, own = problem.topologies[topology], problem.executors_of(topology)
    component, num_components = definition.executor_component, len(definition.components)
    waiting = np.bincount(component[executors - own.start], minlength=num_components)
    there = count_components(placement.node_of_executor()[own], component, len(placement.usable), num_components)
    room = np.maximum(limits.most_on_node - there, 0)[placement.usable].sum(axis=0)
    for c in np.flatnonzero(waiting > room).tolist():
        yield (
            f"{waiting[c]} executors of {definition.components[c].id}, at most {limits.most_on_node[c]} a node: "
            f"{np.count_nonzero(placement.usable)} usable nodes take {room[c]}"
        )
    fewest = fewest_workers(limits, waiting, max_executors_per_worker(definition))
    if fewest > workers:
        yield f"components that may not be together need at least {fewest} workers, {workers} wanted"


def fewest_workers(limits: ComponentLimits, executors: IndexArray, most: int) -> int:
    """Return a lower bound of the number of workers of any placement.

    The numbers of pairwise incompatible components add up; such components are selected greedily.

    Parameters
    ----------
    executors
        Number of executors of each component, shape (C,).
    most
        Maximum executors per worker.
    """
    alone = np.diagonal(limits.incompatible)
    in_worker = np.where(alone, 1, np.minimum(limits.most_on_node, most))
    needs = -(-executors // in_worker)
    fewest = int(needs.max(initial=0))
    choosy = np.flatnonzero(limits.incompatible.any(axis=1) & (executors > 0))
    choosy = choosy[np.argsort(-needs[choosy], kind="stable")]
    for first in choosy[:_STARTS].tolist():
        fits, together = limits.incompatible[first][choosy] & (choosy != first), int(needs[first])
        # Continue only as long as all remaining ones could exceed the best so far.
        while fits.any() and together + int(needs[choosy[fits]].sum()) > fewest:
            nearest = int(np.argmax(fits))
            together += int(needs[choosy[nearest]])
            fits &= limits.incompatible[choosy[nearest]][choosy]
            fits[nearest] = False
        fewest = max(fewest, together)
    return fewest


class ComponentCounts:
    """Executors of each component of a topology on every node, and which nodes may get more of them.

    Parameters
    ----------
    problem
        Problem with the nodes and executors.
    topology
        Index of the topology.
    limits
        Its limits; only those on nodes are used here.
    node_of
        Node of every executor of the problem, -1 for none, shape (E,). Read once: report later changes by `add`.
    """

    def __init__(self, problem: Problem, topology: int, limits: ComponentLimits, node_of: IndexArray) -> None:
        own, definition = problem.executors_of(topology), problem.topologies[topology]
        self._first, self._component, self._most = own.start, definition.executor_component, limits.most_on_node
        self._on_nodes = count_components(
            node_of[own], definition.executor_component, len(problem.supervisors), len(definition.components)
        )

    @classmethod
    def of(cls, problem: Problem, topology: int, node_of: IndexArray) -> ComponentCounts | None:
        """Return the counts of a topology; None if it has no limits on components."""
        limits = problem.component_limits.get(topology)
        return None if limits is None else cls(problem, topology, limits, node_of)

    def admits(self, executors: Sequence[int]) -> BoolArray:
        """Return which nodes may get all these executors of the topology, shape (N,)."""
        components, counts = np.unique(self._component[np.array(executors) - self._first], return_counts=True)
        admits: BoolArray = (self._on_nodes[:, components] + counts <= self._most[components]).all(axis=1)
        return admits

    def add(self, executors: Sequence[int], node: int) -> None:
        """Record that these executors are on a node now."""
        np.add.at(self._on_nodes[node], self._component[np.array(executors) - self._first], 1)
