"""Answers to Nimbus: placements for topologies without slots."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from stormwright.base import stdout
from stormwright.base.clock import WALL, Clock
from stormwright.defaults import BASELINE
from stormwright.errors import InputError, SchedulerError
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Topology, TopologyAssignment
from stormwright.model.answer import name_slots
from stormwright.model.arrays import IntArray
from stormwright.model.fallback import fallback_class
from stormwright.storm.occupancy import Occupancy, Order, change_places, checked_slots

#: Seconds after which an unused order expires.
ORDER_S = 120.0


class TimeLimited:
    """A scheduler with a time limit, called in a separate thread, one call at a time.

    A thread cannot be ended from outside. A call that is not through in time is left alone and its answer dropped;
    until it ends every further call is refused at once.

    Parameters
    ----------
    scheduler, name
        The scheduler, and its name in messages.
    """

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._name = name
        self._under_way: _Call | None = None

    def schedule(self, problem: Problem, limit_s: float | None = None) -> Assignment:
        """Place the executors of `problem` within `limit_s` seconds; None: no limit.

        Raises
        ------
        SchedulerError
            There is no answer: it took too long, still does, or failed.
        InputError
            The scheduler cannot use the problem.
        """
        if self._under_way and self._under_way.is_alive():
            raise SchedulerError(f"{self._name} still decides about an earlier state of the cluster")
        call = self._under_way = _Call(lambda: self._scheduler.schedule(problem))
        if not call.ended_within(limit_s):
            raise SchedulerError(f"{self._name} had no answer within {limit_s:.1f} s")
        self._under_way = None
        if isinstance(call.error, InputError):
            raise call.error
        if call.error is not None:
            raise SchedulerError(f"{self._name} failed: {type(call.error).__name__}: {call.error}") from call.error
        if not isinstance(call.answer, Assignment):
            raise SchedulerError(
                f"{self._name} returned an invalid answer: a {type(call.answer).__name__}, not an Assignment"
            )
        return call.answer

    def warm_up(self, call: Callable[[Scheduler], None], limit_s: float) -> bool:
        """Run `call` with the scheduler; return False if it still runs after `limit_s` seconds."""
        self._under_way = _Call(lambda: call(self._scheduler))
        return self._under_way.ended_within(limit_s)


class _Call(threading.Thread):
    """A running call; later its answer or its error."""

    def __init__(self, function: Callable[[], object]) -> None:
        # A daemon: a scheduler that never returns does not keep the service from ending.
        super().__init__(name="stormwright-initial", daemon=True)
        self._function = function
        self.answer: object = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self._function()
        except BaseException as error:  # SystemExit of a plugin is no wish of ours to end
            self.error = error

    def ended_within(self, limit_s: float | None) -> bool:
        self.join(limit_s)
        if self.is_alive():
            stdout.release_thread(self)
        return not self.is_alive()


@dataclass(frozen=True)
class NimbusAnswer:
    """Assignments by id for topologies that should change, and the status text of every topology.

    `held` topologies stay without slots for the moment: no fallback places them.
    """

    assignments: Mapping[str, TopologyAssignment] = field(default_factory=dict)
    status: Mapping[str, str] = field(default_factory=dict)
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Failure:
    """A topology that needed slots and got none.

    Parameters
    ----------
    topology_id, topology_name
        As Storm knows it.
    scheduler
        Scheduler that looked for slots.
    reasons
        Counted reasons; at least one.
    """

    topology_id: str
    topology_name: str
    scheduler: str
    reasons: tuple[str, ...]


class Bridge:
    """Answers to Nimbus: running topologies are left alone, topologies without slots get some.

    A topology that runs completely is never changed here, whatever was ordered: only a safe move removes a placement,
    by a rebalance, and then Nimbus requests a placement for the unassigned topology. For such a topology

    1. an order of the controller holds as long as all its slots are available; of topologies that change places, once
       one has no slots all others leave theirs in the same answer (`change_places`); an order without slots leaves a
       topology without any;
    2. otherwise the initial scheduler places executors without a slot, around running ones. If it is Storm's own and
       the cluster keeps another class for placement (`fallback_class`), that class does, in Nimbus;
    3. one whose configuration has faults is left out.

    The initial scheduler may be a plugin. If it exceeds the time limit, fails, or returns an invalid placement, its
    topologies stay without slots, with no other effect: orders are accepted, carried out and shown meanwhile.

    Parameters
    ----------
    initial
        The scheduler for topologies without orders.
    initial_name
        Name of the initial scheduler, for the status text.
    on_failures
        Called after every answer with all topologies left without slots. Nimbus waits meanwhile.
    explain_unplaced
        Returns the status text of topologies (ids) left without slots by an assignment; default: the scheduler's text.
    clock
        Clock of the cluster.
    shown
        Transforms a snapshot for scheduling, such as making hosts unschedulable.
    leads
        Returns the leadership term of this service, None without election; raises if it does not lead.
    """

    def __init__(
        self,
        initial: Scheduler,
        initial_name: str,
        on_failures: Callable[[Collection[Failure]], None] | None = None,
        explain_unplaced: Callable[[Problem, Assignment, Collection[str]], Mapping[str, str]] | None = None,
        clock: Clock = WALL,
        shown: Callable[[Problem], Problem] = lambda problem: problem,
        leads: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._clock, self._shown, self.leads = clock, shown, leads
        self._initial, self._initial_name = TimeLimited(initial, initial_name), initial_name
        self._on_failures, self._explain_unplaced = on_failures, explain_unplaced
        self._orders: dict[str, Order] = {}
        self._ordered_s: dict[str, float] = {}
        self._status: dict[str, str] = {}
        #: What the last answer assigned, by topology.
        self._answered: Mapping[str, TopologyAssignment] = {}
        self._failures: dict[str, Failure] = {}
        self._unfit: Mapping[str, tuple[str, ...]] = {}
        self._snapshot: Problem | None = None
        self._snapshot_time, self._begun_s = 0.0, clock.monotonic()
        self._deciding, self._changed = threading.Lock(), threading.Condition()

    def order(self, topology_id: str, order: Order) -> None:
        """Order a placement for `topology_id`, for when it has no slots within the next `ORDER_S` seconds."""
        self.order_all({topology_id: order})

    def order_all(self, orders: Mapping[str, Order]) -> None:
        """Order placements of several topologies (by id) atomically."""
        with self._changed:
            self._orders |= orders
            self._ordered_s |= dict.fromkeys(orders, self._clock.monotonic())

    def withdraw(self, topologies: Collection[str]) -> None:
        """Cancel the moves of topologies (ids); their old workers are no longer waited for.

        Later answers leave each where it is, or restore the slots recorded in its order if Nimbus has taken them
        meanwhile. It waits for a current answer, so that `snapshot` shows the earlier ones.
        """
        with self._deciding, self._changed:
            runs = self._snapshot.current if self._snapshot else {}
            for topology_id in self._orders.keys() & topologies:
                order = self._orders.pop(topology_id)
                if order.before is not None and runs.get(topology_id) != order.assignment:
                    self._orders[topology_id] = order.cancelled("its move was given up")
                    self._ordered_s[topology_id] = self._clock.monotonic()

    def snapshot(self) -> Problem | None:
        """Return the newest snapshot of the cluster."""
        return self._snapshot

    def snapshot_age_s(self) -> float:
        """Return the seconds since the last request of Nimbus; before the first, since this bridge was made."""
        return self._clock.monotonic() - max(self._snapshot_time, self._begun_s)

    def wait_for_snapshot(self, after: float, timeout_s: float) -> Problem | None:
        """Return the first snapshot later than `after` (`Clock.monotonic`), or None after `timeout_s` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._snapshot_time > after, timeout_s)
            return self._snapshot if self._snapshot_time > after else None

    def unfit(self) -> dict[str, str]:
        """Return the faults in the configurations of topologies, by id, in the newest snapshot."""
        return {topology_id: _fault_text(faults) for topology_id, faults in self._unfit.items()}

    def warm_up(self, call: Callable[[Scheduler], None], limit_s: float) -> bool:
        """Run `call` with the initial scheduler first; return False if it still runs after `limit_s` seconds.

        Until it is, topologies without an order get no slots.
        """
        return self._initial.warm_up(call, limit_s)

    def answer(
        self, problem: Problem, unfit: Mapping[str, tuple[str, ...]] | None = None, limit_s: float | None = None
    ) -> NimbusAnswer:
        """Decide about one snapshot of Nimbus.

        Parameters
        ----------
        unfit
            Topology id → faults of its configuration. Such a topology gets no slots here.
        limit_s
            Time limit of the initial scheduler in seconds; None for no limit.

        Raises
        ------
        InputError
            The initial scheduler cannot use the snapshot, and there is no order to be given.
        """
        with self._deciding:
            with self._changed:
                held = {topology_id for topology_id in self._orders if self._holds(problem, topology_id)}
                self._orders = {t: order for t, order in self._orders.items() if t in held}
                self._ordered_s = {t: since for t, since in self._ordered_s.items() if t in held}
                self._unfit = unfit or {}
                orders = {t: order for t, order in self._orders.items() if t not in self._unfit}
            for topology_id, given in self._answered.items():
                if problem.current.get(topology_id) != given:
                    # Nimbus did not use the answer, such as one that breaks a limit, and has said why.
                    self._status.pop(topology_id, None)
            # Only Nimbus waits for the scheduler.
            answer = self._decide(*change_places(self._shown(problem), orders), limit_s)
            self._answered = answer.assignments
            with self._changed:
                assigned = {**problem.current, **answer.assignments}
                self._snapshot = problem.with_current(assigned) if answer.assignments else problem
                self._snapshot_time = self._clock.monotonic()
                self._changed.notify_all()
            if self._on_failures:
                self._on_failures(self._failures.values())
            return answer

    def _holds(self, problem: Problem, topology_id: str) -> bool:
        """Return whether an order is neither carried out nor expired; later rebalances are foreign.

        Of topologies that change places one has moved without the other where Nimbus has ended in between: the order of
        all holds until all have. One that is turned back holds as well while its topology runs where it did: Nimbus may
        be as late as that, and a foreign rebalance in that time changes nothing.
        """
        order, runs = self._orders[topology_id], problem.current.get(topology_id)
        old = self._clock.monotonic() - self._ordered_s[topology_id] >= ORDER_S
        if old or topology_id not in problem.topology_index:
            return False
        if order.back:
            return runs is None or runs == order.assignment
        group = {topology_id, *order.together} & self._orders.keys()
        return any(problem.current.get(other) != self._orders[other].assignment for other in group)

    def _decide(self, problem: Problem, orders: Mapping[str, Order], limit_s: float | None) -> NimbusAnswer:
        occupancy = Occupancy(problem)
        incomplete = [problem.topologies[index] for index in occupancy.incomplete()]
        waiting = {topology.id for topology in incomplete}
        # Another scheduler may have found slots for a topology without any here.
        self._status = {
            t: text
            for t, text in self._status.items()
            if t in waiting or (t not in self._failures and t in problem.topology_index)
        }
        self._failures = {}
        assignments: dict[str, TopologyAssignment] = {}
        rest, held = list[Topology](), set[str]()
        for topology in incomplete:
            order = orders.get(topology.id)
            if topology.id in self._unfit:
                faults = self._unfit[topology.id]
                self._fail(topology, f"stormwright: {_fault_text(faults)}", faults)
            elif order and not order.assignment.slots:
                held.add(topology.id)
                self._status[topology.id] = order.reason
            elif order and occupancy.grants(topology, order.assignment):
                assignments[topology.id] = order.assignment
                self._status[topology.id] = order.reason
            else:
                rest.append(topology)
        if rest and (own_class := self._own_class(problem)):
            left = {topology.id: f"stormwright: left to {own_class}" for topology in rest}
            self._status = {t: text for t, text in self._status.items() if t not in left}
            return NimbusAnswer(assignments, self._status | left, frozenset(held))
        if rest:
            around = self._around(problem, occupancy, assignments, held)
            try:
                placed = self._initial.schedule(around, limit_s)
                slots = checked_slots(around, placed, self._initial_name)
            except (SchedulerError, InputError) as error:
                if isinstance(error, InputError) and not assignments:
                    raise
                text = "; ".join(line.strip() for line in str(error).splitlines())
                for topology in rest:
                    self._fail(topology, text, (text,))
            else:
                assignments |= self._accept(around, placed, slots, rest, occupancy)
        return NimbusAnswer(assignments, dict(self._status), frozenset(held))

    def _own_class(self, problem: Problem) -> str:
        """Return the cluster's own placement class, unless another scheduler was requested; else empty."""
        return fallback_class(problem.conf) if self._initial_name == BASELINE else ""

    def _around(
        self, problem: Problem, occupancy: Occupancy, ordered: Mapping[str, TopologyAssignment], held: Set[str]
    ) -> Problem:
        """Return the problem for the initial scheduler: ordered topologies run, excluded ones are left out."""
        if ordered:
            problem = problem.with_current({**problem.current, **ordered})
        absent = {t for t in {*self._unfit, *held} if t in problem.topology_index and not occupancy.has_slots(t)}
        if absent:
            problem = replace(problem, topologies=tuple(t for t in problem.topologies if t.id not in absent))
        return problem

    def _accept(
        self, around: Problem, placed: Assignment, slots: IntArray, rest: Sequence[Topology], occupancy: Occupancy
    ) -> dict[str, TopologyAssignment]:
        """Return valid placements of topologies in `rest` by the initial scheduler; others get a status."""
        own = {t.id: slots[around.executors_of(around.topology_index[t.id])] for t in rest}
        left_out = {topology_id for topology_id, of_topology in own.items() if np.any(of_topology == UNPLACED)}
        why: Mapping[str, str] = placed.status
        reasons = placed.reasons_of_topologies() if left_out else {}
        if left_out and self._explain_unplaced:
            why = self._explain_unplaced(around, placed, left_out)
        accepted = {}
        for topology in rest:
            if topology.id in left_out:
                text = placed.status.get(topology.id, f"{self._initial_name}: no slot for it")
                self._fail(topology, why.get(topology.id, text), reasons.get(topology.id, (text,)))
            elif refusal := occupancy.refusal(topology, own[topology.id]):
                text = f"{self._initial_name} {refusal}"
                self._fail(topology, text, (text,))
            else:
                occupancy.take(topology, own[topology.id])
                accepted[topology.id] = name_slots(around, own[topology.id])
                self._status[topology.id] = f"stormwright: placed by {self._initial_name}"
        return accepted

    def _fail(self, topology: Topology, status: str, reasons: tuple[str, ...]) -> None:
        self._status[topology.id] = status
        self._failures[topology.id] = Failure(topology.id, topology.name, self._initial_name, reasons)


def _fault_text(faults: Sequence[str]) -> str:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return f"{count} in its configuration: {'; '.join(faults)}"
