"""Multi-tenancy: serves topologies in an order and within the limits of users, for every scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Topology, Unplaced
from stormwright.model.arrays import IntArray, frozen
from stormwright.model.constraints.users import allowed_of, user_of
from stormwright.model.humanize import counted
from stormwright.model.tenancy_config import Users
from stormwright.model.topology_config import WORKERS, WORKERS_KEY
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.plugin_guard import NO_REASON
from stormwright.schedulers.toolkit.queue_order import in_order
from stormwright.schedulers.toolkit.queue_rules import QueueRules, rules_of, users_of
from stormwright.schedulers.toolkit.traits import Traits
from stormwright.schedulers.toolkit.user_shares import Reasons, UserShares, behind
from stormwright.schedulers.toolkit.wrappers import WrappedScheduler

#: Maximum calls for single topologies that were left out; after that nothing overtakes the next.
_MAX_RETRIES = 16


@dataclass(frozen=True)
class PartAnswer:
    """Answer of a scheduler for some topologies, by their indices in the whole problem.

    Parameters
    ----------
    topologies
        Topologies of the partial problem, in its order.
    slots
        Slot of every executor of the whole problem, -1 also for those outside the partial problem, shape (E,).
    answer
        Assignment of the partial problem, as the scheduler returned it.
    """

    topologies: tuple[int, ...]
    slots: IntArray
    answer: Assignment

    def holds(self, problem: Problem, topology: int) -> bool:
        """Return whether all executors of a topology have slots."""
        return bool(np.all(self.slots[problem.executors_of(topology)] != UNPLACED))

    def reasons(self, problem: Problem, topology: int) -> tuple[str, ...]:
        """Return the distinct reasons of a topology's unplaced executors."""
        return tuple(self._reasons_by_topology.get(problem.topologies[topology].id, ())) or (NO_REASON,)

    @cached_property
    def _reasons_by_topology(self) -> dict[str, dict[str, None]]:
        """Topology → the reasons of all its executors, in order."""
        reasons: dict[str, dict[str, None]] = {}
        for each in self.answer.unplaced:
            reasons.setdefault(each.topology, {}).update(dict.fromkeys(each.reasons))
        return reasons


class PartialScheduler:
    """Runs a scheduler on parts of a problem, and counts the calls.

    Parameters
    ----------
    problem
        Problem with all topologies, of which parts are scheduled.
    scheduler
        Scheduler that is called for each part.
    running
        Topologies that run, at least in part: always included.
    in_turn
        Whether the scheduler gets waiting topologies after running ones, in the order of the queue; else as in the
        problem.
    """

    def __init__(self, problem: Problem, scheduler: Scheduler, running: Sequence[int], *, in_turn: bool) -> None:
        self._problem, self._scheduler, self.running = problem, scheduler, tuple(running)
        self._in_turn = in_turn
        self.times, self.seconds = 0, 0.0

    def about(self, waiting: Sequence[int]) -> PartAnswer:
        """Return the answer if, apart from running topologies, only these wait, in this order."""
        problem, topologies = self._problem, (*self.running, *waiting)
        topologies = topologies if self._in_turn else tuple(sorted(topologies))
        as_given = topologies == tuple(range(len(problem.topologies)))
        part = problem if as_given else _part(problem, topologies)
        answer = self._scheduler.schedule(part)
        self.times += 1
        self.seconds += answer.seconds
        if as_given:
            return PartAnswer(topologies, answer.slot_of_executor, answer)
        slots = np.full(problem.num_executors, UNPLACED, dtype=np.int32)
        for position, topology in enumerate(topologies):
            slots[problem.executors_of(topology)] = answer.slot_of_executor[part.executors_of(position)]
        return PartAnswer(topologies, slots, answer)


def unplaced(problem: Problem, slots: IntArray, topology: int, reasons: tuple[str, ...]) -> list[Unplaced]:
    """Return an `Unplaced` with the same reasons for every executor of a topology without a slot.

    Parameters
    ----------
    problem
        Problem with all topologies, by which executors are numbered.
    slots
        Slot of every executor, -1 for none, shape (E,).
    topology
        Index of the topology.
    reasons
        Reasons to report for each of these executors.
    """
    of = problem.topologies[topology]
    lacking = np.flatnonzero(slots[problem.executors_of(topology)] == UNPLACED).tolist()
    return [Unplaced(of.id, each, of.components[of.executor_component[each]].id, reasons) for each in lacking]


def _part(problem: Problem, topologies: Sequence[int]) -> Problem:
    chosen = tuple(problem.topologies[index] for index in topologies)
    current = {of.id: problem.current[of.id] for of in chosen if of.id in problem.current}
    return replace(problem, topologies=chosen, current=current)


#: Values of the parameter `workers` of schedulers that choose numbers of workers.
_, AT_MOST, FREE = WORKERS


class MultiTenantScheduler(WrappedScheduler):
    """Runs a scheduler on topologies in the configured order, within the limits of their users.

    1. Running topologies, including lost executors, come first and are never removed: they count towards their users'
       limits, and are always passed to the scheduler.
    2. Topologies in the queue that exceed their user's limits wait, each with the limit and the excess as reason.
    3. The scheduler places all others together, in the order of the queue. If it leaves one out and places a later one,
       it runs again on those ahead and this one alone: what does not fit then does not fit at all.
    4. If it fits then, the longest prefix of the queue that it places together is determined by bisection, and the next
       one does not fit.
    5. Without `backfill` everything behind the first one that does not fit waits.

    With the order as given, backfill and no limits nothing changes.

    Parameters
    ----------
    name, params
        Name and parameters of the scheduler.
    scheduler, traits
        Wrapped scheduler, and the traits of its class.
    given
        Options of `QueueRules` that were set explicitly; the others come from the cluster's configuration.

    Raises
    ------
    InputError
        Options that are out of range; all faults at once. On scheduling: invalid priorities or weights.
    """

    def __init__(
        self, name: str, scheduler: Scheduler, params: Params, traits: Traits, given: Mapping[str, object]
    ) -> None:
        super().__init__(scheduler, params, traits)
        self.name = name
        rules = asdict(QueueRules.from_settings(given))
        #: Explicit options, parsed.
        self.given = {option: rules[option] for option in given}

    def schedule(self, problem: Problem) -> Assignment:
        """Place the admitted topologies."""
        rules = rules_of(problem, self.given)
        users = users_of(problem, rules)
        if rules.leaves_all_to_the_scheduler and not users:
            return self._signed(self.scheduler.schedule(problem))
        runs = np.bincount(problem.executor_topology, problem.current_slot != UNPLACED, len(problem.topologies)) > 0
        running = np.flatnonzero(runs).tolist()
        queue = in_order(problem, np.flatnonzero(~runs).tolist(), rules.order)
        asking = PartialScheduler(
            self._with_fixed_workers(problem, users), self.scheduler, running, in_turn=rules.order != "given"
        )
        part, reasons = _Serving(problem, asking, UserShares(problem, users, running), rules).serve(queue)
        return self._signed(self._whole(problem, part, reasons, asking.seconds))

    def _with_fixed_workers(self, problem: Problem, users: Users) -> Problem:
        """Return the problem with fixed numbers of workers, if slots are limited and a scheduler chooses them."""
        workers_for = getattr(self.params, "workers_for", None)
        if workers_for is None or workers_for(problem) != FREE:
            return problem

        def shown(topology: Topology) -> Topology:
            chosen = topology.conf.get(WORKERS_KEY, FREE) == FREE
            if not chosen or "slots" not in allowed_of(users, user_of(topology)):
                return topology
            return replace(topology, conf={**topology.conf, WORKERS_KEY: AT_MOST})

        topologies = tuple(map(shown, problem.topologies))
        same = all(new is old for new, old in zip(topologies, problem.topologies, strict=True))
        return problem if same else replace(problem, topologies=topologies)

    def _signed(self, answer: Assignment) -> Assignment:
        return replace(answer, parameters={**answer.parameters, **self.given}) if self.given else answer

    def _whole(self, problem: Problem, part: PartAnswer | None, reasons: Reasons, seconds: float) -> Assignment:
        """Return the last answer with the reasons of all waiting topologies."""
        answer = part.answer if part else Assignment(np.empty(0, np.int32), scheduler=self.name)
        slots = part.slots if part else np.full(problem.num_executors, UNPLACED, dtype=np.int32)
        waiting = {problem.topologies[index].id for index in reasons}
        unplaced_executors: list[Unplaced] = [each for each in answer.unplaced if each.topology not in waiting]
        status = {name: text for name, text in answer.status.items() if name not in waiting}
        for index, why in sorted(reasons.items()):
            unplaced_executors += unplaced(problem, slots, index, why)
            status[problem.topologies[index].id] = f"{self.name}: {'; '.join(why)}"
        return replace(
            answer,
            slot_of_executor=frozen(slots, np.int32),
            unplaced=tuple(unplaced_executors),
            status=status,
            parameters=answer.parameters if part else asdict(self.params),
            seconds=seconds,
        )


class _Serving:
    """One queue passing through one scheduler."""

    def __init__(self, problem: Problem, asking: PartialScheduler, shares: UserShares, rules: QueueRules) -> None:
        self._problem, self._asking, self._shares = problem, asking, shares
        self._as_scheduler_has_it, self._backfill = rules.leaves_all_to_the_scheduler, rules.backfill

    def serve(self, queue: Sequence[int]) -> tuple[PartAnswer | None, Reasons]:
        """Return the answer for the placed topologies, None if there were none to place, and reasons for the others."""
        out: Reasons = {}
        while True:
            waiting = [index for index in queue if index not in out]
            admitted, over = self._shares.admitted(waiting, self._backfill)
            if not admitted and not self._asking.running:  # some schedulers fail without topologies
                return None, out | over
            part = self._asking.about(admitted)
            if self._shares.learn(part.slots, admitted):
                continue
            found, stands = self._without_room(part, admitted)
            held_up = [] if self._backfill or not found else waiting[max(map(waiting.index, found)) + 1 :]
            stands = stands and not self._shares.shared(found, over)
            out |= found
            if held_up:
                first = next(index for index in waiting if index in found)
                out |= {index: over.get(index, behind(self._problem, first, len(found))) for index in held_up}
                stands = stands and not any(part.holds(self._problem, index) for index in held_up)
            if stands:
                return self._shown(part, out), over | out

    def _shown(self, part: PartAnswer, out: Reasons) -> PartAnswer:
        """Return the answer without parts of topologies that were left out."""
        if not out:
            return part
        slots = part.slots.copy()
        for index in out:
            slots[self._problem.executors_of(index)] = UNPLACED
        return replace(part, slots=slots)

    def _without_room(self, part: PartAnswer, admitted: Sequence[int]) -> tuple[Reasons, bool]:
        """Return topologies that do not fit, with reasons, and whether all others are placed as in the answer.

        Without backfill this is only the first one.
        """
        problem, found = self._problem, Reasons()
        held = [part.holds(problem, each) for each in admitted]
        last = max((place for place, holds in enumerate(held) if holds), default=-1)
        for place, index in enumerate(admitted):
            if held[place]:
                continue
            skips = place < last
            if skips and not self._as_scheduler_has_it:
                self._backfill = self._backfill and self._asking.times < _MAX_RETRIES
                ahead = [each for each in admitted[:place] if each not in found]
                if self._fit([*ahead, index]):
                    found |= self._next([each for each in admitted if each not in found])
                    # Schedulers with a time limit may answer differently each time: every round has to make progress.
                    return found or {index: part.reasons(problem, index)}, False
            found[index] = part.reasons(problem, index)
            if not self._backfill:
                break
        return found, True

    def _fit(self, queue: Sequence[int]) -> bool:
        part = self._asking.about(queue)
        return all(part.holds(self._problem, each) for each in queue)

    def _next(self, queue: Sequence[int]) -> Reasons:
        """Return the first of a queue that is not placed with all ahead of it, with the reason; empty if none."""
        if self._fit(queue):
            return {}
        some, too_many = 0, len(queue)
        while too_many - some > 1:
            middle = (some + too_many) // 2
            some, too_many = (middle, too_many) if self._fit(queue[:middle]) else (some, middle)
        part, index = self._asking.about(queue[:too_many]), queue[too_many - 1]
        # The scheduler may have placed this one and left out one ahead of it, which lacks the resources that this one
        # uses.
        left_out = (each for each in reversed(queue[:too_many]) if not part.holds(self._problem, each))
        message = f"no room beside {counted(too_many - 1, 'topology')} ahead of it"
        return {index: (message, *part.reasons(self._problem, next(left_out, index)))}
