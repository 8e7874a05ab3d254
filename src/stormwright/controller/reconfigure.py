"""Other numbers of executors and another configuration: a topology gets them, and its workers their slots, in one move.

`stormwright.controller.move` makes it, and describes why a topology whose configuration changes has no worker for a
moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stormwright.controller.configuration import with_conf
from stormwright.controller.given import placement_fault
from stormwright.controller.planning.expected_pauses import starts_per_core
from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.model import UNPLACED, Problem, Topology, TopologyAssignment, WorkerSlot
from stormwright.model.answer import name_slots
from stormwright.model.arrays import IntArray
from stormwright.model.topology_config import BLOB_POLL, BLOB_POLL_S, number_of
from stormwright.plans.plan import Leg, Move, TopologyMove
from stormwright.predict.answer import Assumptions
from stormwright.predict.changes import rebalanced
from stormwright.predict.flow.profile import Profile

#: Seconds that a supervisor takes to fetch a configuration.
_FETCH_S = 1.0

#: First and last task of each executor of a worker.
_Tasks = frozenset[tuple[int, int]]


def fetch_s(conf: Mapping[str, Any]) -> float:
    """Return the seconds within which every supervisor of a cluster with the configuration `conf` has a new one."""
    return number_of(conf, BLOB_POLL, BLOB_POLL_S) + _FETCH_S


def other_executors(problem: Problem, wanted: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the wanted numbers of executors that differ from those that run.

    Parameters
    ----------
    problem
        Problem with the current numbers of executors.
    wanted
        Topology (id) → component (id) → executors.

    Raises
    ------
    InputError
        There is no such topology or component.
    """
    faults, found = list[Fault](), dict[str, dict[str, int]]()
    for topology, counts in wanted.items():
        if topology not in problem.topology_index:
            faults.append(Fault(f"no such topology{suggestion_for(topology, problem.topology_index)}", topology))
            continue
        now = problem.topologies[problem.topology_index[topology]].executor_counts
        faults += [
            Fault(f"no such component{suggestion_for(each, now)}", f"{topology}/{each}")
            for each in counts
            if each not in now
        ]
        if other := {each: count for each, count in counts.items() if each in now and count != now[each]}:
            found[topology] = other
    if faults:
        raise InputError("executors", faults)
    return found


def reconfigured(
    problem: Problem, executors: Mapping[str, Mapping[str, int]], conf: Mapping[str, Mapping[str, Any]]
) -> Problem:
    """Return the problem with other numbers of executors and configurations; these topologies do not run in it.

    Parameters
    ----------
    problem
        Problem with the topologies that run.
    executors
        As `other_executors` returns them.
    conf
        As `stormwright.controller.configuration.other_conf` returns it.

    Raises
    ------
    InputError
        A component has fewer tasks than executors are wanted.
    """
    counts: dict[int, dict[int, int]] = {}
    for topology in {**executors, **conf}:
        index = problem.topology_index[topology]
        component_index = problem.topologies[index].component_index
        counts[index] = {component_index[each]: count for each, count in executors.get(topology, {}).items()}
    return with_conf(rebalanced(problem, Profile.of(problem), Assumptions.of(problem).costs, counts), conf)


def by_tasks(before: Topology, after: Topology, placement: TopologyAssignment) -> TopologyAssignment:
    """Return a placement with other numbers of executors, each where most of its tasks are in the one of before."""
    order = np.argsort(before.executor_start_task)
    starts, ends = before.executor_start_task[order], before.executor_end_task[order]
    slots = []
    for first, last in zip(after.executor_start_task.tolist(), after.executor_end_task.tolist(), strict=True):
        common = slice(np.searchsorted(ends, first), np.searchsorted(starts, last, "right"))
        sizes = np.minimum(ends[common], last) - np.maximum(starts[common], first)
        slots.append(placement.slot_of_executor[order[common][np.argmax(sizes)]])
    used = sorted(set(slots))
    return TopologyAssignment(tuple(placement.slots[slot] for slot in used), tuple(used.index(slot) for slot in slots))


def reconfigured_slots(
    before: Problem, after: Problem, placements: Mapping[str, TopologyAssignment], source: str
) -> IntArray:
    """Return the slot of every executor after such topologies have come to their placements, shape (E,).

    A worker whose tasks run in one worker of its node already stays in its slot. A new one gets its port, unless it is
    taken, or is held by a worker that is about to end, which others would connect to
    (`stormwright.controller.planning.hops.make_move`): then another one of the node if there is any. Where the
    configuration changes, all have ended by then.

    Parameters
    ----------
    before, after
        What runs, and the result of `reconfigured`.
    placements
        Placement by topology id.
    source
        Origin of the placements, for errors.

    Raises
    ------
    InputError
        A slot is not there, all slots of its node are taken, or a placement has another number of executors.
    """
    slots, faults = after.current_slot.copy(), list[Fault]()
    taken = set(slots[slots != UNPLACED].tolist())
    occupied = set(before.current_slot[before.current_slot != UNPLACED].tolist())
    for topology, placement in placements.items():
        index = after.topology_index[topology]
        if wrong := placement_fault(placement, after.topologies[index].num_executors):
            faults.append(Fault(wrong, topology))
            continue
        if (before.current_slot[before.executors_of(before.topology_index[topology])] == UNPLACED).any():
            faults.append(Fault("has executors without a slot now", topology))
            continue
        # Others hold their slots until their own step.
        held = set(before.current_slot[before.executors_of(index)].tolist())
        avoided = held if before.topologies[index].conf == after.topologies[index].conf else set()
        running = {tasks: slot for slot, tasks in _tasks(before.topologies[index], before.current[topology]).items()}
        planned = _tasks(after.topologies[index], placement)
        ports = {
            slot: after.slot_index[same]
            for slot in placement.slots
            if (same := running.get(planned[slot])) is not None and same.supervisor == slot.supervisor
        }
        taken.update(ports.values())
        for slot in placement.slots:
            if slot not in ports and (port := _port(after, slot, taken | (occupied - held), avoided)) is not None:
                ports[slot] = port
                taken.add(port)
        if len(ports) == len(placement.slots):
            slots[after.executors_of(index)] = [ports[placement.slots[each]] for each in placement.slot_of_executor]
        else:
            faults.append(Fault("should run where no slot is free for it", topology))
    if faults:
        raise InputError(source, faults)
    return slots


def _port(problem: Problem, wished: WorkerSlot, taken: set[int], avoided: set[int]) -> int | None:
    """Return the slot of a worker: the wished one, else another one of its node; None if all are taken."""
    node = problem.node_index.get(wished.supervisor)
    if node is None:
        return None
    here = [slot for slot in np.flatnonzero(problem.slot_node == node).tolist() if slot not in taken]
    here.sort(key=lambda slot: (slot in avoided, problem.slots[slot] != wished, slot))
    return here[0] if here else None


def reconfigure_steps(
    before: Problem,
    after: Problem,
    slots: IntArray,
    executors: Mapping[str, Mapping[str, int]],
    conf: Mapping[str, Mapping[str, Any]],
    earlier: Collection[str] = (),
) -> tuple[Move, ...]:
    """Return a step for each topology with other executors or another configuration.

    Parameters
    ----------
    before, after
        What runs, and the result of `reconfigured`.
    slots
        Slot of every executor after that, from `reconfigured_slots`.
    executors, conf
        As given to `reconfigured`.
    earlier
        Topologies (ids) that move before, and may make room.
    """
    steps = (
        _step(before, after, slots, topology, executors.get(topology, {}), conf.get(topology, {}))
        for topology in {**executors, **conf}
    )
    return tuple(replace(step, depends_on=frozenset(earlier)) for step in steps)


def _step(
    before: Problem,
    after: Problem,
    slots: IntArray,
    topology: str,
    executors: Mapping[str, int],
    conf: Mapping[str, Any],
) -> Move:
    old, new = (each.topologies[each.topology_index[topology]] for each in (before, after))
    was = before.current[topology]
    placed = name_slots(after, slots[after.executors_of(after.topology_index[topology])])
    running, planned = _tasks(old, was), _tasks(new, placed)
    unchanged = tuple(slot for slot, tasks in planned.items() if not conf and running.get(slot) == tasks)
    stopped = tuple(slot for slot in running if slot not in unchanged)
    started = tuple(slot for slot in planned if slot not in unchanged)
    vacated = {slot.supervisor for slot in running} - {slot.supervisor for slot in planned}
    now = old.executor_counts
    legs: tuple[Leg, ...] = (Leg(placed, stopped, started, unchanged, tuple(sorted(vacated))),)
    if conf:
        nowhere = TopologyAssignment((), (UNPLACED,) * new.num_executors)
        left = tuple(sorted({slot.supervisor for slot in running}))
        legs = (Leg(nowhere, stopped, (), (), left), Leg(placed, (), started, (), ()))
    move = TopologyMove(
        topology=topology,
        name=old.name,
        before=was,
        after=placed,
        moved_executors=sum(len(planned[slot]) for slot in started),
        stopped_workers=stopped,
        started_workers=started,
        unchanged_workers=unchanged,
        legs=legs,
        num_workers=len(placed.slots),
        executors=dict(executors),
        executors_before={component: now[component] for component in executors},
        conf=dict(conf),
        conf_before={key: old.conf.get(key) for key in conf},
    )
    wait_s = fetch_s(before.conf) if conf else 0.0
    return Move((move,), starts_per_core=starts_per_core(before, (move,)), wait_s=wait_s)


def _tasks(topology: Topology, placed: TopologyAssignment) -> dict[WorkerSlot, _Tasks]:
    """Return the executors of each worker by their tasks, by which a supervisor knows whether it goes on."""
    runs: Iterable[tuple[int, int]] = zip(
        topology.executor_start_task.tolist(), topology.executor_end_task.tolist(), strict=True
    )
    found: dict[WorkerSlot, set[tuple[int, int]]] = {slot: set() for slot in placed.slots}
    for slot, tasks in zip(placed.slot_of_executor, runs, strict=True):
        found[placed.slots[slot]].add(tasks)
    return {slot: frozenset(tasks) for slot, tasks in found.items()}
