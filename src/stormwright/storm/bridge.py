"""What Nimbus is told when it asks where a topology should run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Topology, TopologyAssignment

#: An order that Nimbus has not asked for after so many seconds is void.
ORDER_S = 120.0


@dataclass(frozen=True)
class Answer:
    """Topology id → assignment for those that should change, and the status text of every topology."""

    assignments: Mapping[str, TopologyAssignment] = field(default_factory=dict)
    status: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """Where the controller wants a topology, and why."""

    assignment: TopologyAssignment
    reason: str


@dataclass(frozen=True)
class Failure:
    """A topology that Nimbus asked slots for and that got none.

    Parameters
    ----------
    topology_id, topology_name
        As Storm knows it.
    scheduler
        Who looked for slots.
    reasons
        What stood in the way, counted; at least one.
    """

    topology_id: str
    topology_name: str
    scheduler: str
    reasons: tuple[str, ...]


class Bridge:
    """Answers Nimbus: what runs is left alone, what has no slot gets one.

    A topology that runs completely is never touched here, whatever anybody ordered: only a safe move takes a
    placement away, by a rebalance, and then Nimbus asks again with the topology unassigned. For such a topology

    1. an order of the controller holds as long as all its slots can be had;
    2. otherwise the initial scheduler places what has no slot, around everything that runs;
    3. one whose configuration has faults is left out.

    Parameters
    ----------
    initial
        The scheduler for topologies that nobody ordered anything for.
    initial_name
        Its name, for the status text.
    tell_failures
        Takes, after every answer, all topologies that it left without slots. Nimbus waits meanwhile.
    tell_why
        Gives the status text of topologies (ids) that an assignment leaves without slots; else it is the scheduler's.
    """

    def __init__(
        self,
        initial: Scheduler,
        initial_name: str,
        tell_failures: Callable[[Collection[Failure]], None] | None = None,
        tell_why: Callable[[Problem, Assignment, Collection[str]], Mapping[str, str]] | None = None,
    ) -> None:
        self._initial = initial
        self._initial_name = initial_name
        self._tell_failures = tell_failures
        self._tell_why = tell_why
        self._orders: dict[str, Order] = {}
        self._ordered_s: dict[str, float] = {}
        self._status: dict[str, str] = {}
        self._failures: dict[str, Failure] = {}
        self._unfit: Mapping[str, tuple[str, ...]] = {}
        self._snapshot: Problem | None = None
        self._snapshot_time = 0.0
        self._changed = threading.Condition()

    def order(self, topology_id: str, order: Order) -> None:
        """Place `topology_id` like this when it next has no slots, if that is within `ORDER_S` seconds."""
        with self._changed:
            self._orders[topology_id] = order
            self._ordered_s[topology_id] = time.monotonic()

    def withdraw(self, topology_id: str) -> None:
        """Forget the order for `topology_id`."""
        with self._changed:
            self._orders.pop(topology_id, None)

    def snapshot(self) -> Problem | None:
        """The cluster as Nimbus showed it last."""
        return self._snapshot

    def snapshot_age_s(self) -> float:
        """Seconds since Nimbus asked last."""
        return time.monotonic() - self._snapshot_time

    def wait_for_snapshot(self, after: float, timeout_s: float) -> Problem | None:
        """The first snapshot taken later than `after` (`time.monotonic`), or None after `timeout_s` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._snapshot_time > after, timeout_s)
            return self._snapshot if self._snapshot_time > after else None

    def unfit(self) -> dict[str, str]:
        """Topology id → what is wrong with its configuration, as Nimbus showed it last."""
        return {topology_id: _told(faults) for topology_id, faults in self._unfit.items()}

    def answer(self, problem: Problem, unfit: Mapping[str, tuple[str, ...]] | None = None) -> Answer:
        """Decide about one snapshot of Nimbus.

        Parameters
        ----------
        unfit
            Topology id → faults of its configuration. Such a topology gets no slots here.

        Raises
        ------
        InputError
            The initial scheduler cannot use the snapshot.
        """
        with self._changed:
            known = {topology.id for topology in problem.topologies}
            self._orders = {t: order for t, order in self._orders.items() if t in known and self._holds(problem, t)}
            self._ordered_s = {t: since for t, since in self._ordered_s.items() if t in self._orders}
            self._status = {t: text for t, text in self._status.items() if t in known}
            self._unfit = unfit or {}
            answer = self._decide(problem)
            self._snapshot = problem.with_current({**problem.current, **answer.assignments})
            self._snapshot_time = time.monotonic()
            self._changed.notify_all()
            if self._tell_failures:
                self._tell_failures(self._failures.values())
            return answer

    def _holds(self, problem: Problem, topology_id: str) -> bool:
        """Whether an order is neither carried out nor old; later rebalances are somebody else's."""
        done = problem.current.get(topology_id) == self._orders[topology_id].assignment
        return not done and time.monotonic() - self._ordered_s[topology_id] < ORDER_S

    def _decide(self, problem: Problem) -> Answer:
        assignments: dict[str, TopologyAssignment] = {}
        incomplete = [topology for topology in problem.topologies if _incomplete(problem, topology)]
        waiting = {topology.id for topology in incomplete}
        # Somebody else may have found slots for what had none here.
        self._status = {t: text for t, text in self._status.items() if t in waiting or t not in self._failures}
        self._failures = {}
        for topology in incomplete:
            if topology.id in self._unfit:
                faults = self._unfit[topology.id]
                self._fail(topology, f"stormwright: {_told(faults)}", faults)
        incomplete = [topology for topology in incomplete if topology.id not in self._unfit]
        for topology in incomplete:
            order = self._orders.get(topology.id)
            ordered = problem.with_current({**problem.current, **assignments})
            workers = min(topology.num_workers, topology.num_executors)
            if order and len(order.assignment.slots) == workers and _obtainable(ordered, topology, order.assignment):
                assignments[topology.id] = order.assignment
                self._status[topology.id] = order.reason
        rest = [topology for topology in incomplete if topology.id not in assignments]
        if rest:
            around = replace(
                problem,
                topologies=tuple(t for t in problem.topologies if t.id not in self._unfit or _runs(problem, t)),
                current={**problem.current, **assignments},
            )
            placed = self._initial.schedule(around)
            by_topology, reasons = placed.by_topology(around), _reasons(placed)
            left_out = {topology.id for topology in rest if UNPLACED in by_topology[topology.id].slot_of_executor}
            why = self._tell_why(around, placed, left_out) if self._tell_why else placed.status
            for topology in rest:
                answer = by_topology[topology.id]
                if topology.id in left_out:
                    own = placed.status.get(topology.id, f"{self._initial_name}: no slot for it")
                    self._fail(topology, why.get(topology.id, own), reasons.get(topology.id, (own,)))
                elif not _obtainable(around.with_current({**around.current, **assignments}), topology, answer):
                    text = f"{self._initial_name} wants slots that are taken, or to move what runs"
                    self._fail(topology, text, (text,))
                else:
                    assignments[topology.id] = answer
                    self._status[topology.id] = f"stormwright: placed by {self._initial_name}"
        return Answer(assignments, dict(self._status))

    def _fail(self, topology: Topology, status: str, reasons: tuple[str, ...]) -> None:
        self._status[topology.id] = status
        self._failures[topology.id] = Failure(topology.id, topology.name, self._initial_name, reasons)


def _reasons(placed: Assignment) -> dict[str, tuple[str, ...]]:
    """Topology id → what is said of its executors without a slot, each thing once."""
    found: dict[str, dict[str, None]] = {}
    for executor in placed.unplaced:
        found.setdefault(executor.topology, {}).update(dict.fromkeys(executor.reasons))
    return {topology: tuple(reasons) for topology, reasons in found.items() if reasons}


def _told(faults: Sequence[str]) -> str:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return f"{count} in its configuration: {'; '.join(faults)}"


def _runs(problem: Problem, topology: Topology) -> bool:
    """Whether any executor of a topology has a live slot."""
    current = problem.current_slot[problem.executors_of(problem.topology_index[topology.id])]
    return bool(np.any(current != UNPLACED))


def _incomplete(problem: Problem, topology: Topology) -> bool:
    """Whether any executor of a topology has no live slot."""
    current = problem.current_slot[problem.executors_of(problem.topology_index[topology.id])]
    return bool(np.any(current == UNPLACED))


def _obtainable(problem: Problem, topology: Topology, wanted: TopologyAssignment) -> bool:
    """Whether every slot of `wanted` exists and no other topology is in it, and no live executor would move."""
    if len(wanted.slot_of_executor) != topology.num_executors:
        return False
    index = problem.topology_index[topology.id]
    others = problem.executor_topology != index
    taken = set(problem.current_slot[others].tolist())
    slots = [problem.slot_index.get(slot) for slot in wanted.slots]
    if any(slot is None or slot in taken for slot in slots):
        return False
    current = problem.current_slot[problem.executors_of(index)]
    after = np.array(slots, dtype=np.int32)[list(wanted.slot_of_executor)]
    return bool(np.all((current == UNPLACED) | (current == after)))
