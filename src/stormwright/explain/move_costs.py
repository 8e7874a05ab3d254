"""What moving one executor to every other node would change in the cost."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from stormwright.model import UNPLACED, LoadProfile, Problem, TopologyLoad, cost_of
from stormwright.model.arrays import BoolArray, IndexArray, IntArray
from stormwright.model.problem import CHECKED


class MoveCosts:
    """What moving one executor changes in the cost, exactly: flows follow it.

    Only traffic from or to the executor, and flows to its component, change. All nodes of a rack that hold nothing of
    the topology are alike, so only one of them is computed.
    """

    def __init__(self, problem: Problem, topology: int, slots: IntArray) -> None:
        self.problem, self.index = problem, topology
        self.topology, self.load = problem.topologies[topology], problem.loads[topology]
        self.own: IntArray = slots[problem.executors_of(topology)]

    @cached_property
    def _roomy(self) -> Problem:
        """The topology alone, where every node has one slot more, in front, for a new worker."""
        nodes = tuple(replace(node, ports=(-1, *node.ports)) for node in self.problem.supervisors)
        # Its slots need no ports, so it is not checked.
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
        """Node → change of the cost, and the slot of the worker to join; None is a new one.

        A worker with as many executors as `limit` says, or in a slot that is `barred`, cannot be joined.
        Where several workers could be joined it is the one that makes the cost lowest, ties to the lower port.
        """
        problem = self._roomy.with_load(LoadProfile({self.topology.id: self._load_around(executor)}))
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

    def _load_around(self, executor: int) -> TopologyLoad:
        """The part of the load whose cost can change."""
        load = self.load
        component = int(self.topology.executor_component[executor])
        pairs: BoolArray = (load.pair_source == executor) | (load.pair_target == executor)
        # All flows to one component share what its executors can take.
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
            flow_grouping=tuple(g for g, kept in zip(load.flow_grouping, flows.tolist(), strict=True) if kept),
            pair_bytes_per_s=None,
            flow_bytes_per_s=None,
        )
