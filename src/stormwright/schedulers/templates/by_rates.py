"""The frame of a search for what operators want: highest rates, least latency, or fewest nodes.

::

    starts ─▶ a search from each (`optimize.rates`) ─▶ judged by `predict` ─▶ what need not move stays

A search knows the bottleneck but not how long tuples wait in queues; so what several of them have found is judged by
the whole prediction, beside what runs now.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from stormwright.model import UNPLACED, Problem, cost_of
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.model.constraints.resources import Overused
from stormwright.model.constraints.violations import broken_limits
from stormwright.optimize.throughput.improve import Effort, Improved, about_steps, improve
from stormwright.optimize.throughput.parts import Parts
from stormwright.optimize.throughput.score import LATENCY, NODES, THROUGHPUT
from stormwright.optimize.throughput.start import Aim, MeasuredLoad, Seats, make_sustained
from stormwright.predict.demand import cpu_s_of
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Profile
from stormwright.predict.gain import at_least, cost_change
from stormwright.predict.reach import Reach, reaches
from stormwright.predict.steady import Placed, Steady
from stormwright.schedulers.templates.rate_seats import Seating

# Moves that bring nothing -------------------------------------------------------------------------
# Without moves that bring nothing: what may as well stay where it runs, topologies together and then by halves.

#: At most so many placements are judged; of large problems those of so many executors together, but some in any case.
_MOST_TRIED, _MOST_JUDGED, _SOME = 400, 2_000_000, 8


def move_back(
    problem: Problem, slots: IntArray, badness: Callable[[IntArray], float], worst: float, end_s: float = np.inf
) -> IntArray:
    """What of `slots` may stay where it runs, stays.

    Groups of topologies go back together where that is good enough, else each of their halves by itself: the largest
    first.

    Parameters
    ----------
    problem
        What runs.
    slots
        Slot of every executor, -1 for none, shape (E,).
    badness
        Of a placement.
    worst
        What it may be.
    end_s
        By `time.perf_counter`, when no more is tried.
    """
    moved = np.flatnonzero(_moved(problem, slots)).tolist()
    most_broken = len(broken_limits(problem, slots))
    # All of them together are what runs, which is not good enough.
    groups = deque(_halves(moved) if len(moved) > 1 else [moved] * bool(moved))
    left = min(_MOST_TRIED, max(_MOST_JUDGED // max(problem.num_executors, 1), _SOME))
    while groups and left and time.perf_counter() < end_s:
        away = _moved(problem, slots)
        group = [topology for topology in groups.popleft() if away[topology]]
        chosen, alike = _with_those_in_the_way(problem, slots, group, away)
        if not group or np.array_equal(chosen, away):
            groups.extend(_halves(group) if not alike else ())
            continue
        back = np.where(chosen[problem.executor_topology], problem.current_slot, slots)
        broken = len(broken_limits(problem, back))
        left -= 1
        if broken <= most_broken and badness(back) <= worst:
            slots, most_broken = back, broken
        elif len(group) > 1:
            groups.extend(_halves(group))
    return slots


def _moved(problem: Problem, slots: IntArray) -> BoolArray:
    """Whether a topology is elsewhere than it runs, shape (T,)."""
    elsewhere: BoolArray = (
        np.bincount(problem.executor_topology, slots != problem.current_slot, len(problem.topologies)) > 0
    )
    return elsewhere


def _halves(group: list[int]) -> list[list[int]]:
    half = len(group) // 2
    return [group[:half], group[half:]]


def _with_those_in_the_way(
    problem: Problem, slots: IntArray, group: list[int], away: BoolArray
) -> tuple[BoolArray, bool]:
    """Which topologies go back with a group: those that are away and have a slot where others go back to.

    Returns
    -------
    chosen, alike
        Whether a topology is of the group or one of those, shape (T,); and whether the same go back with every part of
        the group, as each of it is in the way of the next.
    """
    from scipy.sparse import csr_array  # takes longer to import than the rest
    from scipy.sparse.csgraph import connected_components

    topology, count = problem.executor_topology, len(away)
    owner = np.full(len(problem.slots) + 1, UNPLACED)
    owner[slots] = topology
    owner[UNPLACED] = UNPLACED
    there = owner[problem.current_slot]
    blocked = np.flatnonzero((there != UNPLACED) & away[there])
    ways = csr_array((np.ones(len(blocked)), (topology[blocked], there[blocked])), shape=(count, count))
    first, onward = ways.indptr.tolist(), ways.indices.tolist()
    chosen = np.zeros(count, dtype=bool)
    chosen[group] = True
    reached = list(group)
    for one in reached:  # grows meanwhile
        for other in onward[first[one] : first[one + 1]]:
            if not chosen[other]:
                chosen[other] = True
                reached.append(other)
    _, circle = connected_components(ways, connection="strong")
    return chosen, len(np.unique(circle[group])) < 2


# Ties ---------------------------------------------------------------------------------------------
# Which of several placements that are equally good sends least between nodes.


def quietest(problem: Problem, found: Sequence[IntArray], badness: Sequence[float], within: float) -> int:
    """Of placements that are as good as the best, the one with least traffic between nodes; the first of several.

    Parameters
    ----------
    problem
        Whose executors are placed.
    found
        Slots of all executors, shape (E,) each.
    badness
        Of each.
    within
        What may be worse by no more is as good.
    """
    alike = np.flatnonzero(np.array(badness) <= min(badness) + within).tolist()
    costs = [cost_of(problem, found[number]) for number in alike] if len(alike) > 1 else []
    traffic = [cost.inter_node + cost.inter_rack for cost in costs]
    return int(alike[int(np.argmin(traffic))] if traffic else alike[0])


# By rates -----------------------------------------------------------------------------------------

#: Kinds of scores that are searched for an objective: what is judged best among all of them counts.
_KINDS = {
    "throughput": (THROUGHPUT, LATENCY),
    "latency": (LATENCY, THROUGHPUT),
    "nodes": (NODES,),
    "balanced": (LATENCY, THROUGHPUT),
}

#: What runs is left alone for less than this, in parts of the objective; and what need not move for less than that.
_WORTH_IT, _SAME = 5e-3, 1e-3

#: Of the time, the part for searches and what judges what they find; the rest is for what may stay.
_SEARCHING = 0.85

#: What leaving a node idle that is in use costs, where throughput is wanted: more than any gain is worth.
_IDLE = 1e3

#: Placements as good as the best so far whose states are remembered: one of them is the answer.
_REMEMBERED = 4

#: What grows by more is limited by nothing that is known.
_ENDLESS = 1e9

#: A search that takes less than so many times the time of judging what it finds is not worth it, nor one that makes
#: fewer steps than so many for each executor.
_LONGER = 4


@dataclass(frozen=True)
class RateWish:
    """What is wanted of a placement.

    Parameters
    ----------
    objective
        One of throughput, latency, nodes and balanced.
    workers
        One of `WORKERS`, for topologies that do not say.
    headroom
        Part of everything that is to stay free where nodes are saved.
    seed
        Of the random numbers.
    caution
        Standard deviations of a prediction's error by which a throughput counts for less than it is predicted to be;
        with any, no node that is in use is left idle for throughput.
    """

    objective: str
    workers: str
    headroom: float
    seed: int
    caution: float = 0.0


@dataclass(frozen=True)
class ScheduleSearch:
    """How long may be searched: `effort` together, where that is time until `end_s`, judging taking so long each."""

    effort: Effort
    end_s: float
    judging_s: float

    @property
    def is_over(self) -> bool:
        """Whether all the time is over."""
        return bool(self.effort.seconds) and time.perf_counter() >= self.end_s

    def most(self, executors: int) -> float:
        """How many searches get enough: a step for each executor, or time for several and more than judging takes."""
        if self.effort.seconds:
            enough_s = max(self.judging_s, self.effort.seconds * executors / max(about_steps(self.effort), 1.0))
            return self.effort.seconds / (_LONGER * enough_s)
        return self.effort.steps / max(executors, 1)

    def one_of(self, searches: int, number: int) -> Effort:
        """That of a search: its part of all steps, or of the time that is left."""
        if not self.effort.seconds:
            return Effort(self.effort.steps // searches)
        left_s = (self.end_s - time.perf_counter()) / (searches - number)
        return Effort(0, max(left_s - self.judging_s, 0.0))


class RateSearch:
    """Searches for one problem; the costs of messages are those that `load` has.

    Parameters
    ----------
    problem
        What runs, or is to run.
    load
        What was measured.
    wish
        What is wanted.
    """

    def __init__(self, problem: Problem, load: MeasuredLoad, wish: RateWish) -> None:
        self.problem, self.load, self.wish = problem, load, wish
        self._profile: Profile = load.profile
        self._last: Placed | None = None
        self._wanted_tps = weights_of(problem) * load.profile.rate_tps
        self._least, self._good = np.inf, deque[tuple[IntArray, Steady]](maxlen=_REMEMBERED)
        self._now: Steady | None = None
        self.steps = 0

    @cached_property
    def _seating(self) -> Seating:
        return Seating(self.problem, self._free, self.wish.workers)

    @cached_property
    def _free(self) -> BoolArray:
        """Topologies whose load was measured, shape (T,)."""
        free: BoolArray = self._profile.rate_tps > 0
        return free

    def improved(self, slots: IntArray, effort: Effort) -> IntArray:
        """A better placement than `slots`, which is complete and keeps all limits; or what runs, if that is as good.

        Parameters
        ----------
        slots
            Slot of every executor, -1 for those of topologies that are left out, shape (E,).
        effort
            Of all searches together.
        """
        now, seating, begun_s = self.problem.current_slot, self._seating, time.perf_counter()
        runs = bool(np.all(now[slots != UNPLACED] != UNPLACED)) and all(map(seating.may_stay, range(len(self._free))))
        runs = runs and self._broken(now) <= self._broken(slots)
        found = [slots, now] if runs and not np.array_equal(slots, now) else [slots]
        badness = [self.badness(each) for each in found]
        starts = len(found)
        searching = ScheduleSearch(
            effort, begun_s + _SEARCHING * effort.seconds, (time.perf_counter() - begun_s) / starts
        )
        for each in self._searched(found, badness, searching):
            found.append(each)
            badness.append(self.badness(each))
        best = int(np.argmin(badness))
        if self.wish.objective == "throughput":
            best = quietest(self.problem, found, badness, _SAME)
        if not runs:
            return found[best]
        if badness[starts - 1] <= badness[best] + _WORTH_IT:  # the last start is what runs
            return now
        end_s = begun_s + effort.seconds if effort.seconds else np.inf
        return move_back(self.problem, found[best], self.badness, badness[best] + _SAME, end_s)

    def _searched(self, known: list[IntArray], badness: list[float], searching: ScheduleSearch) -> Iterator[IntArray]:
        """What searches find, first from the placements that are `known`; whoever asks adds to these what was found."""
        tried = self._tried(known, badness, searching.most(self.problem.num_executors))
        parts, saves_nodes = Parts.of(self.load.profile), self.wish.objective == "nodes"
        for number in range(len(tried) + saves_nodes):
            if searching.is_over:
                return
            if number < len(tried):
                kind, seats = tried[number]
            else:
                # Which workers are on the nodes that are left is all the same to `NODES`.
                kind, seats = LATENCY, self._seating.on_its_nodes(known[int(np.argmin(badness))])
            found = self._improve(seats, kind, searching.one_of(len(tried) + saves_nodes, number), parts)
            self.steps += found.steps
            if found.short < 1 and self._seating.holds(seats, found):
                yield self._seating.slots(seats, found)

    def _tried(self, starts: list[IntArray], badness: list[float], most: float) -> list[tuple[int, Seats]]:
        """Kinds of scores and starts; where there are too many, the best starts.

        Those are placements by how bad they are, then what is gathered by the CPU that was measured.
        """
        kinds = _KINDS[self.wish.objective]
        ours, gathered = [self._seating.seats(each) for each in starts], list(self._seating.gathered(starts[0]))
        if len(kinds) * len(ours + gathered) <= most:
            return list(product(kinds, ours + gathered))
        ranked = [ours[number] for number in np.argsort(badness, kind="stable")] + sorted(gathered, key=self._fullness)
        return [(kind, seats) for seats in ranked for kind in kinds][: max(int(most), len(kinds))]

    def _fullness(self, seats: Seats) -> tuple[float, int]:
        fullest, nodes = self._seating.fullest(seats)
        return (max(fullest - 1, 0.0), nodes) if self.wish.objective == "nodes" else (fullest, nodes)

    def _improve(self, seats: Seats, kind: int, effort: Effort, parts: Parts) -> Improved:
        limit = 1.0 - self.wish.headroom if self.wish.objective == "nodes" else 1.0
        aim = Aim(kind, self._wanted_tps if kind == THROUGHPUT else self._profile.rate_tps, limit)
        of = make_sustained(self.problem, self.load, seats, aim, self.wish.seed, parts)
        of.nodes["filled"] = self._filled
        return improve(of, effort)

    def chosen_workers(self, slots: IntArray) -> dict[str, int]:
        """Topology id → how many workers it should be given, of those that get another number than they ask for."""
        return self._seating.chosen_workers(slots)

    # Judged ---------------------------------------------------------------------------------------

    def _broken(self, slots: IntArray) -> int:
        """How many limits a placement breaks; CPU is what rates come from."""
        cpu = self.problem.resources[0].name
        broken = broken_limits(self.problem, slots)
        return sum(not (isinstance(each, Overused) and each.resource == cpu) for each in broken)

    def badness(self, slots: IntArray) -> float:
        """How bad a placement is by the whole prediction, in parts of the objective: 0.01 is one percent.

        A throughput that is predicted of another placement than the one that runs counts for what it is at least, by
        `RateWish.caution`, and one that leaves idle a node that is in use now is not taken.

        Throughput is that of the topology that comes off worst by its weight, and a tenth of what it is on average;
        latency counts where rates are sustained, and nodes where enough stays free.
        """
        state = self._evaluated(slots)
        if slots is self.problem.current_slot:
            self._now = state
        badness = self._badness(slots, state)
        if badness <= self._least + 2 * _SAME:  # the answer, and what may stay of it, may each be worse by one
            self._least = min(badness, self._least)
            if not any(np.array_equal(good, slots) for good, _ in self._good):
                self._good.append((slots, state))
        return badness

    def _badness(self, slots: IntArray, state: Steady) -> float:
        there = self._profile.rate_tps > 0
        there &= np.bincount(self.problem.executor_topology, slots == UNPLACED, len(there)) == 0
        rate = self._profile.rate_tps[there]
        if not len(rate):
            return 0.0
        too_full = float(np.maximum(state.given_use[there], 1.0).max() - 1.0)
        if self.wish.objective == "throughput":
            grown = self._grown(state) if state is self._now else self._at_least(state)
            idle = np.count_nonzero(
                self._filled & (np.bincount(self._nodes_of(slots), minlength=len(self._filled)) == 0)
            )
            return _IDLE * idle - float(grown[there].min() + 0.1 * grown[there].mean())
        latency_s = float(rate @ state.given.ways.latency.mean[there] / rate.sum())
        if self.wish.objective == "balanced":
            cpu_s = cpu_s_of(state.full_demand)[there]
            return 1e3 * too_full + float(np.log(np.maximum(cpu_s, 1e-12)).mean())
        if self.wish.objective == "latency":
            return 1e3 * too_full + float(np.log(max(latency_s, 1e-12)))
        allowed = 1.0 - self.wish.headroom
        over = float(np.maximum(state.given_use[there] - allowed, 0.0).max())
        nodes = len(np.unique(self._nodes_of(slots)))
        return nodes + 1e3 * over + 1e-3 * min(latency_s, 1.0)

    @cached_property
    def _filled(self) -> BoolArray:
        """Nodes that are not to be left idle, shape (N,)."""
        used = np.bincount(self._nodes_of(self.problem.current_slot), minlength=len(self.problem.supervisors)) > 0
        filled: BoolArray = used & self.problem.node_usable & self._is_cautious
        return filled

    @property
    def _is_cautious(self) -> bool:
        return self.wish.objective == "throughput" and self.wish.caution > 0

    def _nodes_of(self, slots: IntArray) -> IntArray:
        nodes: IntArray = self.problem.slot_node[slots[slots != UNPLACED]]
        return nodes

    def _grown(self, state: Steady) -> FloatArray:
        """Logarithms of the rates that topologies come to, in parts of those that are wanted, shape (T,)."""
        reached = np.where(np.isfinite(self._profile.layout.pending), state.pending.rate_tps, state.highest_tps)
        wanted = np.where(self._wanted_tps > 0, self._wanted_tps, 1.0)
        grown: FloatArray = np.log(np.clip(reached / wanted, 1 / _ENDLESS, _ENDLESS))
        return grown

    def _at_least(self, state: Steady) -> FloatArray:
        """As `_grown`, but what it is at least, by the errors of predictions beside what runs; shape (T,)."""
        grown, now = self._grown(state), self._running
        if now is None or not self.wish.caution:
            return grown
        before = self._grown(now)
        change = cost_change(cpu_s_of(now.full_demand), cpu_s_of(state.full_demand))
        surely = at_least(grown - before, change, self.wish.caution)
        return np.where((grown == before) & (change == 0), grown, before + surely)

    @cached_property
    def _running(self) -> Steady | None:
        """The steady state of what runs; None where not everything does."""
        slots = self.problem.current_slot
        return None if np.any(slots == UNPLACED) else self.predicted(slots)

    def predicted(self, slots: IntArray) -> Steady:
        """The steady state of a placement; of what runs and of the best that was judged it is known."""
        if self._now is not None and np.array_equal(slots, self.problem.current_slot):
            return self._now
        known = (state for good, state in self._good if np.array_equal(good, slots))
        return next(known, None) or self._evaluated(slots)

    def reaches(self, slots: IntArray) -> list[Reach]:
        """What topologies can come to under a placement; none where nothing is placed."""
        if np.all(slots == UNPLACED):
            return []
        return list(reaches(self.problem, self._profile, self.predicted(slots)))

    def _evaluated(self, slots: IntArray) -> Steady:
        rates, load = self._profile.rate_tps, self.load
        self._last = Placed.under(self._profile, self.problem, slots, self._last)
        _, (state,) = steady_states(self._last, rates, self._wanted_tps, [(load.costs, load.corrections)])
        return state


def wanted_of(problem: Problem) -> str:
    """The objective where nobody names one: throughput where a service measured the load, else traffic."""
    load = problem.load
    measured = load is not None and (load.end_ms > load.start_ms or bool(load.costs))
    return "throughput" if measured else "traffic"
