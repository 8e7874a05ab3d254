"""Which slots are held and what nodes have left, kept up to date move by move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from stormwright.controller.places import SLOTS, Measure, Place
from stormwright.controller.plan import Missing
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.component_limits import count_components
from stormwright.model.constraints import RELATIVE_TOLERANCE


class Room:
    """The cluster between two moves.

    A node never comes to have more of a resource in use than it has, unless it had more before: then no more than that.

    Attributes
    ----------
    now
        Slot of every executor, shape (E,).
    places
        Of every topology.
    used
        What is in use, shape (R, N).
    """

    def __init__(self, problem: Problem, target: IntArray) -> None:
        self.problem = problem
        self.measure = Measure(problem)
        self.target = target
        self.now: IntArray = problem.current_slot.copy()
        self.places = self.measure.places(self.now, target)
        self.used = self.measure.use(self.places)
        self._most: FloatArray = self.measure.capacity * (1 + RELATIVE_TOLERANCE)
        placed = self.now != UNPLACED
        self._holder = np.full(len(problem.slots), UNPLACED, dtype=np.int64)
        self._holder[self.now[placed]] = problem.executor_topology[placed]

    def copy(self) -> Room:
        """Another one, to try moves in."""
        other = object.__new__(Room)
        other.__dict__ = self.__dict__ | {
            "now": self.now.copy(),
            "places": list(self.places),
            "used": self.used.copy(),
            "_holder": self._holder.copy(),
        }
        return other

    def left(self, nodes: IndexArray, used: FloatArray | None = None) -> FloatArray:
        """What more may be taken of nodes, shape (R, M); of a node that has less than is in use, rounding only.

        `used` is what is in use of all nodes, where that is not what is in use now.
        """
        used = (self.used if used is None else used)[:, nodes]
        room: FloatArray = np.maximum(self._most[:, nodes] - used, RELATIVE_TOLERANCE * used)
        return room

    def short(self, topology: int) -> tuple[IndexArray, IndexArray]:
        """Rows and columns of what is missing for a topology to move to its target alone."""
        place = self.places[topology]
        rows, columns = np.nonzero(place.change > self.left(place.nodes))
        return rows, columns

    def fits(self, topology: int) -> bool:
        """Whether a topology can move to its target alone."""
        place = self.places[topology]
        return not (place.change > self.left(place.nodes)).any()

    def missing(self, topology: int) -> tuple[Missing, ...]:
        """What is missing for that, in words and numbers."""
        place = self.places[topology]
        rows, columns = self.short(topology)
        lacking = (place.change - self.left(place.nodes))[rows, columns]
        return tuple(
            Missing(
                self.problem.supervisors[place.nodes[column]].id,
                self.measure.names[row],
                float(round(amount) if row == SLOTS else amount),
                self.measure.units[row],
            )
            for row, column, amount in zip(rows.tolist(), columns.tolist(), lacking.tolist(), strict=True)
        )

    def free_ports(self, node: int, leaving: Collection[int]) -> tuple[list[int], list[int]]:
        """Slots of a node that nobody holds, and those that only topologies hold that are `leaving`."""
        first, end = np.searchsorted(self.problem.slot_node, [node, node + 1]).tolist()
        holders = self._holder[first:end].tolist()
        free = [first + port for port, holder in enumerate(holders) if holder == UNPLACED]
        return free, [first + port for port, holder in enumerate(holders) if holder in leaving]

    def put(self, slots: Mapping[int, IntArray]) -> None:
        """Move topologies at one go to the slots of their executors; they may take over each other's."""
        for topology in slots:
            self._holder[self.now[self.problem.executors_of(topology)]] = UNPLACED
        for topology, own in slots.items():
            self.now[self.problem.executors_of(topology)] = own
            self._holder[own] = topology
            old, place = self.places[topology], self.place(topology, own)
            self.used[:, old.nodes] -= old.before
            self.used[:, place.nodes] += place.before
            self.places[topology] = place

    def moved(self, topology: int, slots: IntArray) -> int:
        """Executors of a topology whose slot changes when they go to `slots`."""
        return int(np.count_nonzero(self.now[self.problem.executors_of(topology)] != slots))

    def hold(self, slots: Iterable[int], topology: int) -> None:
        """Mark slots as held by a topology, whether it has workers there or not."""
        self._holder[list(slots)] = topology

    def place(self, topology: int, now: IntArray) -> Place:
        """What a topology takes in the slots `now` and at its target."""
        own = self.problem.executors_of(topology)
        demand, target = self.problem.executor_demand[:, own], self.target[own]
        nodes_of = self.problem.slot_node
        hosts = self.measure.host_node
        touched = np.union1d(nodes_of[now], nodes_of[target])
        nodes = np.union1d(touched, hosts[touched]) if self.measure.share is not None else touched
        sides = []
        for slots in (now, target):
            at = np.searchsorted(nodes, nodes_of[slots])
            workers = np.searchsorted(nodes, nodes_of[np.unique(slots)])
            rows = [np.bincount(workers, minlength=len(nodes)).astype(float)]
            rows += [np.bincount(at, weights=each, minlength=len(nodes)) for each in demand]
            if self.measure.share is not None:
                isolation = np.zeros(len(nodes))
                isolation[np.searchsorted(nodes, hosts[nodes_of[slots]])] = self.measure.share[topology]
                rows.append(isolation)
            sides.append(np.array(rows))
        return Place(nodes, *sides)

    def spare_slot(self, topology: int, members: IndexArray, slots: IntArray, avoid: BoolArray) -> int | None:
        """A free slot for the worker of some executors of a topology whose others are in `slots`; None if there is none.

        Parameters
        ----------
        members
            Executors of the worker, numbered in the topology.
        slots
            Slot of each executor of the topology, -1 of those of the worker.
        avoid
            Nodes that it shall not be on, shape (N,).

        What the topology itself takes now is not taken off: the worker must fit beside it.
        """
        problem, rows = self.problem, 1 + len(self.problem.resources)
        demand = problem.executor_demand[:, self.problem.executors_of(topology)][:, members].sum(axis=1)
        open_nodes = problem.node_usable & ~avoid
        open_nodes &= (demand[:, None] <= (self._most - self.used)[1:rows]).all(axis=0)
        here = np.zeros(len(open_nodes), dtype=bool)
        here[problem.slot_node[slots[slots != UNPLACED]]] = True
        if self.measure.share is not None:
            share, used = self.measure.share[topology], self.used[rows]
            own_hosts = np.isin(self.measure.host_node, self.measure.host_node[here])
            open_nodes &= own_hosts | (used + share <= 1)[self.measure.host_node]
        self._keep_components_apart(topology, members, slots, open_nodes)
        taken = self._holder != UNPLACED
        taken[slots[slots != UNPLACED]] = True
        free = np.flatnonzero(~taken & open_nodes[problem.slot_node])
        if not len(free):
            return None
        # Where the topology runs already its files need not be fetched.
        near = free[here[problem.slot_node[free]]]
        return int(near[0] if len(near) else free[0])

    def _keep_components_apart(
        self, topology: int, members: IndexArray, slots: IntArray, open_nodes: BoolArray
    ) -> None:
        """Close nodes where a component would have more executors than it may."""
        limits = self.problem.component_limits.get(topology)
        if limits is None:
            return
        component = self.problem.topologies[topology].executor_component
        there = np.where(slots == UNPLACED, UNPLACED, self.problem.slot_node[slots])
        on_nodes = count_components(there, component, len(open_nodes), len(limits.most_on_node))
        on_nodes = on_nodes + np.bincount(component[members], minlength=len(limits.most_on_node))
        open_nodes &= ~(limits.crowded(on_nodes) > 0).any(axis=1)

