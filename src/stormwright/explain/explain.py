"""Explanation of an executor without a slot, or of moves of a placed one: every node's obstacles, counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError, nearest, suggestion_for
from stormwright.explain.explanation import ComponentExplanation, NodeVerdict, RuledOutNodes, count_first
from stormwright.explain.obstacles import Obstacles
from stormwright.model import UNPLACED, Assignment, LoadProfile, Problem, TopologyLoad, cost_of
from stormwright.model.arrays import BoolArray, IndexArray, IntArray
from stormwright.model.problem import CHECKED, topologies_called
from stormwright.schedulers.toolkit.limits import max_executors_per_worker


class MoveCosts:
    """Exact change of the cost by moving one executor: flows follow it.

    Only traffic from or to the executor, and flows to its component, change. All nodes of a rack without any executor
    of the topology are alike, so only one of them is computed.
    """

    def __init__(self, problem: Problem, topology: int, slots: IntArray) -> None:
        self.problem, self.index = problem, topology
        self.topology, self.load = problem.topologies[topology], problem.loads[topology]
        self.own: IntArray = slots[problem.executors_of(topology)]

    @cached_property
    def _roomy(self) -> Problem:
        """The topology alone, where every node has one slot more, in front, for a new worker."""
        nodes = tuple(replace(node, ports=(-1, *node.ports)) for node in self.problem.supervisors)
        # Its slots need no ports, so it is not validated.
        return Problem(nodes, (self.topology,), core_hz=self.problem.core_hz, parts=CHECKED)

    @cached_property
    def _new_slot(self) -> IndexArray:
        """The extra slot of every node."""
        ports = [len(node.ports) + 1 for node in self.problem.supervisors]
        return np.cumsum([0, *ports[:-1]]) if ports else np.empty(0, np.int64)

    @cached_property
    def _placed(self) -> IntArray:
        """`own` in terms of the slots of `_roomy`."""
        shifted = self.own + self.problem.slot_node[self.own] + 1 if len(self.problem.slots) else self.own
        result: IntArray = np.where(self.own == UNPLACED, UNPLACED, shifted).astype(np.int32)
        return result

    def changes(
        self, executor: int, limit: int, barred: frozenset[int] = frozenset()
    ) -> list[tuple[float, int | None]]:
        """Return node → change of the cost, and the slot of the worker to join; None is a new one.

        A worker with as many executors as `limit`, or in a slot that is `barred`, cannot be joined.
        If several workers could be joined it is the one that makes the cost lowest, ties to the lower port.
        """
        problem = self._roomy.with_load(LoadProfile({self.topology.id: self._surrounding_load(executor)}))
        before = cost_of(problem, self._placed).total

        def change(slot: int) -> float:
            moved = self._placed.copy()
            moved[executor] = slot
            return cost_of(problem, moved).total - before

        slots, sizes = np.unique(self.own[self.own != UNPLACED], return_counts=True)
        joinable: dict[int, list[int]] = {}
        held: set[int] = {
            int(self.problem.slot_node[slot]) for slot in np.delete(self.own, executor) if slot != UNPLACED
        }
        for slot, size in zip(slots.tolist(), sizes.tolist(), strict=True):
            if size < limit and slot not in barred:
                joinable.setdefault(int(self.problem.slot_node[slot]), []).append(slot)
        found: list[tuple[float, int | None]] = []
        far: dict[int, float] = {}
        for node in range(len(self.problem.supervisors)):
            if node in joinable:
                options = [(change(slot + node + 1), slot) for slot in joinable[node]]
                found.append(min(options))
            elif node in held:
                found.append((change(int(self._new_slot[node])), None))
            else:
                rack = int(self.problem.node_rack[node])
                if rack not in far:
                    far[rack] = change(int(self._new_slot[node]))
                found.append((far[rack], None))
        return found

    def _surrounding_load(self, executor: int) -> TopologyLoad:
        """Return the part of the load whose cost can change."""
        load = self.load
        component = int(self.topology.executor_component[executor])
        pairs: BoolArray = (load.pair_source == executor) | (load.pair_target == executor)
        # All flows to one component share the capacity of its executors.
        touched = [component, *load.flow_component[load.flow_source == executor]]
        flows: BoolArray = np.isin(load.flow_component, touched)
        return replace(
            load,
            pair_source=load.pair_source[pairs],
            pair_target=load.pair_target[pairs],
            pair_tps=load.pair_tps[pairs],
            flow_source=load.flow_source[flows],
            flow_component=load.flow_component[flows],
            flow_tps=load.flow_tps[flows],
            flow_grouping=tuple(g for g, others in zip(load.flow_grouping, flows.tolist(), strict=True) if others),
            pair_bytes_per_s=None,
            flow_bytes_per_s=None,
        )


def explain(
    problem: Problem, assignment: Assignment, topology: str | None = None, executor: int | None = None
) -> list[ComponentExplanation]:
    """Explain the given executors; by default, every executor without a slot.

    Parameters
    ----------
    problem, assignment
        The problem and its placement.
    topology
        Id or name of the one to explain: all its executors, or `executor` alone. The problem's only topology need not
        be named.
    executor
        Its number within the topology, from 0; None for all.

    Raises
    ------
    InputError
        There is no such topology or executor, or the executor's topology is not given.
    """
    return list(explanations(problem, assignment, topology, executor))


def explanations(
    problem: Problem,
    assignment: Assignment,
    topology: str | None = None,
    executor: int | None = None,
    *,
    only_unplaced: bool = False,
) -> Iterator[ComponentExplanation]:
    """Yield the results of `explain` one at a time, as each examines all nodes.

    Parameters
    ----------
    problem, assignment, topology, executor
        Problem with its placement, and the executors to explain, as for `explain`.
    only_unplaced
        Whether placed executors are left out.
    """
    state = _State(problem, assignment)
    if topology is None and executor is None:
        chosen = list(enumerate(range(t.num_executors) for t in problem.topologies))
        wanted = [(t, [e for e in own if state.slot(t, e) == UNPLACED]) for t, own in chosen]
    else:
        index = _find_topology(problem, topology)
        everyone = range(problem.topologies[index].num_executors)
        if executor is not None and executor not in everyone:
            last = f"its executors are 0 to {len(everyone) - 1}" if everyone else "it has none"
            why = f"{problem.topologies[index].id} has no such executor: {last}"
            raise InputError("--executor", [Fault(why, str(executor))])
        wanted = [(index, list(everyone) if executor is None else [executor])]
    for t, executors in wanted:
        yield from state.explain(t, [e for e in executors if not only_unplaced or state.slot(t, e) == UNPLACED])


def _find_topology(problem: Problem, name: str | None) -> int:
    if name is None:
        if len(problem.topologies) == 1:
            return 0
        ids = ", ".join(t.id for t in problem.topologies) or "none"
        why = f"is missing: executors are numbered within a topology; there are {ids}"
        raise InputError("--executor", [Fault(why, "--topology")])
    named = topologies_called(problem, name)
    if len(named) == 1:
        return named[0]
    if named:
        why = f"several topologies have this name; by id {', '.join(problem.topologies[index].id for index in named)}"
    else:
        near, names = nearest(name, problem.topology_index), {t.name for t in problem.topologies}
        why_not = suggestion_for(name, names if near is None or nearest(name, names) else [near])
        why = f"no such topology{why_not}"
    raise InputError("--topology", [Fault(why, name)])


class _State:
    """A placement, and the obstacles of its executors."""

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self.problem, self.assignment = problem, assignment
        self.obstacles = Obstacles(problem, assignment)
        self.slots = self.obstacles.slots

    def slot(self, topology: int, executor: int) -> int:
        """Return the slot of an executor, numbered within its topology."""
        return int(self.slots[int(self.problem.executor_offset[topology]) + executor])

    def explain(self, topology: int, executors: Sequence[int]) -> Iterator[ComponentExplanation]:
        """Yield explanations of executors without a slot, then of placed ones; identical executors together."""
        definition, first = self.problem.topologies[topology], int(self.problem.executor_offset[topology])
        alike: dict[tuple[Any, ...], list[int]] = {}
        for executor in executors:
            if self.slot(topology, executor) == UNPLACED:
                e = first + executor
                key = (
                    int(definition.executor_component[executor]),
                    float(self.problem.executor_cpu_hz[e]),
                    float(self.problem.executor_memory_mb[e]),
                    self.obstacles.reasons(topology, executor),
                )
                alike.setdefault(key, []).append(executor)
        for together in alike.values():
            yield self._explanation(topology, together)
        moves = MoveCosts(self.problem, topology, self.slots)
        running: dict[tuple[object, ...], list[ComponentExplanation]] = {}
        for executor in executors:
            if self.slot(topology, executor) != UNPLACED:
                one = self._explanation(topology, [executor], moves)
                running.setdefault(one.relevant_facts, []).append(one)
        for same in running.values():
            yield replace(same[0], executors=tuple(one.executors[0] for one in same))

    def _explanation(self, topology: int, executors: list[int], moves: MoveCosts | None = None) -> ComponentExplanation:
        """Return the explanation of identical unplaced executors, or of a placed one with the cost of moving it."""
        problem, definition, executor = self.problem, self.problem.topologies[topology], executors[0]
        slot = self.slot(topology, executor)
        elsewhere = np.ones(len(problem.supervisors), dtype=bool)
        if slot != UNPLACED:
            elsewhere[problem.slot_node[slot]] = False
        ruled_out = self.obstacles.of(topology, executor)
        verdicts = {node: self._verdict(node, ruled_out) for node in np.flatnonzero(elsewhere).tolist()}
        if moves:
            verdicts = self._with_costs(verdicts, moves, topology, executor)
        return ComponentExplanation(
            scheduler=self.assignment.scheduler,
            topology=definition.id,
            component=self.obstacles.component(topology, executor),
            executors=tuple(executors),
            slot=None if slot == UNPLACED else problem.cluster.slot_name(problem.slots[slot]),
            nodes=tuple(verdicts.values()),
            counts=count_first(ruled_out, elsewhere),
            scheduler_reasons=self.obstacles.scheduler_reasons(topology, executor),
            reasons=self.obstacles.reasons(topology, executor),
            status=self.assignment.status.get(definition.id, ""),
            workers_wanted=min(definition.num_workers, definition.num_executors),
            shortages=tuple(self.obstacles.shortages(topology)) if slot == UNPLACED else (),
        )

    def _verdict(self, node: int, ruled_out: Sequence[RuledOutNodes]) -> NodeVerdict:
        supervisor, name = self.problem.supervisors[node], self.problem.cluster.node_names[node]
        obstacles = tuple(one.at(node) for one in ruled_out if one.nodes[node])
        return NodeVerdict(name, supervisor.id, supervisor.host, obstacles)

    def _with_costs(
        self, verdicts: dict[int, NodeVerdict], moves: MoveCosts, topology: int, executor: int
    ) -> dict[int, NodeVerdict]:
        """Return the verdicts with the cost of moving an executor to each node."""
        limit = max_executors_per_worker(self.problem.topologies[topology])
        changes = moves.changes(executor, limit, self.obstacles.clashing(topology, executor))
        own, sizes = np.unique(self.obstacles.own_slots(topology), return_counts=True)
        # An executor that is alone in its worker takes this worker along.
        others = len(own) - int(sizes[own == self.slot(topology, executor)].sum() == 1)
        found = {}
        for node, verdict in verdicts.items():
            change, joins = changes[node]
            port = None if joins is None else self.problem.slots[joins].port
            found[node] = replace(verdict, cost_change=change, joins=port, workers=others + (port is None))
        return found
