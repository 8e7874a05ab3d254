"""Order of moves: alone if there is capacity, else through spare slots, else together."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import numpy as np

from stormwright.controller.planning.capacity import MoveRoom
from stormwright.controller.planning.detours import Batch, Helpers, through_spare_slots
from stormwright.controller.planning.expected_pauses import starts_per_core
from stormwright.controller.planning.groups import GroupSearch
from stormwright.controller.planning.hops import make_move, unchanged_workers
from stormwright.controller.planning.order import (
    Excluded,
    Forbidden,
    MoveBudget,
    MoveOrder,
    NoRoom,
    NotWanted,
    OverBudget,
    StayReason,
)
from stormwright.controller.planning.places import TakenResources, workers_of
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.plans.plan import Move, TopologyMove

# Order of steps -----------------------------------------------------------------------------------
# Dependencies: topologies that must have moved before a step can be made.


class StepMakers:
    """Dependencies between the steps of a plan, recorded as steps are added.

    Attributes
    ----------
    released
        Nodes on which the last step freed a resource.
    """

    def __init__(self, room: MoveRoom) -> None:
        self._room = room
        # Use if all topologies of the step had arrived and no other had left.
        self._entered = room.used.copy()
        self._left_node: defaultdict[int, set[str]] = defaultdict(set)
        self._left_slot: dict[int, str] = {}
        self._moved: set[str] = set()
        self.released: list[int] = []

    def needed(
        self, slots: Mapping[int, IntArray], places: Mapping[int, TakenResources], moves: Sequence[TopologyMove]
    ) -> frozenset[str]:
        """Return the ids of topologies that a step depends on, and record the step as made.

        It depends on all topologies that left a node which would otherwise be short, or which it passes on its way, and
        on previous holders of its slots.

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

    def _change(self, places: Mapping[int, TakenResources]) -> tuple[IndexArray, FloatArray]:
        """Return nodes that topologies leave or enter, shape (M,), and the change of use, shape (R, M)."""
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


# Planner ------------------------------------------------------------------------------------------

#: Size up to which smallest groups are searched; of larger ones the first found is taken.
SMALLEST_UP_TO = 4

#: Tries in one search for a group.
_TRIES = 100

#: Number of large groups compared for the smallest, and searched in one plan.
LARGE_COMPARED, LARGE_TRIES = 3, 40

#: Maximum number of plans: if topologies are stranded in spare slots, a second plan excludes them from detours, and a
#: third allows detours only if they can continue at once.
_PLANS = 3


def plan_moves(
    problem: Problem,
    wanted: Assignment,
    budget: MoveBudget,
    stay: Mapping[str, str | Forbidden] | None = None,
    cpu_limits: bool = True,
) -> MoveOrder:
    """Order the moves from the current to a wanted placement.

    1. A topology moves alone when every slot it goes to is free or its own and no node that it goes to is then short
       of anything; the others wait until a move has made room. Among those that can move, the one with the most moved
       executors per restarted worker goes first, then the one that comes first in the problem.
    2. When none can move, room is made for the one that needs it on the fewest nodes: workers that are in its way, of
       topologies that have yet to move, go to spare slots for the time.
    3. Where that does not suffice, topologies that wait for each other move together, the smallest groups first. Before
       many do, those that rest from making room make it oftener (`Helpers.once_more`).
    4. What cannot move even so stays, with what is missing; so does what is beyond the budget. A group counts with all
       of it.

    Parameters
    ----------
    problem
        The cluster, and what runs on it now (`Problem.current_slot`).
    wanted
        Where everything is to run. A topology with an executor that has no slot now does not move: Nimbus places it.
    budget
        How many topologies and executors may move.
    stay
        Id of each topology that shall not move → why; None for none. `Forbidden` is reported of one that should move.
    cpu_limits
        False where a node may get more work than it has CPU: what executors take was measured in another place, where
        messages took a part of it, and what comes of too much work is less throughput, which is predicted.
    """
    movable, left = _movable(problem, wanted, stay or {})
    if not movable:
        return MoveOrder((), left)
    target = problem.current_slot.copy()
    for index in movable:
        target[problem.executors_of(index)] = wanted.slot_of_executor[problem.executors_of(index)]
    start, firm = MoveRoom(problem, target, cpu_limits), set[int]()
    for _ in range(_PLANS):
        planner = _Planner(start.copy(), movable, budget, firm)
        planner.run()
        if not planner.stranded:
            break
        firm = set(movable) if firm else planner.stranded
    return MoveOrder(
        tuple(step.with_workers(wanted.num_workers) for step in planner.steps), {**left, **planner.blocked}
    )


def _movable(
    problem: Problem, wanted: Assignment, stay: Mapping[str, str | Forbidden]
) -> tuple[dict[int, float], dict[str, StayReason]]:
    """Return running topologies that have to move, with their precedence, and those that stay."""
    movable: dict[int, float] = {}
    left: dict[str, StayReason] = {t: Excluded(why) for t, why in stay.items() if not isinstance(why, Forbidden)}
    differs = problem.current_slot != wanted.slot_of_executor
    for index in np.unique(problem.executor_topology[differs]).tolist():
        topology, own = problem.topologies[index], problem.executors_of(index)
        now, target = problem.current_slot[own], wanted.slot_of_executor[own]
        if topology.id in left or np.any(now == UNPLACED):
            continue
        if isinstance(why := stay.get(topology.id), Forbidden):
            left[topology.id] = why
            continue
        if np.any(target == UNPLACED):
            left[topology.id] = NotWanted(int(np.count_nonzero(target == UNPLACED)))
            continue
        workers = workers_of(target)
        unchanged = unchanged_workers(problem, workers_of(now), workers)
        started = [members for slot, members in workers.items() if slot not in unchanged]
        if started:
            movable[index] = sum(map(len, started)) / len(started)
    return movable, left


class _Planner:
    """Moves still to plan, and the resources that topologies wait for."""

    def __init__(self, room: MoveRoom, movable: Mapping[int, float], budget: MoveBudget, firm: Collection[int]) -> None:
        self.steps: list[Move] = []
        self.blocked: dict[str, StayReason] = {}
        self._room, self._rank = room, movable
        self._topologies_left, self._executors_left = budget.max_topologies, budget.max_executors
        self._waiting = set(movable)
        #: Topologies that take detours only if they can continue at once.
        self._firm = firm
        self._ready: list[tuple[float, int]] = []
        #: Queue of groups: size, precedence, topology; and of larger ones: amount missing, topology.
        self._sizes: list[tuple[int, float, int]] = []
        self._large: list[tuple[int, int]] = []
        self._tries = LARGE_TRIES
        #: Queue of topologies to free capacity for: number of nodes that are short, precedence, topology.
        self._blocked: list[tuple[int, float, int]] = []
        self._tried_around: dict[int, int] = {}
        self._helpers = Helpers(room, movable)
        self._untouched = len(movable)
        self._here: defaultdict[int, set[int]] = defaultdict(set)
        self._wants: defaultdict[int, set[int]] = defaultdict(set)
        for index in movable:
            place = room.places[index]
            for node in place.nodes.tolist():
                self._here[node].add(index)
            for node in place.entered.tolist():
                self._wants[node].add(index)
        self._search = GroupSearch(room, self._waiting, self._here)
        self._makers = StepMakers(room)

    def run(self) -> None:
        """Plan until nothing more can move."""
        self._look(self._waiting)
        while self._topologies_left or self.stranded:
            some = self._move_ready() or self._move_around() or self._move_together()
            if not (some or self._move_around_once_more() or self._move_many_together()):
                break
        for index in sorted(self._waiting):
            missing = self._room.missing(index)
            over = OverBudget(1, 0, self._topologies_left, self._executors_left)
            self.blocked.setdefault(self._room.problem.topologies[index].id, NoRoom(missing) if missing else over)

    def _look(self, topologies: Iterable[int]) -> None:
        """Find the topologies that can move now; the others become candidates for groups again."""
        for index in topologies:
            nodes = self._short_nodes(index)
            if nodes:
                heapq.heappush(self._blocked, (nodes, -self._rank[index], index))
                heapq.heappush(self._sizes, (2, -self._rank[index], index))
            else:
                heapq.heappush(self._ready, (-self._rank[index], index))

    def _short_nodes(self, index: int) -> int:
        return len(set(self._room.short(index)[1].tolist()))

    def _move_ready(self) -> bool:
        """Move the first topology that can move alone."""
        while self._ready:
            _, index = heapq.heappop(self._ready)
            if index not in self._waiting:
                continue
            if not self._room.fits(index):
                self._look([index])
            elif self._make([index], [Batch.home(self._room, [index])]):
                return True
        return False

    def _move_around(self) -> bool:
        """Move the topology that needs the fewest nodes cleared, with detours of others."""
        while self._blocked:
            _, _, index = heapq.heappop(self._blocked)
            if index not in self._waiting or self._tried_around.get(index) == len(self.steps):
                continue
            self._tried_around[index] = len(self.steps)
            way = through_spare_slots(self._room, index, self._helpers, self._topologies_left)
            if way is not None and (way.closed or (self._ample and way.left_over.isdisjoint(self._firm))):
                group = sorted({topology for batch in way.batches for topology in batch.slots})
                if self._make(group, way.batches):
                    return True
        return False

    def _move_around_once_more(self) -> bool:
        """Move a topology with additional detours of others, rather than many together."""
        while self._helpers.once_more():
            self._tried_around.clear()
            for index in sorted(self._waiting):
                heapq.heappush(self._blocked, (self._short_nodes(index), -self._rank[index], index))
            if self._move_around():
                return True
        return False

    def _move_together(self) -> bool:
        """Move a smallest group of topologies that block each other."""
        last = None
        while self._sizes:
            search = size, rank, index = heapq.heappop(self._sizes)
            if search == last or index not in self._waiting:
                continue
            last = search
            group = self._search.find(index, size, _TRIES)
            if group is not None and self._make(group, [Batch.home(self._room, group)]):
                return True
            if group is None and self._search.cut:
                if size < SMALLEST_UP_TO:
                    heapq.heappush(self._sizes, (size + 1, rank, index))
                else:
                    heapq.heappush(self._large, (len(self._room.short(index)[0]), index))
        return False

    def _move_many_together(self) -> bool:
        """Move the smallest of a few groups, if no smaller group was found."""
        groups: list[tuple[int, tuple[int, ...], int]] = []
        last = None
        while self._large and self._tries and len(groups) < LARGE_COMPARED:
            missing, index = heapq.heappop(self._large)
            if index in self._waiting and index != last:
                self._tries, last = self._tries - 1, index
                group = self._search.closure(index)
                groups += [(missing, group, index)] if group else []
                if group and 2 * len(group) > len(self._waiting):
                    break  # nearly all wait for each other: so does the next group
        for missing, _, index in groups:
            heapq.heappush(self._large, (missing, index))
        groups.sort(key=lambda found: len(found[1]))
        return any(self._make(group, [Batch.home(self._room, group)]) for _, group, _ in groups)

    def _make(self, group: Sequence[int], way: Sequence[Batch]) -> bool:
        """Move a group on its way, if the budget allows all of it."""
        over = self._over_budget(group, way)
        if over:
            self.blocked |= {self._room.problem.topologies[index].id: over for index in group}
            return False
        released: set[int] = set()
        for batch in way:
            slots, places = batch.slots, batch.places
            alone = len(slots) == 1
            moves = tuple(
                make_move(self._room, t, slots[t], batch.workers[t], alone=alone, arrives=batch.arrives)
                for t in sorted(slots)
            )
            needed = self._makers.needed(slots, places, moves)
            self.steps.append(Move(moves, needed, starts_per_core(self._room.problem, moves)))
            self._executors_left -= sum(move.moved_executors for move in moves)
            self._helpers.leave(slots)
            self._room.put(slots, places, batch.workers)
            self._count(slots.keys(), batch.arrives)
            released.update(self._makers.released)
        self._wake(released)
        return True

    def _count(self, topologies: Set[int], arrives: bool) -> None:
        """Record topologies that arrived, and those on a detour."""
        first = len(topologies - self._helpers.times.keys())
        self._topologies_left -= first
        self._untouched -= first
        self._helpers.come(topologies, arrives)
        for index in topologies:
            if arrives:
                self._waiting.discard(index)
                self.blocked.pop(self._room.problem.topologies[index].id, None)
            for node in self._room.places[index].nodes.tolist():
                self._here[node].add(index)

    def _over_budget(self, group: Sequence[int], way: Sequence[Batch]) -> OverBudget | None:
        paused = len(set(group) - self._helpers.times.keys())
        if paused <= self._topologies_left and sum(map(_executors, way)) <= self._executors_left:
            return None
        executors, now = 0, dict[int, IntArray]()
        for batch in way:
            for index, to in batch.slots.items():
                before = now.get(index, self._room.now[self._room.problem.executors_of(index)])
                executors += int(np.count_nonzero(before != to))
                now[index] = to
        if paused <= self._topologies_left and executors <= self._executors_left:
            return None
        return OverBudget(paused, executors, self._topologies_left, self._executors_left)

    @property
    def stranded(self) -> set[int]:
        """Return topologies that are still in spare slots."""
        return self._waiting & self._helpers.times.keys()

    @property
    def _ample(self) -> bool:
        """Return whether the budget lets all waiting topologies move."""
        return self._untouched <= self._topologies_left

    def _wake(self, nodes: Iterable[int]) -> None:
        """Reconsider topologies that wait for resources of nodes that have more free now."""
        self._look({index for node in nodes for index in self._wants[node] if index in self._waiting})


def _executors(batch: Batch) -> int:
    """Return an upper bound of the executors that move."""
    return sum(map(len, batch.slots.values()))
