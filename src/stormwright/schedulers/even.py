"""Storm's EvenScheduler, bit for bit: the baseline of every comparison."""

from __future__ import annotations

import heapq

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Unplaced
from stormwright.model.arrays import IntArray
from stormwright.schedulers.frame.java_order import topologies_order
from stormwright.schedulers.kit.params import NoParams


class EvenScheduler:
    """Spreads the executors of each topology round robin over slots of as many nodes as there are.

    Rules of ``org.apache.storm.scheduler.EvenScheduler`` of Storm 2.8.3, which gives the same slots:

    1. Topologies with executors without a slot are taken in the order of a Java hash map of their ids.
    2. Free slots are dealt one per node, nodes with more of them first, then by supervisor id; ports rise.
    3. A topology takes as many of them as it wants workers beyond those it has; live executors stay, and the others, by
       task, go round robin over the slots taken.

    Where all workers of a topology live and only an executor is lost, Storm 2.8.3 throws an exception; here the
    executor is unplaced.

    When to use
    -----------
    As the baseline of a comparison, or where Storm's own answer is wanted: nodes that are alike, load that is light.

    Ignores
    -------
    CPU, memory, generic resources, executors per worker, constraints on components, traffic, streams, racks, and that a
    supervisor is greylisted.

    Honours
    -------
    worker slots
    """

    params_type = NoParams
    heeds_limits = takes_turns = False

    def __init__(self, params: NoParams | None = None) -> None:
        self.params = params or NoParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        slots = problem.current_slot.copy()
        free = _FreeSlots(problem)
        unplaced: list[Unplaced] = []
        status: dict[str, str] = {}
        for index in topologies_order([topology.id for topology in problem.topologies]):
            topology, executors = problem.topologies[index], problem.executors_of(index)
            own = slots[executors]
            live_workers = len(np.unique(own[own != UNPLACED]))
            waiting = np.flatnonzero(own == UNPLACED)
            if not len(waiting):
                continue
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
        slots.flags.writeable = False
        return Assignment(slots, tuple(unplaced), status, scheduler="even")


class _FreeSlots:
    """Free slots in the order in which EvenScheduler deals them."""

    def __init__(self, problem: Problem) -> None:
        used = np.zeros(len(problem.slots), dtype=bool)
        used[problem.current_slot[problem.current_slot != UNPLACED]] = True
        # As Java compares strings: by UTF-16 code units.
        ids = [node.id.encode("utf-16-be", "surrogatepass") for node in problem.supervisors]
        by_id = sorted(range(len(ids)), key=ids.__getitem__)
        first = blacklisted = 0
        ports: list[list[int]] = []
        for node in problem.supervisors:
            order = sorted(range(len(node.ports)), key=node.ports.__getitem__)
            listed = node.host in problem.blacklisted_hosts
            ports.append([first + port for port in order if not used[first + port] and not listed])
            blacklisted += listed * sum(not used[first + port] for port in order)
            first += len(node.ports)
        #: What `why_none` tells once no slot is free.
        self._counts = f"{first - blacklisted} of {first} in use, {blacklisted} on blacklisted hosts"
        #: Free slots of the nodes in order of their ids, the one to take next at the end.
        self._of_node = [ports[node][::-1] for node in by_id]
        self._heap = [(-len(free), rank) for rank, free in enumerate(self._of_node) if free]
        heapq.heapify(self._heap)

    def take(self, count: int) -> IntArray:
        """The next `count` slots, or as many as there are."""
        nodes: list[int] = []
        while self._heap and len(nodes) < count:
            nodes.append(heapq.heappop(self._heap)[1])
        taken: list[int] = []
        dealt = nodes
        while dealt and len(taken) < count:
            taken += [self._of_node[rank].pop() for rank in dealt[: count - len(taken)]]
            dealt = [rank for rank in dealt if self._of_node[rank]]
        for rank in nodes:
            if self._of_node[rank]:
                heapq.heappush(self._heap, (-len(self._of_node[rank]), rank))
        return np.array(taken, dtype=np.int32)

    def why_none(self, live_workers: int) -> str:
        """Why a topology with that many live workers gets no slot now."""
        if self._heap:
            return f"its {live_workers} workers all live, and EvenScheduler adds no executor to a live worker"
        return f"no free worker slot: {self._counts}"
