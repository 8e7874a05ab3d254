"""Placements that are given: those of before, or as advised."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Problem, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import counted

#: Source of faults in a placement that is given.
GIVEN = "the placement"


def given_slots(
    problem: Problem, placements: Mapping[str, TopologyAssignment], slot_name: Callable[[WorkerSlot], str]
) -> IntArray:
    """Return the slot of every executor; where another topology holds a slot, another one of the same node."""
    faults, wanted, known = list[Fault](), problem.current_slot.copy(), problem.slot_index
    for topology, placement in placements.items():
        index = problem.topology_index.get(topology)
        if index is None:
            faults.append(Fault("is gone", topology))
            continue
        own = problem.executors_of(index)
        if gone := sorted(slot_name(slot) for slot in placement.slots if slot not in known):
            faults.append(Fault(f"{', '.join(gone)} {'are' if len(gone) > 1 else 'is'} gone", topology))
        elif len(placement.slot_of_executor) != problem.topologies[index].num_executors:
            faults.append(Fault(f"is placed with {counted(len(placement.slot_of_executor), 'executor')}", topology))
        elif (problem.current_slot[own] == UNPLACED).any():
            faults.append(Fault("has executors without a slot now", topology))
        else:
            wanted[own] = [known[placement.slots[slot]] for slot in placement.slot_of_executor]
    if faults:
        raise InputError(GIVEN, faults)
    return wanted


def require_schedulable(problem: Problem, slots: IntArray) -> None:
    """Raise InputError if an executor would enter an unschedulable host."""
    cordoned = problem.cluster.node_blacklisted
    comes = np.flatnonzero((slots != problem.current_slot) & (slots != UNPLACED))
    comes = comes[cordoned[problem.slot_node[slots[comes]]]]
    hosts = {problem.supervisors[int(node)].host for node in np.unique(problem.slot_node[slots[comes]])}
    if hosts:
        raise InputError(GIVEN, [Fault("is cordoned: `stormwright uncordon` it first", host) for host in sorted(hosts)])
