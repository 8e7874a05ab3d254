"""Serves topologies in an order and within what users may have, for every scheduler in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Topology, Unplaced
from stormwright.model.arrays import IntArray, frozen
from stormwright.model.constraints.users import allowed_of, user_of
from stormwright.model.humanize import counted
from stormwright.model.topology_config import WORKERS, WORKERS_KEY, Users
from stormwright.schedulers.multi_tenancy.order import in_order
from stormwright.schedulers.multi_tenancy.rules import QueueRules, rules_of, users_of
from stormwright.schedulers.multi_tenancy.users import Reasons, UserShares, behind
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.plugin_guard import NO_REASON
from stormwright.schedulers.toolkit.traits import Traits, passed_on

# Parts of problems --------------------------------------------------------------------------------
# A scheduler asked about some of the topologies that wait, as if there were no others.


@dataclass(frozen=True)
class PartAnswer:
    """What a scheduler answers about some topologies, by their indices in the whole problem.

    Parameters
    ----------
    topologies
        Those that it was asked about, in the order in which it was shown them.
    slots
        Of every executor of the whole problem, -1 also for those that it was not asked about, shape (E,).
    answer
        As it came.
    """

    topologies: tuple[int, ...]
    slots: IntArray
    answer: Assignment

    def holds(self, problem: Problem, topology: int) -> bool:
        """Whether all executors of a topology have slots."""
        return bool(np.all(self.slots[problem.executors_of(topology)] != UNPLACED))

    def reasons(self, problem: Problem, topology: int) -> tuple[str, ...]:
        """Why executors of a topology have none, each thing once."""
        return tuple(self._told.get(problem.topologies[topology].id, ())) or (NO_REASON,)

    @cached_property
    def _told(self) -> dict[str, dict[str, None]]:
        """Topology → the reasons of all its executors, in their order."""
        told: dict[str, dict[str, None]] = {}
        for each in self.answer.unplaced:
            told.setdefault(each.topology, {}).update(dict.fromkeys(each.reasons))
        return told


class PartialScheduler:
    """Asks one scheduler about parts of one problem, and counts how often.

    Parameters
    ----------
    problem
        The whole.
    scheduler
        Who is asked.
    running
        Topologies that run, at least in part: they are always shown.
    in_turn
        Whether the scheduler is shown what waits behind what runs, in the order of the queue; else as in the problem.
    """

    def __init__(self, problem: Problem, scheduler: Scheduler, running: Sequence[int], *, in_turn: bool) -> None:
        self._problem, self._scheduler, self.running = problem, scheduler, tuple(running)
        self._in_turn = in_turn
        self.times, self.seconds = 0, 0.0

    def about(self, waiting: Sequence[int]) -> PartAnswer:
        """What it answers where, of what does not run, only these wait, in this order."""
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
    """All executors of a topology that have no slot, with one and the same reasons.

    Parameters
    ----------
    problem
        The whole.
    slots
        Of every executor of it, -1 for none, shape (E,).
    topology
        Its index.
    reasons
        Why it waits.
    """
    of = problem.topologies[topology]
    lacking = np.flatnonzero(slots[problem.executors_of(topology)] == UNPLACED).tolist()
    return [Unplaced(of.id, each, of.components[of.executor_component[each]].id, reasons) for each in lacking]


def _part(problem: Problem, topologies: Sequence[int]) -> Problem:
    chosen = tuple(problem.topologies[index] for index in topologies)
    current = {of.id: problem.current[of.id] for of in chosen if of.id in problem.current}
    return replace(problem, topologies=chosen, current=current)


# Queueing -----------------------------------------------------------------------------------------

#: So often a scheduler is asked about single topologies that it has left out; then nothing goes ahead of the next.
_MOST_ASKED = 16

#: How a scheduler that chooses may take numbers of workers.
_, AT_MOST, FREE = WORKERS


class MultiTenantScheduler:
    """What a scheduler answers for topologies in the order that is asked for, within what users may have.

    1. What runs, and what of it was lost, comes first and is never taken back: it counts towards its user's limits, and
       is always shown to the scheduler.
    2. Of the queue, those that are too much for their user are held back, each with the limit and by how much.
    3. The scheduler is asked about all others together, in the order of the queue. Where it leaves out one and places a
       later one, it is asked about those ahead and this one alone: what finds no room then has none.
    4. If there was room after all, as many from the front of the queue count as it places together, by bisection, and
       the next one has no room.
    5. Without `backfill` everything behind the first one without room waits.

    With the order as given, backfill and no limits nothing changes.

    Parameters
    ----------
    name, params
        Of the scheduler.
    scheduler, traits
        Who is asked, and what its class declares.
    given
        The options, of those in `QueueRules`, that somebody has set; for others the cluster's configuration counts.

    Raises
    ------
    InputError
        Options that are out of range; all faults at once. When it schedules: priorities or weights that are none.
    """

    def __init__(
        self, name: str, scheduler: Scheduler, params: Params, traits: Traits, given: Mapping[str, object]
    ) -> None:
        self.name, self.scheduler, self.params = name, scheduler, params
        rules = asdict(QueueRules.from_settings(given))
        #: What was set, as it counts.
        self.given = {option: rules[option] for option in given}
        vars(self).update(passed_on(scheduler, traits))

    def schedule(self, problem: Problem) -> Assignment:
        """Place what may be placed."""
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
        asked, reasons = _Serving(problem, asking, UserShares(problem, users, running), rules).serve(queue)
        return self._signed(self._whole(problem, asked, reasons, asking.seconds))

    def _with_fixed_workers(self, problem: Problem, users: Users) -> Problem:
        """Where a scheduler chooses how many workers topologies get, it gives no more than asked where slots count."""
        if getattr(self.params, "workers", "") != FREE:
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

    def _whole(self, problem: Problem, asked: PartAnswer | None, reasons: Reasons, seconds: float) -> Assignment:
        """The answer about those asked about last, and why the others wait."""
        answer = asked.answer if asked else Assignment(np.empty(0, np.int32), scheduler=self.name)
        slots = asked.slots if asked else np.full(problem.num_executors, UNPLACED, dtype=np.int32)
        waiting = {problem.topologies[index].id for index in reasons}
        told: list[Unplaced] = [each for each in answer.unplaced if each.topology not in waiting]
        status = {name: text for name, text in answer.status.items() if name not in waiting}
        for index, why in sorted(reasons.items()):
            told += unplaced(problem, slots, index, why)
            status[problem.topologies[index].id] = f"{self.name}: {'; '.join(why)}"
        return replace(
            answer,
            slot_of_executor=frozen(slots, np.int32),
            unplaced=tuple(told),
            status=status,
            parameters=answer.parameters if asked else asdict(self.params),
            seconds=seconds,
        )


class _Serving:
    """One queue on its way through one scheduler."""

    def __init__(self, problem: Problem, asking: PartialScheduler, shares: UserShares, rules: QueueRules) -> None:
        self._problem, self._asking, self._shares = problem, asking, shares
        self._as_scheduler_has_it, self._backfill = rules.leaves_all_to_the_scheduler, rules.backfill

    def serve(self, queue: Sequence[int]) -> tuple[PartAnswer | None, Reasons]:
        """The answer about those that are placed, none if there was nothing to ask about; why the others wait."""
        out: Reasons = {}
        while True:
            waiting = [index for index in queue if index not in out]
            admitted, over = self._shares.admitted(waiting, self._backfill)
            if not admitted and not self._asking.running:  # not everyone's scheduler takes a problem without topologies
                return None, out | over
            asked = self._asking.about(admitted)
            if self._shares.learn(asked.slots, admitted):
                continue
            found, stands = self._without_room(asked, admitted)
            held_up = [] if self._backfill or not found else waiting[max(map(waiting.index, found)) + 1 :]
            stands = stands and not self._shares.shared(found, over)
            out |= found
            if held_up:
                first = next(index for index in waiting if index in found)
                out |= {index: over.get(index, behind(self._problem, first, len(found))) for index in held_up}
                stands = stands and not any(asked.holds(self._problem, index) for index in held_up)
            if stands:
                return self._shown(asked, out), over | out

    def _shown(self, asked: PartAnswer, out: Reasons) -> PartAnswer:
        """Without parts of topologies that were left out, which a scheduler may have placed."""
        if not out:
            return asked
        slots = asked.slots.copy()
        for index in out:
            slots[self._problem.executors_of(index)] = UNPLACED
        return replace(asked, slots=slots)

    def _without_room(self, asked: PartAnswer, admitted: Sequence[int]) -> tuple[Reasons, bool]:
        """Some that have no room beside those ahead of them, and why; whether all others are placed as they were asked.

        Without backfill that is the first one.
        """
        problem, found = self._problem, Reasons()
        held = [asked.holds(problem, each) for each in admitted]
        last = max((place for place, holds in enumerate(held) if holds), default=-1)
        for place, index in enumerate(admitted):
            if held[place]:
                continue
            skips = place < last
            if skips and not self._as_scheduler_has_it:
                self._backfill = self._backfill and self._asking.times < _MOST_ASKED
                ahead = [each for each in admitted[:place] if each not in found]
                if self._fit([*ahead, index]):
                    found |= self._next([each for each in admitted if each not in found])
                    # One that goes by the clock may answer otherwise each time: no round ends without one.
                    return found or {index: asked.reasons(problem, index)}, False
            found[index] = asked.reasons(problem, index)
            if not self._backfill:
                break
        return found, True

    def _fit(self, queue: Sequence[int]) -> bool:
        asked = self._asking.about(queue)
        return all(asked.holds(self._problem, each) for each in queue)

    def _next(self, queue: Sequence[int]) -> Reasons:
        """The first of a queue that is not placed together with all ahead of it, and why; none if all are."""
        if self._fit(queue):
            return {}
        some, too_many = 0, len(queue)
        while too_many - some > 1:
            middle = (some + too_many) // 2
            some, too_many = (middle, too_many) if self._fit(queue[:middle]) else (some, middle)
        asked, index = self._asking.about(queue[:too_many]), queue[too_many - 1]
        # The scheduler may have placed this one and left out one ahead of it: what that lacks, this one takes.
        left_out = (each for each in reversed(queue[:too_many]) if not asked.holds(self._problem, each))
        told = f"no room beside {counted(too_many - 1, 'topology')} ahead of it"
        return {index: (told, *asked.reasons(self._problem, next(left_out, index)))}
