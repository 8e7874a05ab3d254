"""Capacity between moves: slot holders and free resources of nodes, updated move by move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from stormwright.controller.planning.order import Missing
from stormwright.controller.planning.places import SLOTS, Measure, NodeWorkers, TakenResources, WorkerLoads, workers_of
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE


class MoveRoom:
    """State of the cluster between two moves.

    The use of a resource never exceeds the node's capacity or, if it did before, its earlier use. Without `cpu_limits`
    this does not apply to CPU.

    Attributes
    ----------
    now
        Slot of every executor, shape (E,).
    places
        Place of every topology.
    used, most
        Current and maximum use, shape (R, N).
    node_of
        Node of each slot.
    wanted
        Number of topologies still to enter a node or to take more of it, shape (N,).
    version
        Counter of moves.
    """

    def __init__(self, problem: Problem, target: IntArray, cpu_limits: bool = True) -> None:
        self.problem = problem
        self.version = 0
        self.measure = Measure(problem, cpu_limits)
        self.target = target
        self.now: IntArray = problem.current_slot.copy()
        self.places = self.measure.places(self.now, target)
        self.used = self.measure.use(self.places)
        self.most: FloatArray = self.measure.capacity * (1 + RELATIVE_TOLERANCE)
        placed = self.now != UNPLACED
        self._holder = np.full(len(problem.slots), UNPLACED, dtype=np.int32)
        self._holder[self.now[placed]] = problem.executor_topology[placed]
        #: Original state with workers and loads of unmoved topologies, and the topologies moved since.
        self._base: MoveRoom | None = None
        self._moved: set[int] = set()
        self._workers: dict[int, NodeWorkers] = {}
        self._target_workers: dict[int, NodeWorkers] = {}
        self._loads: dict[int, WorkerLoads] = {}
        self._arrived: dict[int, TakenResources] = {}
        self.node_of: list[int] = problem.slot_node.tolist()
        nodes = np.arange(len(problem.supervisors) + 1)
        self._first_slot: list[int] = np.searchsorted(problem.slot_node, nodes).tolist()
        self.wanted: IndexArray = np.zeros(len(problem.supervisors), dtype=np.int64)
        for place in self.places:
            self.wanted[place.entered] += 1

    def copy(self) -> MoveRoom:
        """Return an independent copy in which moves can be tried."""
        other = object.__new__(MoveRoom)
        other.__dict__ = self.__dict__ | {
            "_base": self,
            "_moved": set(),
            "now": self.now.copy(),
            "places": list(self.places),
            "used": self.used.copy(),
            "wanted": self.wanted.copy(),
            "_holder": self._holder.copy(),
            "_workers": dict(self._workers),
            "_loads": dict(self._loads),
        }
        return other

    def workers(self, topology: int) -> NodeWorkers:
        """Return the current workers of a topology."""
        if topology not in self._workers:
            base = None if topology in self._moved else self._base
            own = self.problem.executors_of(topology)
            self._workers[topology] = base.workers(topology) if base else workers_of(self.now[own])
        return self._workers[topology]

    def target_workers(self, topology: int) -> NodeWorkers:
        """Return the workers of a topology at its target."""
        if topology not in self._target_workers:
            self._target_workers[topology] = workers_of(self.target[self.problem.executors_of(topology)])
        return self._target_workers[topology]

    def loads(self, topology: int) -> WorkerLoads:
        """Return the current demand of the workers of a topology, without isolation."""
        if topology not in self._loads:
            base = None if topology in self._moved else self._base
            self._loads[topology] = base.loads(topology) if base else self._loads_of(topology)
        return self._loads[topology]

    def _loads_of(self, topology: int) -> WorkerLoads:
        demand = self.problem.executor_demand[:, self.problem.executors_of(topology)]
        return WorkerLoads.of_workers(demand, self.workers(topology))

    def workers_on(self, node: int) -> list[tuple[int, int]]:
        """Return topology and slot of each worker on a node."""
        first, end = self._first_slot[node], self._first_slot[node + 1]
        held = [(of, slot) for slot, of in enumerate(self._holder[first:end].tolist(), first) if of != UNPLACED]
        return [(of, slot) for of, slot in held if slot in self.workers(of)]

    def left(self, nodes: IndexArray, used: FloatArray | None = None) -> FloatArray:
        """Return the free resources of nodes, shape (R, M); of an overcommitted node only a rounding margin.

        `used` is what is in use of all nodes, where that is not what is in use now.
        """
        used = (self.used if used is None else used).take(nodes, axis=1)
        room: FloatArray = np.maximum(self.most.take(nodes, axis=1) - used, RELATIVE_TOLERANCE * used)
        return room

    def short(self, topology: int) -> tuple[IndexArray, IndexArray]:
        """Return rows and columns of resources that a topology lacks to move to its target alone."""
        place = self.places[topology]
        rows, columns = np.nonzero(place.change > self.left(place.nodes))
        return rows, columns

    def fits(self, topology: int) -> bool:
        """Return whether a topology can move to its target alone."""
        place = self.places[topology]
        return not (place.change > self.left(place.nodes)).any()

    def missing(self, topology: int) -> tuple[Missing, ...]:
        """Return the resources that a topology lacks to move to its target alone."""
        place = self.places[topology]
        rows, columns = self.short(topology)
        lacking = (place.change - self.left(place.nodes))[rows, columns]
        return tuple(
            Missing(
                self.problem.cluster.node_names[place.nodes[column]],
                self.measure.names[row],
                float(round(amount) if row == SLOTS else amount),
                self.measure.units[row],
            )
            for row, column, amount in zip(rows.tolist(), columns.tolist(), lacking.tolist(), strict=True)
        )

    def free_ports(self, node: int, leaving: Collection[int]) -> tuple[list[int], list[int]]:
        """Return the free slots of a node, and those held only by topologies that are `leaving`."""
        first, end = self._first_slot[node], self._first_slot[node + 1]
        holders = self._holder[first:end].tolist()
        free = [first + port for port, holder in enumerate(holders) if holder == UNPLACED]
        return free, [first + port for port, holder in enumerate(holders) if holder in leaving]

    def is_free(self, slots: Iterable[int], topologies: Collection[int]) -> bool:
        """Return whether slots are free or held only by the given topologies."""
        return bool(np.isin(self._holder[list(slots)], (UNPLACED, *topologies)).all())

    def places_in(self, slots: Mapping[int, IntArray]) -> dict[int, TakenResources]:
        """Return the places of topologies in the slots of their executors and at their targets."""
        return {topology: self._place(topology, own) for topology, own in slots.items()}

    def put(
        self,
        slots: Mapping[int, IntArray],
        places: Mapping[int, TakenResources] | None = None,
        workers: Mapping[int, NodeWorkers] | None = None,
    ) -> None:
        """Move topologies together to the slots of their executors; they may take over each other's slots.

        `places` are `places_in` the slots, and `workers` those in them, where they are known.
        """
        places = self.places_in(slots) if places is None else places
        self.version += 1
        self._moved.update(slots)
        for topology in slots:
            self._holder[self.now[self.problem.executors_of(topology)]] = UNPLACED
        for topology, own in slots.items():
            self.now[self.problem.executors_of(topology)] = own
            self._workers.pop(topology, None)
            if workers:
                self._workers[topology] = workers[topology]
            self._loads.pop(topology, None)
            self._holder[own] = topology
            self._take(topology, places[topology])

    def put_worker(self, topology: int, slot: int, to: int) -> None:
        """Move one worker to a free slot of another node; the slot that it leaves stays held."""
        own, workers = self.problem.executors_of(topology), self.workers(topology)
        members = workers[slot]
        if self.measure.share is not None:
            slots = self.now[own].copy()
            slots[members] = to
            self.put({topology: slots})
            self.hold([slot], topology)
            return
        columns, amounts = self.loads(topology)
        self.version += 1
        self._moved.add(topology)
        self.now[own.start + members] = to
        self._holder[to] = topology
        self._workers[topology] = dict(sorted((to if at == slot else at, each) for at, each in workers.items()))
        load = amounts[:, columns[slot]]
        self._loads[topology] = WorkerLoads({to if at == slot else at: each for at, each in columns.items()}, amounts)
        place = self._place_beside(topology, self.node_of[slot], self.node_of[to], load)
        self.used[:, self.node_of[slot]] -= load
        self.used[:, self.node_of[to]] += load
        for node in {self.node_of[slot], self.node_of[to]}:
            self.wanted[node] += int(place.is_entered(node)) - int(self.places[topology].is_entered(node))
        self.places[topology] = place

    def _take(self, topology: int, place: TakenResources) -> None:
        old = self.places[topology]
        for used, less, more in zip(self.used, old.before, place.before, strict=True):  # faster than all at once
            used[old.nodes] -= less
            used[place.nodes] += more
        self.wanted[old.entered] -= 1
        self.wanted[place.entered] += 1
        self.places[topology] = place

    def hold(self, slots: Iterable[int], topology: int) -> None:
        """Mark slots as held by a topology, with or without workers; -1 releases them."""
        self._holder[list(slots)] = topology

    def _arrived_place(self, topology: int) -> TakenResources:
        if topology not in self._arrived:
            self._arrived[topology] = self.places[topology].arrived
        return self._arrived[topology]

    def _has_arrived(self, topology: int, now: IntArray) -> bool:
        """Return whether the slots `now` match the target: the same workers, each on its target node."""
        target, nodes_of = self.target[self.problem.executors_of(topology)], self.problem.slot_node
        if not np.array_equal(nodes_of[now], nodes_of[target]):
            return False
        together = np.unique(now.astype(np.int64) * len(nodes_of) + target)  # pairs of slots that share executors
        return len(together) == len(np.unique(now)) == len(np.unique(target))

    def _place_beside(self, topology: int, left: int, entered: int, load: FloatArray) -> TakenResources:
        """Return the place of a topology after one worker moved between nodes; without isolated topologies."""
        old = self.places[topology]
        if self._has_arrived(topology, self.now[self.problem.executors_of(topology)]):
            return self._arrived_place(topology)
        nodes, before, after = old.nodes, old.before.copy(), old.after
        # Not what was there without the load: a rest from rounding would be something that is taken.
        columns, amounts = self._loads[topology]
        stays = [column for slot, column in columns.items() if self.node_of[slot] == left]
        before[:, old.column[left]] = amounts[:, stays].sum(axis=1) if stays else 0.0
        if entered in old.column:
            before[:, old.column[entered]] += load
        else:
            at = int(np.searchsorted(nodes, entered))
            none = np.zeros((len(before), 1))
            nodes = np.concatenate([nodes[:at], [entered], nodes[at:]])
            before = np.concatenate([before[:, :at], load[:, None], before[:, at:]], axis=1)
            after = np.concatenate([after[:, :at], none, after[:, at:]], axis=1)
        return TakenResources(nodes, before, after)

    def _place(self, topology: int, now: IntArray) -> TakenResources:
        """Return the place of a topology in the slots `now` and at its target."""
        own, nodes_of, hosts = self.problem.executors_of(topology), self.problem.slot_node, self.measure.host_node
        there, arrived = nodes_of[now], self._arrived_place(topology)
        if self._has_arrived(topology, now):
            return arrived
        isolates = self.measure.share is not None
        nodes = np.unique(np.concatenate([there, arrived.nodes, *([hosts[there]] if isolates else [])]))
        at, workers = np.searchsorted(nodes, there), np.searchsorted(nodes, nodes_of[np.unique(now)])
        before, after = np.zeros((2, len(self.used), len(nodes)))
        before[SLOTS] = np.bincount(workers, minlength=len(nodes))
        for row, demand in enumerate(self.problem.executor_demand[:, own], 1):
            before[row] = np.bincount(at, weights=demand, minlength=len(nodes))
        if self.measure.share is not None:
            before[-1, np.searchsorted(nodes, hosts[there])] = self.measure.share[topology]
        after[:, np.searchsorted(nodes, arrived.nodes)] = arrived.after
        return TakenResources(nodes, before, after)
