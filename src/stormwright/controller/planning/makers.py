"""Who made room for whom: what must have moved before a step can be made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from stormwright.controller.planning.places import Place
from stormwright.controller.planning.plan import TopologyMove
from stormwright.controller.planning.room import MoveRoom
from stormwright.model.arrays import FloatArray, IndexArray, IntArray


class StepMakers:
    """Follows the steps of a plan as they are added to it.

    Attributes
    ----------
    released
        Nodes of which the last step made anything free.
    """

    def __init__(self, room: MoveRoom) -> None:
        self._room = room
        # What would be in use if all moved to where they go, and nobody had left.
        self._entered = room.used.copy()
        self._left_node: defaultdict[int, set[str]] = defaultdict(set)
        self._left_slot: dict[int, str] = {}
        self._moved: set[str] = set()
        self.released: list[int] = []

    def needed(
        self, slots: Mapping[int, IntArray], places: Mapping[int, Place], moves: Sequence[TopologyMove]
    ) -> frozenset[str]:
        """Ids of those that a step needs to have moved before; from now on it counts as made.

        It needs all that have left a node which would be short if none had, or which it passes on its way, and who had
        a slot before it.

        Parameters
        ----------
        slots, places
            Where topologies go, and what they take there.
        moves
            The same with the slots that they pass.
        """
        room, names = self._room, self._room.problem.topologies
        nodes, more = self._change(places)
        short = nodes[((more > 0) & (more > room.left(nodes, self._entered))).any(axis=0)]
        ids = {names[topology].id for topology in slots}
        final = {slot for to in slots.values() for slot in to.tolist()}
        taken = final | {
            room.problem.slot_index[slot] for m in moves for leg in m.legs[:-1] for slot in leg.after.slots
        }
        passed = [room.node_of[slot] for slot in taken - final]
        needed = (ids & self._moved).union(*(self._left_node[node] for node in (*short.tolist(), *passed)))
        needed |= {self._left_slot[slot] for slot in taken if slot in self._left_slot} - ids
        self._entered[:, nodes] += np.maximum(more, 0.0)
        self._moved |= ids
        self.released = nodes[(more < 0).any(axis=0)].tolist()
        for topology in slots:
            self._note(topology, names[topology].id)
        return frozenset(needed)

    def _change(self, places: Mapping[int, Place]) -> tuple[IndexArray, FloatArray]:
        """Nodes that topologies leave or go to, shape (M,), and what they take more of them, shape (R, M)."""
        pairs = [(self._room.places[topology], new) for topology, new in places.items()]
        nodes = np.unique(np.concatenate([place.nodes for pair in pairs for place in pair]))
        more = np.zeros((len(self._entered), len(nodes)))
        for old, new in pairs:
            more[:, np.searchsorted(nodes, old.nodes)] -= old.before
            more[:, np.searchsorted(nodes, new.nodes)] += new.before
        return nodes, more

    def _note(self, topology: int, name: str) -> None:
        own = list(self._room.workers(topology))
        for node in {self._room.node_of[slot] for slot in own}:
            self._left_node[node].add(name)
        self._left_slot.update(dict.fromkeys(own, name))
