"""Storm's EvenScheduler, exactly reproduced: the baseline of every comparison."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Unplaced
from stormwright.model.arrays import IntArray, frozen
from stormwright.model.constraints.blacklist import DRAINED, closed_nodes
from stormwright.schedulers.toolkit.params import Params, param

_MAX_LOAD = 0.75
_DEFAULT_CAPACITY = 16

#: First release of Java whose copies of hash maps have no bucket more than they need.
_EXACT_COPIES = 19


# Iteration order of Java's `HashMap`, which Storm's assignments depend on.
#
# Checked against JDK 17 and 25. Not covered: buckets that turn into trees, which takes eight colliding ids.
def java_string_hash(text: str) -> int:
    """Return `String.hashCode` as an unsigned 32-bit number, over UTF-16 code units as in Java."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    return value


def topologies_order(ids: Sequence[str], among: Iterable[int] | None = None, java: int = 17) -> list[int]:
    """Return the positions of `ids`, or those `among` them, in the iteration order of Storm's `Topologies`.

    `Topologies` copies a map that grew entry by entry, so ids in the same bucket of the copy have the order of the map
    they were copied from. `java` is the release of Java that Nimbus runs on.
    """
    grown, copied = _grown_capacity(len(ids)), _copied_capacity(len(ids), java)

    def place(position: int) -> tuple[int, int, int]:
        value = java_string_hash(ids[position])
        spread = value ^ value >> 16
        return spread & copied - 1, spread & grown - 1, position

    return sorted(range(len(ids)) if among is None else among, key=place)


def _grown_capacity(size: int) -> int:
    """Return the number of buckets of a map that doubled whenever it exceeded three quarters of its capacity."""
    capacity = _DEFAULT_CAPACITY
    while size > _MAX_LOAD * capacity:
        capacity *= 2
    return capacity


def _copied_capacity(size: int, java: int) -> int:
    """Return the number of buckets of a map copied from one with `size` entries."""
    wanted = math.ceil(size / _MAX_LOAD) if java >= _EXACT_COPIES else int(size / _MAX_LOAD + 1.0)
    return 1 << max(wanted - 1, 0).bit_length()


@dataclass(frozen=True, kw_only=True)
class EvenParams(Params):
    """Parameters of the scheduler."""

    idle_nodes: bool = param(
        False,
        "Move running workers to idle nodes first: Storm 3 with nimbus.even.rebalance.idle.supervisor.enabled",
    )
    idle_moves: int = param(
        0,
        "Maximum number of workers of a topology moved to idle nodes; 0: no maximum "
        "(nimbus.even.rebalance.max.free.per.topology)",
        low=0,
    )
    java: int = param(17, "Release of Java of Nimbus: from 19 on, some hash maps have another order", low=8)


class EvenScheduler:
    """Distributes the executors of each topology round robin over slots of as many nodes as possible.

    Rules of ``org.apache.storm.scheduler.EvenScheduler`` of Storm 2.6 to 3.0, which gives the same slots:

    1. Topologies with unassigned executors are processed in the order of a Java hash map of their ids, which depends on
       the release of Java that Nimbus runs on (`java`).
    2. Free slots are interleaved, one per node, nodes with more of them first, then by supervisor id; ports ascend.
    3. A topology takes one for every worker that it lacks; live executors stay, and the others, by task, go round robin
       over the slots taken.

    If all workers of a topology are alive and only an executor is lost, Storm 2.8.3 throws an exception; here the
    executor stays unplaced.

    With `idle_nodes`, as in Storm 3 if its Nimbus is configured so, running workers first move to nodes without any.
    (Older versions have no such pass. Storm waits until a node is up for some rounds; here every node is.)

    1. A topology may move, for each idle node, as many workers as it wants over the number of open nodes, rounded down,
       but at most `idle_moves`.
    2. In rounds, each topology, in order of ids, moves one worker: from the node with most of its workers, at least
       two, the one on the highest port. Ties go to the lower supervisor id.
    3. It goes to the next slot of the idle nodes, in order of supervisor ids and ports. This ends when none is left, or
       no topology moves a worker.

    When to use
    -----------
    As the baseline of a comparison, or to get Storm's own assignment: similar nodes, light load.

    Ignores
    -------
    CPU, memory, generic resources, executors per worker, constraints on components, traffic, streams, racks, and
    greylisted supervisors.

    Honours
    -------
    worker slots
    """

    params_type = EvenParams
    heeds_limits = takes_turns = moves_running = False

    def __init__(self, params: EvenParams | None = None) -> None:
        self.params = params or EvenParams()
        self.moves_running = self.params.idle_nodes

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        slots = problem.current_slot.copy()
        if self.params.idle_nodes:
            _move_to_idle_nodes(problem, slots, self.params.idle_moves)
        free = _FreeSlots(problem, slots)
        unplaced: list[Unplaced] = []
        status: dict[str, str] = {}
        # Not `np.unique`, here and below: its first call imports masked arrays.
        lacking = np.flatnonzero(np.bincount(problem.executor_topology[slots == UNPLACED])).tolist()
        ids = [topology.id for topology in problem.topologies]
        for index in topologies_order(ids, lacking, self.params.java):
            topology, executors = problem.topologies[index], problem.executors_of(index)
            own = slots[executors]
            live_workers = len(set(own[own != UNPLACED].tolist()))
            waiting = np.flatnonzero(own == UNPLACED)
            taken = free.take(min(topology.num_workers - live_workers, len(waiting)))
            if len(taken):
                by_task = waiting[np.argsort(topology.executor_start_task[waiting], kind="stable")]
                own[by_task] = taken[np.arange(len(by_task)) % len(taken)]
            else:
                reason = free.why_none(live_workers)
                names = [topology.components[c].id for c in topology.executor_component[waiting]]
                unplaced += [
                    Unplaced(topology.id, int(executor), name, (reason,))
                    for executor, name in zip(waiting, names, strict=True)
                ]
                status[topology.id] = f"{len(waiting)} of {topology.num_executors} executors unplaced: {reason}"
        return Assignment(
            frozen(slots, np.int32, own=True),
            tuple(unplaced),
            status,
            scheduler="even",
            parameters=asdict(self.params),
        )


def _move_to_idle_nodes(problem: Problem, slots: IntArray, most: int) -> None:
    """Move running workers to nodes without any, in place; the rules of `EvenScheduler` with `idle_nodes`."""
    nodes = _in_order_of_java([node.id for node in problem.supervisors])
    rank = {node: position for position, node in enumerate(nodes)}
    open_nodes = [
        node
        for node in nodes
        if problem.supervisors[node].ports and problem.supervisors[node].host not in problem.blacklisted_hosts
    ]
    busy = set(problem.slot_node[slots[slots != UNPLACED]].tolist())
    idle = [node for node in open_nodes if node not in busy]
    first = np.searchsorted(problem.slot_node, np.arange(len(problem.supervisors)))

    def port(slot: int) -> int:
        node = int(problem.slot_node[slot])
        return problem.supervisors[node].ports[slot - int(first[node])]

    targets = deque(
        slot
        for node in idle
        for slot in sorted(range(first[node], first[node] + len(problem.supervisors[node].ports)), key=port)
    )
    budgets: dict[int, int] = {}
    for index in _in_order_of_java([topology.id for topology in problem.topologies]):
        budget = problem.topologies[index].num_workers // max(len(open_nodes), 1) * len(idle)  # rule 1
        budgets[index] = min(budget, most or budget)
    movable = [index for index, budget in budgets.items() if budget]
    while targets and movable:  # rule 2
        for index in movable:
            if not targets:
                break
            own = slots[problem.executors_of(index)]
            workers: dict[int, list[int]] = {}
            for slot in set(own[own != UNPLACED].tolist()):
                workers.setdefault(int(problem.slot_node[slot]), []).append(slot)
            crowded = [node for node, there in workers.items() if len(there) > 1]
            budgets[index] = budgets[index] - 1 if crowded else 0
            if crowded:
                source = min(crowded, key=lambda node: (-len(workers[node]), rank[node]))
                own[own == max(workers[source], key=port)] = targets.popleft()
        movable = [index for index in movable if budgets[index]]


class _FreeSlots:
    """Free slots in the order in which EvenScheduler assigns them."""

    def __init__(self, problem: Problem, slots: IntArray) -> None:
        taken = np.zeros(len(problem.slots), dtype=bool)
        taken[slots[slots != UNPLACED]] = True
        hosts = problem.blacklisted_hosts
        listed = np.array([node.host in hosts for node in problem.supervisors], dtype=bool)[problem.slot_node]
        shut = problem.slot_node[listed & ~taken]
        in_use = len(taken) - len(shut)
        #: Reason returned by `why_none` if no slot is free.
        self._counts = ", ".join([f"{in_use} of {len(taken)} in use", *_shut(problem, shut)])
        self._problem, self._free = problem, ~taken & ~listed
        self._first = np.searchsorted(problem.slot_node, np.arange(len(problem.supervisors) + 1))
        left = np.bincount(problem.slot_node[self._free], minlength=len(problem.supervisors)).tolist()
        #: Nodes in order of ids.
        self._nodes = _in_order_of_java([node.id for node in problem.supervisors])
        self._heap = [(-left[node], rank) for rank, node in enumerate(self._nodes) if left[node]]
        heapq.heapify(self._heap)
        #: Free slots of the nodes visited so far, by rank, the next one last.
        self._of_rank: dict[int, list[int]] = {}

    def take(self, count: int) -> IntArray:
        """Return the next `count` slots, or as many as there are."""
        ranks: list[int] = []
        while self._heap and len(ranks) < count:
            ranks.append(heapq.heappop(self._heap)[1])
        free = {rank: self._slots(rank) for rank in ranks}
        taken: list[int] = []
        rotation = ranks
        while rotation and len(taken) < count:
            taken += [free[rank].pop() for rank in rotation[: count - len(taken)]]
            rotation = [rank for rank in rotation if free[rank]]
        for rank in ranks:
            if free[rank]:
                heapq.heappush(self._heap, (-len(free[rank]), rank))
        return np.array(taken, dtype=np.int32)

    def _slots(self, rank: int) -> list[int]:
        if rank not in self._of_rank:
            node = self._nodes[rank]
            first, ports = int(self._first[node]), self._problem.supervisors[node].ports
            falling = sorted(range(len(ports)), key=ports.__getitem__, reverse=True)
            self._of_rank[rank] = [first + port for port in falling if self._free[first + port]]
        return self._of_rank[rank]

    def why_none(self, live_workers: int) -> str:
        """Return the reason why a topology with `live_workers` workers gets no slot."""
        if self._heap:
            return f"its {live_workers} workers all live, and EvenScheduler adds no executor to a live worker"
        return f"no free worker slot: {self._counts}"


def _shut(problem: Problem, node_of_slot: IntArray) -> Iterator[str]:
    """Yield reasons, with node and slot counts, why slots on closed hosts are unavailable."""
    drained = sum(int(closed.nodes[node_of_slot].sum()) for closed in closed_nodes(problem) if closed.kind == DRAINED)
    if drained:
        yield f"{drained} on drained hosts"
    if len(node_of_slot) > drained or not drained:
        yield f"{len(node_of_slot) - drained} on blacklisted hosts"


def _in_order_of_java(ids: Sequence[str]) -> list[int]:
    """Return the positions of ids in Java's string order, by UTF-16 code units."""
    if all(map(str.isascii, ids)):
        return sorted(range(len(ids)), key=ids.__getitem__)
    return sorted(range(len(ids)), key=lambda node: ids[node].encode("utf-16-be", "surrogatepass"))
