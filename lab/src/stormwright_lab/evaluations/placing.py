"""Placement of a cell's executors by its scheduler, with the load of the first cell of its block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from stormwright.errors import SchedulerError
from stormwright.formats import problem_from_dict
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import counted
from stormwright.model.requests import CPU
from stormwright.schedulers.toolkit.resolve import resolve_scheduler, takes_seed
from stormwright_lab.evaluations.cell_store import CellOutcome, CellStore
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.definitions import Machine

#: Of each topology in turn, where every executor is: node from 0 in the order of hosts, and port.
CellPlacement = Sequence[Sequence[tuple[int, int]]]


def scheduler_input(cell: Cell, store: CellStore) -> Problem:
    """Return the problem that a cell's scheduler gets: the topologies as they ran under the first variant.

    Nodes declare the resources of the block's machines. Costs are those of the very first start, the only one whose
    workers run long enough to fit them.
    """
    first = cell.first()
    document = dict(store.found[first.key].problem or {})
    earliest = store.found.get(replace(first, repeat=0).key)
    if earliest and earliest.problem and "costs" in earliest.problem:
        document["costs"] = earliest.problem["costs"]
    return declared(problem_from_dict(document, first.name), cell.block.machines)


def placement_of(cell: Cell, problem: Problem) -> CellPlacement:
    """Return the placement by a cell's scheduler, as if nothing ran.

    Parameters
    ----------
    cell
        Start to place: its variant names the scheduler, and its repeat is the seed.
    problem
        Topologies as they ran under the first variant, from `scheduler_input`.

    Raises
    ------
    SchedulerError
        It has no slot for some executor, or failed.
    """
    by = cell.placed_by
    seed = cell.repeat if takes_seed(by.scheduler) else None
    answer = resolve_scheduler(by.scheduler, dict(by.settings), seed).schedule(problem.with_nothing_running())
    left = int(np.count_nonzero(answer.slot_of_executor == UNPLACED))
    if left:
        raise SchedulerError(f"{by.text} has no slot for {counted(left, 'executor')} of {problem.num_executors}")
    return named(problem, answer.slot_of_executor)


def declared(problem: Problem, machines: Sequence[Machine]) -> Problem:
    """Return a problem whose nodes, in order of hosts, declare the resources of `machines`, if any."""
    if not machines:
        return problem
    nodes = list(problem.supervisors)
    for number, machine in zip(by_host(problem), machines, strict=True):
        node = nodes[number]
        resources = {**(node.resources or {}), CPU: machine.cpu_percent, "memory.mb": machine.memory_mb}
        nodes[number] = replace(
            node, resources=resources, scheduler_meta={**(node.scheduler_meta or {}), **machine.meta}
        )
    return replace(problem, supervisors=tuple(nodes))


def named(problem: Problem, slots: IntArray) -> CellPlacement:
    """Return the slots of all executors as nodes in order of hosts, and ports."""
    order = {number: position for position, number in enumerate(by_host(problem))}
    where = [(order[int(problem.slot_node[slot])], problem.slots[slot].port) for slot in slots.tolist()]
    return [where[begin:end] for begin, end in pairwise(problem.executor_offset.tolist())]


def slots_of(problem: Problem, topology: int, placement: Sequence[tuple[int, int]]) -> IntArray:
    """Return the slots of one topology's executors, from nodes in the order of hosts, and ports."""
    nodes = by_host(problem)
    index = {(int(problem.slot_node[slot]), each.port): slot for slot, each in enumerate(problem.slots)}
    own = problem.topologies[topology].num_executors
    if len(placement) != own:
        raise SchedulerError(f"a placement of {counted(len(placement), 'executor')} for {own}")
    return np.array([index[nodes[node], port] for node, port in placement], np.int32)


def same_as(problem: Problem, placement: CellPlacement, alike: Mapping[str, CellOutcome]) -> str | None:
    """Return a completed variant with an equivalent placement, up to names of nodes and ports; else None.

    Parameters
    ----------
    problem, placement
        The problem, and a placement of it.
    alike
        Completed results of the same block and repeat, by variant.
    """
    wanted = _shape(problem, placement)
    return next((name for name, found in alike.items() if _shape(problem, found.placement) == wanted), None)


def _shape(problem: Problem, placement: CellPlacement) -> object:
    """Return the executors of each component per worker and node, regardless of names of nodes and ports."""
    nodes: dict[int, dict[tuple[int, int], list[int]]] = {}
    for number, (topology, own) in enumerate(zip(problem.topologies, placement, strict=False)):
        for (node, port), component in zip(own, topology.executor_component.tolist(), strict=False):
            nodes.setdefault(node, {}).setdefault((number, port), []).append(component)
    return sorted(sorted((t, sorted(own)) for (t, _), own in workers.items()) for workers in nodes.values())


def by_host(problem: Problem) -> list[int]:
    """Return numbers of nodes in the order of hosts."""
    return sorted(range(len(problem.supervisors)), key=lambda number: _key(problem.supervisors[number].host))


def _key(host: str) -> tuple[object, ...]:
    """Return a sort key that orders addresses numerically."""
    parts = host.split(".")
    return (0, *map(int, parts)) if all(part.isdecimal() for part in parts) else (1, host)
