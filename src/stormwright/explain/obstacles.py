"""Obstacles between executors and nodes under a placement."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import numpy as np

from stormwright.explain.explanation import RuledOutNodes, count_first, status_text
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.constraints.blacklist import closed_nodes
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, PlacedExecutors, node_sum
from stormwright.model.constraints.isolation import isolated
from stormwright.model.constraints.requests import MAX_HEAP, RequestLimits, requested_heap
from stormwright.model.constraints.users import UserLimits, user_of
from stormwright.model.humanize import amount, counted
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from stormwright.schedulers.toolkit.registry import extra_limits


def status_texts(problem: Problem, assignment: Assignment, topologies: Collection[str]) -> dict[str, str]:
    """Return topology id → Storm's status text, for topologies with executors that `assignment` gives no slot.

    The text is about one executor: of every component the one with the highest CPU request (ties: most memory, then the
    first), and of these the one with most ruled-out nodes (ties: the first component).
    """
    state = Obstacles(problem, assignment)
    everywhere = np.ones(len(problem.supervisors), dtype=bool)
    texts = {}
    for name in topologies:
        topology = problem.topology_index[name]
        candidates = [
            (executor, count_first(state.of(topology, executor), everywhere))
            for executor in state.most_demanding(topology)
        ]
        executor, counts = max(candidates, key=lambda candidate: sum(count.nodes for count in candidate[1]))
        component = state.component(topology, executor)
        reasons = state.scheduler_reasons(topology, executor)
        texts[name] = status_text(assignment.scheduler, reasons, component, counts, len(everywhere))
    return texts


class _Requested:
    """Requests of a placement's executors, on a cluster with the ResourceAwareScheduler."""

    def __init__(self, limits: RequestLimits, placed: PlacedExecutors) -> None:
        self.limits, self._placed = limits, placed

    @cached_property
    def left(self) -> FloatArray:
        """Capacity of nodes beyond all requests, with a tolerance, shape (2, N)."""
        used = np.stack([self._placed.sum_by_node(demand) for demand in self.limits.demand])
        left: FloatArray = self.limits.capacity * (1 + RELATIVE_TOLERANCE) - used
        return left

    @cached_property
    def heap(self) -> FloatArray:
        """Memory on the heap that the executors of every worker request and share, in MB, shape (W,)."""
        return requested_heap(self._placed, self.limits.heap, self.limits.shared)


class Obstacles:
    """Remaining capacity of every node under a placement, and the obstacles that follow from it.

    Executors are numbered within their topology.

    Attributes
    ----------
    slots
        Slot of every executor of the problem, shape (E,).
    left
        Free amount of each resource on every node, with a tolerance, shape (K, N).
    free_slots
        On every node, shape (N,).
    """

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self._problem, self._assignment = problem, assignment
        self.slots: IntArray = assignment.slot_of_executor
        self._extra = extra_limits(assignment)
        self.left: FloatArray = problem.node_capacity * (1 + RELATIVE_TOLERANCE)
        for limit in self._extra:
            self.left = limit.capacity(self.left)
        self.left = self.left - [node_sum(problem, self.slots, demand) for demand in problem.executor_demand]
        nodes = problem.supervisors
        self._ports: IndexArray = np.array([len(node.ports) for node in nodes], dtype=np.int64)
        used = np.unique(self.slots[self.slots != UNPLACED])
        self.free_slots: IndexArray = self._ports - np.bincount(problem.slot_node[used], minlength=len(nodes))
        self._closed = closed_nodes(problem)
        self._reasons = {(u.topology, u.executor): u.reasons for u in assignment.unplaced}
        self._placed = PlacedExecutors(problem, self.slots)
        limits = RequestLimits.of(problem)
        self._requested = None if limits is None else _Requested(limits, self._placed)
        self._isolated = isolated(problem)

    def component(self, topology: int, executor: int) -> str:
        """Return the id of an executor's component."""
        definition = self._problem.topologies[topology]
        component: str = definition.components[definition.executor_component[executor]].id
        return component

    def reasons(self, topology: int, executor: int) -> tuple[str, ...]:
        """Return the scheduler's reasons for an executor."""
        return self._reasons.get((self._problem.topologies[topology].id, executor), ())

    def scheduler_reasons(self, topology: int, executor: int) -> tuple[str, ...]:
        """Return the scheduler's reasons for an executor, or else for its topology."""
        status = self._assignment.status.get(self._problem.topologies[topology].id, "")
        topology_reasons = (status.removeprefix(f"{self._assignment.scheduler}: "),) if status else ()
        return self.reasons(topology, executor) or topology_reasons

    def own_slots(self, topology: int) -> IntArray:
        """Return the slots of the executors of a topology that have one."""
        own = self.slots[self._problem.executors_of(topology)]
        placed: IntArray = own[own != UNPLACED]
        return placed

    def most_demanding(self, topology: int) -> list[int]:
        """Return, for every component with unplaced executors, the one with the highest CPU request, then memory."""
        problem, own = self._problem, self._problem.executors_of(topology)
        waiting = np.flatnonzero(self.slots[own] == UNPLACED)
        cpu_hz, memory_mb = problem.executor_cpu_hz[own][waiting], problem.executor_memory_mb[own][waiting]
        ranked = waiting[np.lexsort((waiting, -memory_mb, -cpu_hz))]
        _, first = np.unique(problem.topologies[topology].executor_component[ranked], return_index=True)
        most: list[int] = ranked[first].tolist()
        return most

    def shortages(self, topology: int) -> Iterator[str]:
        """Yield the total lack of all unplaced executors of a topology on the usable nodes."""
        problem, definition = self._problem, self._problem.topologies[topology]
        own = np.arange(problem.num_executors)[problem.executors_of(topology)]
        waiting = own[self.slots[own] == UNPLACED]
        usable = problem.node_usable
        workers = min(definition.num_workers, definition.num_executors)
        missing = max(workers - len(np.unique(self.own_slots(topology))), 0)
        free = int(self.free_slots[usable].sum())
        nodes = f"on {counted(int(np.count_nonzero(usable)), 'usable node')} together"
        if missing > free:
            yield f"{counted(missing, 'worker slot')} wanted, {free} free {nodes}"
        limit = max_executors_per_worker(definition)
        if workers * limit < definition.num_executors:
            enough = f"{counted(workers, 'worker')} of at most {counted(limit, 'executor')}"
            yield f"{enough} cannot take {definition.num_executors}"
        for resource, demand, room in zip(problem.resources, problem.executor_demand, self.left, strict=True):
            short_by = float(demand[waiting].sum() - np.maximum(room[usable], 0).sum())
            if short_by > 0:
                short = f"{resource.name} short by {amount(short_by, resource.unit)}"
                yield f"{short} {nodes} for its {counted(len(waiting), 'executor')} without a slot"

    def of(self, topology: int, executor: int) -> list[RuledOutNodes]:
        """Return the obstacles of an executor by nodes; the first obstacle of a node is the one that counts."""
        problem, named = self._problem, self._problem.topologies[topology]
        e = int(problem.executor_offset[topology]) + executor
        component = int(named.executor_component[executor])
        found = [
            *(RuledOutNodes(*closed) for closed in self._closed),
            *(RuledOutNodes(*no) for limit in self._extra for no in limit.forbids(problem, topology, component)),
            *self._hosts_of_others(topology),
            *self._crowded(topology, executor),
            *self._over_user_limit(topology, executor),
            *self._over_heap_request(topology, e),
            *self._full(topology, executor),
            *self._short(problem.executor_demand[:, [e]]),
            *self._short_of_requests(e),
        ]
        return [one for one in found if one.nodes.any()]

    def _hosts_of_others(self, topology: int) -> Iterator[RuledOutNodes]:
        """Yield nodes on the hosts of isolated topologies, and, for an isolated one, those that it may not have."""
        if not self._isolated:
            return
        problem, (owners, slots, _) = self._problem, self._placed.workers
        hosts = np.array([node.host for node in problem.supervisors])
        host_of_worker = hosts[problem.slot_node[slots]]
        own = np.unique(host_of_worker[owners == topology])
        for other in np.unique(owners[owners != topology]).tolist():
            if topology in self._isolated or other in self._isolated:
                there = np.isin(hosts, host_of_worker[owners == other]) & ~np.isin(hosts, own)
                isolated_one = problem.topologies[topology if topology in self._isolated else other].id
                text = f"{problem.topologies[other].id} is on its host, and {isolated_one} is isolated"
                yield RuledOutNodes("isolation", text, there)
        allowed = self._isolated.get(topology)
        if allowed is not None and len(own) >= allowed:
            text = f"its topology is isolated on {counted(allowed, 'host')}, and these are others"
            yield RuledOutNodes("isolation", text, ~np.isin(hosts, own))

    def _over_user_limit(self, topology: int, executor: int) -> Iterator[RuledOutNodes]:
        """Yield all nodes if one more executor of an executor's user is beyond a limit."""
        problem, e = self._problem, int(self._problem.executor_offset[topology]) + executor
        if self.slots[e] != UNPLACED or not problem.slots or not UserLimits().allowed(problem):
            return
        slots, own = self.slots.copy(), self.own_slots(topology)
        # Where it is does not matter, but for whether it takes a slot more.
        slots[e] = own[0] if len(own) else next((s for s in range(len(problem.slots)) if s not in slots), 0)
        user = user_of(problem.topologies[topology])
        for exceeded in UserLimits().violations(PlacedExecutors(problem, slots)):
            if exceeded.user == user:
                yield RuledOutNodes("users", str(exceeded), np.ones(len(problem.supervisors), bool))

    def _over_heap_request(self, topology: int, e: int) -> Iterator[RuledOutNodes]:
        """Yield all nodes for an executor that requests more heap than a worker of its topology may have."""
        if self._requested is None:
            return
        wanted, most = float(self._requested.limits.heap[e]), float(self._requested.limits.most_heap[topology])
        if wanted > most * (1 + RELATIVE_TOLERANCE):
            text = f"{wanted:,.0f} MB of heap requested, and {MAX_HEAP} allows a worker {most:,.0f}"
            yield RuledOutNodes("heap of a worker", text, np.ones(len(self._problem.supervisors), bool))

    def _short_of_requests(self, e: int) -> Iterator[RuledOutNodes]:
        """Yield nodes that have too little left for the request of an executor, under the ResourceAwareScheduler."""
        if self._requested is None:
            return
        lacking = self._requested.limits.demand[:, [e]] - self._requested.left
        for short, name, unit in zip(lacking, ("CPU", "memory"), ("%", "MB"), strict=True):
            yield RuledOutNodes(f"requested {name}", f"requested {name}", short > 0, short, unit)

    def _without_heap(self, topology: int, executor: int) -> BoolArray:
        """Return for each worker of a topology, by slot, whether one executor more requests too much heap."""
        own = self._placed.workers.topology == topology
        if self._requested is None:
            return np.zeros(np.count_nonzero(own), bool)
        limits = self._requested.limits
        wanted = limits.heap[int(self._problem.executor_offset[topology]) + executor]
        full: BoolArray = self._requested.heap[own] + wanted > limits.most_heap[topology] * (1 + RELATIVE_TOLERANCE)
        return full

    def _short(self, demand: FloatArray) -> Iterator[RuledOutNodes]:
        """Yield resources that nodes have too little left of for a demand, shape (K, 1); memory comes before CPU.

        An executor without a request for a generic resource can go where it is overcommitted.
        """
        lacking = demand - self.left
        lacking[2:] = np.where(demand[2:] > 0, lacking[2:], 0.0)
        for position in (1, 0, *range(2, len(lacking))):
            name, unit = self._problem.resources[position]
            yield RuledOutNodes(name, name, lacking[position] > 0, lacking[position], unit)

    def clashing(self, topology: int, executor: int) -> frozenset[int]:
        """Return the slots of a topology's workers with executors that one may not share a worker with."""
        limits = self._problem.component_limits.get(topology)
        if limits is None:
            return frozenset()
        slots = self.slots[self._problem.executors_of(topology)]
        component = self._problem.topologies[topology].executor_component
        foes = limits.incompatible[component[executor], component] & (slots != UNPLACED)
        foes[executor] = False
        return frozenset(slots[foes].tolist())

    def _crowded(self, topology: int, executor: int) -> Iterator[RuledOutNodes]:
        problem, definition = self._problem, self._problem.topologies[topology]
        limits = problem.component_limits.get(topology)
        if limits is None:
            return
        slots, component = self.slots[problem.executors_of(topology)], definition.executor_component[executor]
        alike = slots[(definition.executor_component == component) & (slots != UNPLACED)]
        there = np.bincount(problem.slot_node[alike], minlength=len(problem.supervisors))
        for count in np.unique(there[there >= limits.most_on_node[component]]).tolist():
            yield RuledOutNodes(
                "crowded",
                f"{counted(count, 'executor')} of {definition.components[component].id} already, the limit",
                there == count,
            )

    def _full(self, topology: int, executor: int) -> Iterator[RuledOutNodes]:
        """Yield nodes where the executor can neither join a worker of its topology nor start a new one."""
        problem, definition = self._problem, self._problem.topologies[topology]
        wanted, limit = min(definition.num_workers, definition.num_executors), max_executors_per_worker(definition)
        own, sizes = np.unique(self.own_slots(topology), return_counts=True)
        clash = np.isin(own, list(self.clashing(topology, executor)))
        no_heap = self._without_heap(topology, executor)
        # An executor that runs may open a worker elsewhere: its cost depends on their number then.
        running = self.slots[int(problem.executor_offset[topology]) + executor] != UNPLACED
        may_open = running or len(own) < wanted
        held, joinable = np.zeros((2, len(problem.supervisors)), dtype=bool)
        held[problem.slot_node[own[~clash]]] = True
        joinable[problem.slot_node[own[~clash & ~no_heap & (sizes < limit)]]] = True
        foes = np.bincount(problem.slot_node[own[clash]], minlength=len(problem.supervisors))
        free = self.free_slots > 0
        closed = ~joinable & ~(free & may_open)
        heap_lacks = np.isin(np.arange(len(free)), problem.slot_node[own[~clash & no_heap & (sizes < limit)]])
        yield RuledOutNodes("heap of a worker", "no heap left in the workers of its topology", closed & heap_lacks)
        every = f"{counted(limit, 'executor')} in every worker of its topology, the limit"
        yield RuledOutNodes("executors per worker", every, closed & held)
        for count in np.unique(foes[closed & (foes > 0)]).tolist():
            text = f"incompatible components in {counted(count, 'worker')} of its topology"
            yield RuledOutNodes("incompatible", text, closed & (foes == count))
        for ports in np.unique(self._ports[closed & ~free]).tolist():
            text = f"no free worker slot of {ports}"
            yield RuledOutNodes("slots", text, closed & ~free & (self._ports == ports))
        yield RuledOutNodes("workers", _elsewhere(wanted), closed & free)


def _elsewhere(workers: int) -> str:
    if workers == 1:
        return "the only worker of its topology is elsewhere"
    return f"all {counted(workers, 'worker')} of its topology are elsewhere"
