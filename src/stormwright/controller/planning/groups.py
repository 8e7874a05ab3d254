"""Groups of topologies that block each other and have to move together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import numpy as np

from stormwright.controller.planning.capacity import MoveRoom
from stormwright.model.arrays import IndexArray

#: Number of missing resources examined to find the one with the fewest helpers.
_LOOKED_AT = 6

#: Maximum size of groups that are searched for dispensable members.
_LARGE = 12


class GroupSearch:
    """Search for a smallest group of waiting topologies that can move together.

    A group that lacks something of a node lacks it until one more joins that releases some of it: so all groups are
    found by letting each of those join in turn.

    Parameters
    ----------
    waiting
        Topologies that may be in a group.
    here
        Topologies with executors on each node.
    """

    def __init__(self, room: MoveRoom, waiting: Collection[int], here: Mapping[int, Collection[int]]) -> None:
        self._room, self._waiting, self._here = room, waiting, here
        self._more = np.zeros_like(room.used)
        self._nodes: IndexArray = np.arange(room.used.shape[1])
        self._left, self._version = room.left(self._nodes), room.version
        self._visited: set[frozenset[int]] = set()
        self._tries = 0
        #: Whether the last search skipped groups that were too large, or used up its tries.
        self.cut = False

    def find(self, topology: int, most: int, tries: int) -> tuple[int, ...] | None:
        """Return a group with `topology` of at most `most` members, found in at most `tries` tries."""
        self._look()
        self._visited, self._tries, self.cut = set(), tries, False
        found = self._with([], topology, most)
        return tuple(self._least(list(found), topology)) if found else None

    def closure(self, topology: int) -> tuple[int, ...] | None:
        """Return a group with `topology` of any size; the best helper joins until nothing is missing."""
        self._look()
        members: list[int] = []
        joining, lacking = [topology], None
        entered = np.zeros(len(self._nodes), dtype=bool)
        while joining:
            place = self._room.places[joining[0]]
            self._more[:, place.nodes] += place.change
            members.append(joining[0])
            entered[place.entered] = True
            lacking = next(self._lacking_of(np.flatnonzero(entered)), None)
            joining = self._ranked(self._helpers(members, *lacking), lacking[2]) if lacking else []
        for member in members:
            self._more[:, self._room.places[member].nodes] = 0.0
        if lacking:
            return None
        return tuple(self._least(members, topology)) if len(members) <= _LARGE else tuple(members)

    def is_group(self, topologies: Collection[int]) -> bool:
        """Return whether topologies, all of them waiting, can move together."""
        if any(topology not in self._waiting for topology in topologies):
            return False
        self._look()
        places = [self._room.places[topology] for topology in topologies]
        for place in places:
            self._more[:, place.nodes] += place.change
        lacking = next(self._lacking(topologies), None)
        for place in places:
            self._more[:, place.nodes] = 0.0
        return lacking is None

    def _look(self) -> None:
        """Update the free resources if anything has moved since the last search."""
        if self._version != self._room.version:
            self._left, self._version = self._room.left(self._nodes), self._room.version

    def _with(self, members: list[int], topology: int, most: int) -> tuple[int, ...] | None:
        group = frozenset((*members, topology))
        if group in self._visited:
            return None
        self._visited.add(group)
        if self._tries == 0:
            self.cut = True
            return None
        self._tries -= 1
        nodes = self._room.places[topology].nodes
        before = self._more.take(nodes, axis=1)
        self._more[:, nodes] += self._room.places[topology].change
        found = self._complete([*members, topology], most)
        self._more[:, nodes] = before
        return found

    def _complete(self, members: list[int], most: int) -> tuple[int, ...] | None:
        helpers: list[tuple[dict[int, float], float]] = []
        for row, node, lacking in islice(self._lacking(members), _LOOKED_AT):
            helpers.append((self._helpers(members, row, node, lacking), lacking))
            if not helpers[-1][0]:
                return None
        if not helpers:
            return tuple(members)
        if len(members) + _apart([each for each, _ in helpers]) > most:
            self.cut = True
            return None
        for helper in self._ranked(*min(helpers, key=lambda found: len(found[0]))):
            found = self._with(members, helper, most)
            if found:
                return found
        return None

    def _lacking(self, members: Collection[int]) -> Iterator[tuple[int, int, float]]:
        """Yield row, node and amount of each resource that the group lacks."""
        yield from self._lacking_of(np.unique(np.concatenate([self._room.places[m].entered for m in members])))

    def _lacking_of(self, nodes: IndexArray) -> Iterator[tuple[int, int, float]]:
        over = self._more.take(nodes, axis=1) - self._left.take(nodes, axis=1)
        for row, column in np.argwhere(over > 0).tolist():
            yield row, int(nodes[column]), float(over[row, column])

    def _helpers(self, members: list[int], row: int, node: int, lacking: float) -> dict[int, float]:
        """Return the amount that each candidate could release; empty if all of them are not enough."""
        released: dict[int, float] = {}
        for other in self._here[node]:
            if other in self._waiting and other not in members:
                given = self._room.places[other].gives.get(node)  # it may have gone elsewhere meanwhile
                if given is not None and given[row] < 0:
                    released[other] = -given[row]
        return released if sum(released.values()) >= lacking else {}

    def _ranked(self, helpers: Mapping[int, float], lacking: float) -> list[int]:
        """Return the helpers: those that release enough first, then by the least lack of their own."""
        ranked = []
        for other, released in helpers.items():
            place = self._room.places[other]
            more = self._more.take(place.nodes, axis=1) + place.change
            trouble = int(np.count_nonzero(more > self._left.take(place.nodes, axis=1)))
            ranked.append((released < lacking, trouble, other))
        return [other for _, _, other in sorted(ranked)]

    def _least(self, group: list[int], topology: int) -> list[int]:
        """Return the group without dispensable members."""
        for member in [other for other in group if other != topology]:
            fewer = [other for other in group if other != member]
            if self.is_group(fewer):
                group = fewer
        return group


def _apart(helpers: list[dict[int, float]]) -> int:
    """Return a lower bound on the number of joining topologies: the number of disjoint helper lists."""
    used: set[int] = set()
    count = 0
    for each in helpers:
        if used.isdisjoint(each):
            count += 1
        used.update(each)
    return count
