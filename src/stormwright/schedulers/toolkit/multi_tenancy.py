"""Serves topologies in an order and within what users may have, for every scheduler in one place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heapreplace

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Topology, Unplaced
from stormwright.model.arrays import FloatArray, IntArray, frozen
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.constraints.users import allowed_of, amount_text, amounts_of, slots_of, user_of
from stormwright.model.humanize import counted
from stormwright.model.topology_config import (
    LIMITED,
    PRIORITY,
    USERS,
    WEIGHT,
    WEIGHT_OF_USER,
    WORKERS,
    WORKERS_KEY,
    Users,
    read_pools,
    read_users,
)
from stormwright.schedulers.toolkit.params import Params, topologies_tell
from stormwright.schedulers.toolkit.plugin_guard import NO_REASON
from stormwright.schedulers.toolkit.queue_rules import OPTION_OF, QueueRules, rules_of, users_of
from stormwright.schedulers.toolkit.traits import Traits, passed_on

# Order --------------------------------------------------------------------------------------------
# The order in which topologies that wait are served.

#: Storm's own, where a topology says nothing.
_PRIORITY = 29


def in_order(problem: Problem, waiting: Sequence[int], order: str) -> list[int]:
    """`waiting` topologies (by index) in the order asked for; ties stay as they were.

    - ``given``: as in the problem.
    - ``priority``: lowest ``topology.priority`` first, as Storm counts it (0 is the most urgent, 29 by default).
    - ``first_come``: by launch time.
    - ``shortest_first``: least CPU first, divided by ``stormwright.weight`` of the topology: W. E. Smith, "Various
      optimizers for single-stage production", Naval Research Logistics Quarterly 3, 1956,
      https://doi.org/10.1002/nav.3800030106.
    - ``fair_share``: of the user with the least CPU so far (running or ahead in the queue) for his weight, the most
      urgent. A topology's CPU counts divided by its ``stormwright.weight``, a user's by ``weight`` in
      ``stormwright.users``: A. Demers, S. Keshav, S. Shenker, "Analysis and simulation of a fair queueing algorithm",
      SIGCOMM 1989, https://doi.org/10.1145/75246.75248.
    - ``pools``: as Storm's ResourceAwareScheduler has it (``DefaultSchedulingPriorityStrategy`` of 2.8.3): of the user
      who would be least above what ``resource.aware.scheduler.user.pools`` guarantees, in parts of what is left, the
      most urgent, then the oldest.

    Raises
    ------
    InputError
        Priorities or weights that are none, where they count; all faults at once.
    """
    topologies = problem.topologies
    if order == "priority":
        priority = topologies_tell(problem, PRIORITY, _PRIORITY)
        return sorted(waiting, key=lambda index: int(priority[index]))
    if order == "first_come":
        return sorted(waiting, key=lambda index: topologies[index].launch_time)
    if order == "shortest_first":
        weighted = _cpu_hz(problem) / np.array(topologies_tell(problem, WEIGHT, 1.0), float)
        return sorted(waiting, key=lambda index: float(weighted[index]))
    if order == "fair_share":
        return _fair_share(problem, waiting)
    return _pools(problem, waiting) if order == "pools" else list(waiting)


def _cpu_hz(problem: Problem) -> FloatArray:
    """CPU of every topology, shape (T,)."""
    return np.bincount(problem.executor_topology, problem.executor_cpu_hz, len(problem.topologies)).astype(float)


def _by_user(problem: Problem, urgent_first: Sequence[int]) -> dict[str, list[int]]:
    own: dict[str, list[int]] = {}
    for index in urgent_first:
        own.setdefault(user_of(problem.topologies[index]), []).append(index)
    return own


def _fair_share(problem: Problem, waiting: Sequence[int]) -> list[int]:
    weight, users = topologies_tell(problem, WEIGHT, 1.0), read_users(problem.conf)[0]
    weighted = _cpu_hz(problem) / np.array(weight, float)
    runs = np.bincount(problem.executor_topology, problem.current_slot != UNPLACED, len(problem.topologies)) > 0
    share: dict[str, float] = {}
    for index, topology in enumerate(problem.topologies):
        user = user_of(topology)
        share[user] = share.get(user, 0.0) + (float(weighted[index]) if runs[index] else 0.0)
    worth = {user: allowed_of(users, user).get(WEIGHT_OF_USER, 1.0) for user in share}
    own = _by_user(problem, in_order(problem, waiting, "priority"))
    place = {index: number for number, index in enumerate(waiting)}
    # The share of who is served grows, and nobody else's changes.
    heads = [(share[user] / worth[user], place[theirs[0]], user, 0) for user, theirs in own.items()]
    heapify(heads)
    queue = []
    while heads:
        _, _, user, number = heads[0]
        queue.append(own[user][number])
        share[user] += float(weighted[queue[-1]])
        if number + 1 < len(own[user]):
            heapreplace(heads, (share[user] / worth[user], place[own[user][number + 1]], user, number + 1))
        else:
            heappop(heads)
    return queue


def _pools(problem: Problem, waiting: Sequence[int]) -> list[int]:
    """All topologies are taken in turn, running ones too, as in Storm; those that wait are the queue."""
    topologies, pools = problem.topologies, read_pools(problem.conf)
    count, priority = len(topologies), topologies_tell(problem, PRIORITY, _PRIORITY)
    asked = np.stack(
        [_cpu_hz(problem), np.bincount(problem.executor_topology, problem.executor_memory_mb, count)], axis=1
    )
    left = problem.node_capacity[:2].sum(axis=1)
    percent_hz = problem.core_hz / 100
    urgent = sorted(range(count), key=lambda t: (int(priority[t]), topologies[t].launch_time, topologies[t].id))
    own = sorted(_by_user(problem, urgent).items())
    guaranteed = [pools.get(user, {}) for user, _ in own]
    above = np.array([[-told.get("cpu", 0.0) * percent_hz, -told.get("memory", 0.0)] for told in guaranteed])
    rest = [theirs[::-1] for _, theirs in own]
    above = above.reshape(-1, 2) + asked[np.array([theirs[-1] for theirs in rest], int)]  # with the next one
    queue, live = list[int](), np.arange(len(own))
    while len(live):
        # The first by name where scores are the same.
        at = int(np.argmin(np.max(above[live] / left, axis=1))) if np.all(left > 0) else 0
        user = live[at]
        queue.append(rest[user].pop())
        left = left - asked[queue[-1]]
        if rest[user]:
            above[user] += asked[rest[user][-1]]
        else:
            live = np.delete(live, at)
    wanted = set(waiting)
    return [index for index in queue if index in wanted]


# Users --------------------------------------------------------------------------------------------
# Which of the topologies that wait are within what their users may have, and why the others are not.

#: Topology index → why it has to wait.
Reasons = dict[int, tuple[str, ...]]


class UserShares:
    """What users have and may have.

    Parameters
    ----------
    problem
        Whose topologies they have submitted.
    users
        What they may have.
    running
        Topologies that run, at least in part: what these ask for is taken already.
    """

    def __init__(self, problem: Problem, users: Users, running: Sequence[int]) -> None:
        self._problem = problem
        self._user = [user_of(topology) for topology in problem.topologies]
        self._limited = bool(users)
        self._amounts = amounts_of(problem) if users else np.zeros((len(LIMITED), len(self._user)))
        self._most = {
            user: np.array([allowed_of(users, user).get(name, np.inf) for name in LIMITED]) for user in self._user
        }
        self._running = {user: np.zeros(len(LIMITED)) for user in self._user}
        for index in running:
            self._running[self._user[index]] = self._running[self._user[index]] + self._amounts[:, index]

    def admitted(self, queue: Sequence[int], backfill: bool) -> tuple[list[int], Reasons]:
        """Those of a queue whose users may have them, in its order, and why not the others.

        Without `backfill` one that is too much for its user holds up all later ones of this user, and nobody else's.
        """
        has, admitted, over = dict(self._running), [], Reasons()
        first: dict[str, int] = {}
        for index in queue:
            user, wanted = self._user[index], self._amounts[:, index]
            whole = has[user] + wanted
            if np.any(whole > self._most[user] * (1 + RELATIVE_TOLERANCE)):
                over[index] = tuple(self._why(index, has[user]))
                first.setdefault(user, index)
            elif user in first and not backfill:
                name = self._problem.topologies[first[user]].id
                over[index] = (f"waits behind 1 topology of the same user, {name}, which is beyond a limit",)
            else:
                has[user] = whole
                admitted.append(index)
        return admitted, over

    def learn(self, slots: IntArray, topologies: Sequence[int]) -> bool:
        """Note how many worker slots these topologies take indeed; whether that is too much for a user.

        Some rules give a topology more workers than it asks for.
        """
        if not self._limited:
            return False
        taken, row = slots_of(self._problem, slots), list(LIMITED).index("slots")
        more = [index for index in topologies if taken[index] > self._amounts[row, index]]
        self._amounts[row, more] = taken[more]
        return bool(more) and bool(self.admitted(topologies, backfill=True)[1])

    def shared(self, topologies: Collection[int], others: Collection[int]) -> bool:
        """Whether a user has some of both."""
        return not {self._user[index] for index in topologies}.isdisjoint(self._user[index] for index in others)

    def _why(self, index: int, has: FloatArray) -> list[str]:
        user, why = self._user[index], list[str]()
        who, configured = f'user "{user}"' if user else "topologies of no user", read_users(self._problem.conf)[0]
        for name, had, wanted, most in zip(
            LIMITED, has.tolist(), self._amounts[:, index].tolist(), self._most[user].tolist(), strict=True
        ):
            if had + wanted > most * (1 + RELATIVE_TOLERANCE):
                with_it = amount_text(name, had + wanted, most)
                said = allowed_of(configured, user).get(name) == most
                raised = USERS if said else OPTION_OF[name]
                why.append(f"{who} would have {with_it} with it: make it smaller, kill another, or raise {raised}")
        return why


def behind(problem: Problem, first: int, count: int) -> tuple[str, ...]:
    """Why a topology waits that may not go ahead of others."""
    return (f"waits behind {counted(count, 'topology')}, the first of them {problem.topologies[first].id}",)


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

# Multi tenancy ------------------------------------------------------------------------------------

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
