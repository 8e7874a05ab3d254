"""Multi-tenancy: serves topologies in an order and within the limits of users, for every scheduler."""

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
from stormwright.schedulers.toolkit.params import Params, topology_values
from stormwright.schedulers.toolkit.plugin_guard import NO_REASON
from stormwright.schedulers.toolkit.queue_rules import OPTION_OF, QueueRules, rules_of, users_of
from stormwright.schedulers.toolkit.traits import Traits
from stormwright.schedulers.toolkit.wrappers import WrappedScheduler

# Order --------------------------------------------------------------------------------------------

#: Storm's default priority.
_PRIORITY = 29


def in_order(problem: Problem, waiting: Sequence[int], order: str) -> list[int]:
    """Return `waiting` topologies (by index) in the given order; ties keep their order.

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
    - ``pools``: as by Storm's ResourceAwareScheduler (``DefaultSchedulingPriorityStrategy`` of 2.8.3): of the user who
      would exceed the guarantee in ``resource.aware.scheduler.user.pools`` least, relative to the free resources, the
      most urgent, then the oldest.

    Raises
    ------
    InputError
        Invalid priorities or weights, if they are used; all faults at once.
    """
    topologies = problem.topologies
    if order == "priority":
        priority = topology_values(problem, PRIORITY, _PRIORITY)
        return sorted(waiting, key=lambda index: int(priority[index]))
    if order == "first_come":
        return sorted(waiting, key=lambda index: topologies[index].launch_time)
    if order == "shortest_first":
        weighted = _cpu_hz(problem) / np.array(topology_values(problem, WEIGHT, 1.0), float)
        return sorted(waiting, key=lambda index: float(weighted[index]))
    if order == "fair_share":
        return _fair_share(problem, waiting)
    return _pools(problem, waiting) if order == "pools" else list(waiting)


def _cpu_hz(problem: Problem) -> FloatArray:
    """Return the CPU of every topology, shape (T,)."""
    return np.bincount(problem.executor_topology, problem.executor_cpu_hz, len(problem.topologies)).astype(float)


def _by_user(problem: Problem, urgent_first: Sequence[int]) -> dict[str, list[int]]:
    own: dict[str, list[int]] = {}
    for index in urgent_first:
        own.setdefault(user_of(problem.topologies[index]), []).append(index)
    return own


def _fair_share(problem: Problem, waiting: Sequence[int]) -> list[int]:
    weight, users = topology_values(problem, WEIGHT, 1.0), read_users(problem.conf)[0]
    weighted = _cpu_hz(problem) / np.array(weight, float)
    runs = np.bincount(problem.executor_topology, problem.current_slot != UNPLACED, len(problem.topologies)) > 0
    share: dict[str, float] = {}
    for index, topology in enumerate(problem.topologies):
        user = user_of(topology)
        share[user] = share.get(user, 0.0) + (float(weighted[index]) if runs[index] else 0.0)
    worth = {user: allowed_of(users, user).get(WEIGHT_OF_USER, 1.0) for user in share}
    own = _by_user(problem, in_order(problem, waiting, "priority"))
    place = {index: number for number, index in enumerate(waiting)}
    # Only the share of the served user grows.
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
    """Return the queue of `pools`; running topologies take turns, too, as in Storm, but are not returned."""
    topologies, pools = problem.topologies, read_pools(problem.conf)
    count, priority = len(topologies), topology_values(problem, PRIORITY, _PRIORITY)
    requested = np.stack(
        [_cpu_hz(problem), np.bincount(problem.executor_topology, problem.executor_memory_mb, count)], axis=1
    )
    left = problem.node_capacity[:2].sum(axis=1)
    percent_hz = problem.core_hz / 100
    urgent = sorted(range(count), key=lambda t: (int(priority[t]), topologies[t].launch_time, topologies[t].id))
    own = sorted(_by_user(problem, urgent).items())
    guaranteed = [pools.get(user, {}) for user, _ in own]
    above = np.array(
        [[-guarantee.get("cpu", 0.0) * percent_hz, -guarantee.get("memory", 0.0)] for guarantee in guaranteed]
    )
    rest = [theirs[::-1] for _, theirs in own]
    above = above.reshape(-1, 2) + requested[np.array([theirs[-1] for theirs in rest], int)]  # with the next one
    queue, live = list[int](), np.arange(len(own))
    while len(live):
        # The first by name at equal scores.
        at = int(np.argmin(np.max(above[live] / left, axis=1))) if np.all(left > 0) else 0
        user = live[at]
        queue.append(rest[user].pop())
        left = left - requested[queue[-1]]
        if rest[user]:
            above[user] += requested[rest[user][-1]]
        else:
            live = np.delete(live, at)
    wanted = set(waiting)
    return [index for index in queue if index in wanted]


# Users --------------------------------------------------------------------------------------------

#: Topology index → reasons why it waits.
Reasons = dict[int, tuple[str, ...]]


class UserShares:
    """Usage and limits of users.

    Parameters
    ----------
    problem
        Problem with the topologies of the users.
    users
        User → name of an amount → its limit; empty for no limits.
    running
        Topologies that run, at least in part: their usage counts.
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
        """Return the topologies of a queue within their users' limits, in order, and reasons for the others.

        Without `backfill` one that exceeds its user's limits blocks all later ones of this user only.
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
        """Record the actual number of slots of these topologies; return whether that exceeds a user's limit.

        Some rules give a topology more workers than requested.
        """
        if not self._limited:
            return False
        taken, row = slots_of(self._problem, slots), list(LIMITED).index("slots")
        more = [index for index in topologies if taken[index] > self._amounts[row, index]]
        self._amounts[row, more] = taken[more]
        return bool(more) and bool(self.admitted(topologies, backfill=True)[1])

    def shared(self, topologies: Collection[int], others: Collection[int]) -> bool:
        """Return whether a user has topologies in both groups."""
        return not {self._user[index] for index in topologies}.isdisjoint(self._user[index] for index in others)

    def _why(self, index: int, has: FloatArray) -> list[str]:
        user, why = self._user[index], list[str]()
        who, configured = f'user "{user}"' if user else "topologies of no user", read_users(self._problem.conf)[0]
        for name, had, wanted, most in zip(
            LIMITED, has.tolist(), self._amounts[:, index].tolist(), self._most[user].tolist(), strict=True
        ):
            if had + wanted > most * (1 + RELATIVE_TOLERANCE):
                with_it = amount_text(name, had + wanted, most)
                is_configured = allowed_of(configured, user).get(name) == most
                raised = USERS if is_configured else OPTION_OF[name]
                why.append(f"{who} would have {with_it} with it: make it smaller, kill another, or raise {raised}")
        return why


def behind(problem: Problem, first: int, count: int) -> tuple[str, ...]:
    """Return the reason of a topology that may not overtake others."""
    return (f"waits behind {counted(count, 'topology')}, the first of them {problem.topologies[first].id}",)


# Parts of problems --------------------------------------------------------------------------------


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


# Multi tenancy ------------------------------------------------------------------------------------

#: Maximum calls for single topologies that were left out; after that nothing overtakes the next.
_MAX_RETRIES = 16

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
