"""Preservation of running workers: a worker whose slot or executors change is a JVM that Storm restarts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from stormwright.model import UNPLACED, CostWeights, Problem, Traffic
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.separation import is_separated
from stormwright.schedulers.toolkit.limits import max_executors_per_worker, num_workers
from stormwright.schedulers.toolkit.traffic import Rates


def running_workers(problem: Problem) -> dict[int, IndexArray]:
    """Return the executors that run in each slot now, ascending."""
    by_slot = np.argsort(problem.current_slot, kind="stable")
    slots, first = np.unique(problem.current_slot[by_slot], return_index=True)
    stretches = zip(slots.tolist(), pairwise([*first.tolist(), len(by_slot)]), strict=True)
    return {slot: by_slot[begin:end] for slot, (begin, end) in stretches if slot != UNPLACED}


def runs_well(problem: Problem, topology: int) -> bool:
    """Return whether a topology runs completely, validly, and on the requested number of workers."""
    slots = problem.current_slot[problem.executors_of(topology)]
    workers, sizes = np.unique(slots, return_counts=True)
    wanted = problem.topologies[topology]
    return bool(
        UNPLACED not in workers
        and len(workers) == num_workers(wanted)
        and sizes.max(initial=0) <= max_executors_per_worker(wanted)
        and is_separated(problem, topology)
    )


def restore_cheaper(
    placement: PartialPlacement, rates: Rates | Traffic, weights: CostWeights, rates_new: Rates | Traffic | None = None
) -> None:
    """Move topologies back to where they run well, wherever that costs no more and fits.

    They are tried in order, repeatedly, until none can be moved back. A topology that is left out is moved back at any
    cost.

    Parameters
    ----------
    placement
        A new placement of everything; written.
    rates
        Traffic of the running placement.
    weights
        Cost of a tuple by distance.
    rates_new
        Traffic in the new placement, if it differs.
    """
    problem = placement.problem
    node_now = np.append(problem.slot_node, UNPLACED)[problem.current_slot]
    node_new = placement.node_of_executor()
    cost_now = _topology_costs(problem, rates, weights, problem.current_slot, node_now)
    cost_new = _topology_costs(problem, rates_new or rates, weights, placement.worker, node_new) * (
        1 + RELATIVE_TOLERANCE
    )
    waiting = [
        t
        for t in range(len(problem.topologies))
        if runs_well(problem, t) and (t in placement.reasons or cost_now[t] <= cost_new[t])
    ]
    used = placement.node_use()
    running = running_workers(problem)
    progress = True
    while progress:
        progress = False
        for topology in list(waiting):
            executors = problem.executors_of(topology)
            back = _node_use(problem, executors, problem.current_slot, node_now)
            after = used - _node_use(problem, executors, placement.worker, node_new) + back
            if np.any((after > placement.capacity) & (back > 0)):
                continue
            used, progress = after, True
            waiting.remove(topology)
            placement.take_out(topology)
            placement.reasons.pop(topology, None)
            for slot in np.unique(problem.current_slot[executors]).tolist():
                placement.add_worker(topology, running[slot], int(problem.slot_node[slot]))


def _node_use(problem: Problem, executors: slice, worker: IndexArray, node: IndexArray) -> FloatArray:
    """Return the use of each resource and of slots by some executors on every node, shape (K + 1, N)."""
    placed = np.flatnonzero(worker[executors] != UNPLACED) + executors.start
    first = np.unique(worker[placed], return_index=True)[1]
    num_nodes = len(problem.supervisors)
    return np.stack(
        [
            *(np.bincount(node[placed], demand[placed], num_nodes) for demand in problem.executor_demand),
            np.bincount(node[placed][first], minlength=num_nodes),
        ]
    ).astype(np.float64)


def _topology_costs(
    problem: Problem, rates: Rates | Traffic, weights: CostWeights, worker: IndexArray, node: IndexArray
) -> FloatArray:
    """Return the cost of every topology's traffic, shape (T,)."""
    a, b = rates.source, rates.target
    rack = np.append(problem.node_rack, UNPLACED)[node]
    classes = [a == b, worker[a] == worker[b], node[a] == node[b], rack[a] == rack[b]]
    each = [weights.same_executor, weights.same_worker, weights.inter_worker, weights.inter_node]
    weight = np.select(classes, each, weights.inter_rack)
    return np.bincount(problem.executor_topology[a], weight * rates.tps, len(problem.topologies)).astype(np.float64)


def swap_nodes(placement: PartialPlacement) -> None:
    """Swap whole nodes where that moves more workers back to where they run now.

    Nodes of one rack are swapped if the other's workers fit on each, so the cost does not change. The swap that
    preserves most workers goes first, then the one with the lower nodes.
    """
    problem = placement.problem
    home = {executors.tobytes(): int(problem.slot_node[slot]) for slot, executors in running_workers(problem).items()}
    homes = [home.get(executors.tobytes(), UNPLACED) for executors in _members(placement)]
    while True:
        at_home = Counter(pair for pair in zip(placement.node, homes, strict=True) if UNPLACED not in pair)
        gains = {
            (a, b): at_home[a, b] + at_home[b, a] - at_home[a, a] - at_home[b, b]
            for a, b in sorted({(min(pair), max(pair)) for pair in at_home})
            if a != b
        }
        used = placement.node_use()
        to = list(range(len(problem.supervisors)))
        for (a, b), gain in sorted(gains.items(), key=lambda item: -item[1]):
            if gain > 0 and to[a] == a and to[b] == b and _exchangeable(placement, used, a, b):
                to[a], to[b] = b, a
        if to == sorted(to):
            return
        placement.node = [UNPLACED if node == UNPLACED else to[node] for node in placement.node]


def _exchangeable(placement: PartialPlacement, used: FloatArray, a: int, b: int) -> bool:
    same_rack = placement.problem.node_rack[a] == placement.problem.node_rack[b]
    return bool(
        same_rack and placement.usable[[a, b]].all() and np.all(used[:, [b, a]] <= placement.capacity[:, [a, b]])
    )


def choose_slots(placement: PartialPlacement) -> IntArray:
    """Return the slot of every executor.

    1. A worker that already runs on its node keeps its slot: with the same executors, or with additional lost ones.
    2. Any other gets the first port of its node in which nothing runs now, so that it can start while others still
       stop; if there is none, the first free one.
    """
    problem = placement.problem
    running = running_workers(problem)
    slot_of = {executors.tobytes(): slot for slot, executors in running.items()}
    members = _members(placement)
    slots = [UNPLACED] * len(members)
    for worker, executors in enumerate(members if running else ()):  # 1
        slot = slot_of.get(executors[problem.current_slot[executors] != UNPLACED].tobytes(), UNPLACED)
        if slot != UNPLACED and problem.slot_node[slot] == placement.node[worker]:
            slots[worker] = slot
    taken = set(slots)
    first_slot = np.concatenate([[0], np.cumsum([len(supervisor.ports) for supervisor in problem.supervisors])])
    left: dict[int, list[int]] = {}
    for worker, node in enumerate(placement.node):  # 2
        if node == UNPLACED or slots[worker] != UNPLACED:
            continue
        if node not in left:
            free = [slot for slot in range(first_slot[node], first_slot[node + 1]) if slot not in taken]
            left[node] = sorted(free, key=running.__contains__)
        slots[worker] = left[node].pop(0)
    return np.array([*slots, UNPLACED], dtype=np.int32)[placement.worker]


def keep_slots(placement: PartialPlacement, slots: IntArray) -> IntArray:
    """Return the slot of every executor: workers of `slots`, in order, keep theirs on their node; others get free ones.

    Free ones in which nothing runs now come first, then the lower ones.
    """
    problem = placement.problem
    slot_of = np.unique(slots[slots != UNPLACED])
    moved = problem.slot_node[slot_of] != placement.node
    slot_of[moved] = UNPLACED
    taken, runs = set(slot_of.tolist()), set(problem.current_slot.tolist())
    first = np.searchsorted(problem.slot_node, np.arange(len(problem.supervisors) + 1))
    for worker in np.flatnonzero(moved).tolist():
        node = placement.node[worker]
        free = [slot for slot in range(first[node], first[node + 1]) if slot not in taken]
        slot_of[worker] = min(free, key=lambda slot: (slot in runs, slot))
        taken.add(int(slot_of[worker]))
    return np.append(slot_of, UNPLACED)[placement.worker].astype(np.int32)


def _members(placement: PartialPlacement) -> list[IndexArray]:
    """Return the executors of every worker, ascending."""
    by_worker = np.argsort(placement.worker, kind="stable")
    first = np.searchsorted(placement.worker[by_worker], np.arange(len(placement.node) + 1)).tolist()
    return [by_worker[begin:end] for begin, end in pairwise(first)]
