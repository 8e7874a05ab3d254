"""Placements that are given: those of before, or as advised."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from stormwright.controller.serialization import split_workers
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Problem, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import counted
from stormwright.model.topology_config import CONFINED

#: Source of faults in a placement that is given.
GIVEN = "the placement"


def given_slots(
    problem: Problem, placements: Mapping[str, TopologyAssignment], slot_name: Callable[[WorkerSlot], str]
) -> IntArray:
    """Return the slot of every executor, shape (E,).

    Ports that other topologies hold are replaced when the moves are planned
    (`stormwright.controller.planning.hops.choose_ports`).

    Parameters
    ----------
    problem
        The cluster, and the running placement.
    placements
        Placement by topology id.
    slot_name
        Returns the name of a slot that is gone.

    Raises
    ------
    InputError
        A topology or a slot is gone, or a placement does not fit its topology.
    """
    faults, wanted, known = list[Fault](), problem.current_slot.copy(), problem.slot_index
    for topology, placement in placements.items():
        index = problem.topology_index.get(topology)
        if index is None:
            faults.append(Fault("is gone", topology))
            continue
        own = problem.executors_of(index)
        if gone := sorted(slot_name(slot) for slot in placement.slots if slot not in known):
            faults.append(Fault(f"{', '.join(gone)} {'are' if len(gone) > 1 else 'is'} gone", topology))
        elif wrong := placement_fault(placement, problem.topologies[index].num_executors):
            faults.append(Fault(wrong, topology))
        elif (problem.current_slot[own] == UNPLACED).any():
            faults.append(Fault("has executors without a slot now", topology))
        else:
            wanted[own] = [known[placement.slots[slot]] for slot in placement.slot_of_executor]
    if faults:
        raise InputError(GIVEN, faults)
    return wanted


def placement_fault(placement: TopologyAssignment, executors: int) -> str:
    """Return why a placement does not fit a topology with a number of executors; empty if it does."""
    placed = placement.slot_of_executor
    if len(placed) != executors:
        return f"is placed with {counted(len(placed), 'executor')}, and has {executors:,}: fetch the problem again"
    if any(not 0 <= slot < len(placement.slots) for slot in placed):
        return "has an executor without a slot in its placement"
    return ""


def require_whole_workers(problem: Problem, slots: IntArray, resized: Mapping[str, TopologyAssignment]) -> None:
    """Raise InputError if executors would be separated whose tuples cannot leave their worker.

    Parameters
    ----------
    problem
        The cluster, and the running placement.
    slots
        Wanted slot of every executor, shape (E,).
    resized
        Placement with other numbers of executors by topology id.
    """
    split = split_workers(problem, slots)
    for topology, placement in resized.items():
        why = problem.topologies[problem.topology_index[topology]].conf.get(CONFINED)
        if why and len(placement.slots) > len(problem.current[topology].slots):
            split[topology] = f"would be separated, and {why}"
    if split:
        raise InputError(GIVEN, [Fault(why, topology) for topology, why in split.items()])


def require_schedulable(problem: Problem, slots: IntArray, running: Problem | None = None) -> None:
    """Raise InputError if a worker would start on an unschedulable host.

    Parameters
    ----------
    problem
        The cluster, and the running placement.
    slots
        Wanted slot of every executor, shape (E,).
    running
        The problem before topologies got other numbers of executors, if they do: in `problem` they do not run.
    """
    cordoned = problem.cluster.node_blacklisted
    comes = np.flatnonzero((slots != problem.current_slot) & (slots != UNPLACED))
    comes = comes[cordoned[problem.slot_node[slots[comes]]]]
    entered = np.unique(np.stack([problem.executor_topology[comes], problem.slot_node[slots[comes]]]), axis=1)
    hosts = set()
    for topology, node in entered.T.tolist():
        now = running.current.get(problem.topologies[topology].id) if running else None
        if now is None or problem.supervisors[node].id not in {slot.supervisor for slot in now.slots}:
            hosts.add(problem.supervisors[node].host)
    if hosts:
        raise InputError(GIVEN, [Fault("is cordoned: `stormwright uncordon` it first", host) for host in sorted(hosts)])
