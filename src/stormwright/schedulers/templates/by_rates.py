"""Template of a search for objectives by rates: throughput, latency, number of nodes.

::

    starts ─▶ a search from each (`optimize.rates`) ─▶ evaluation by `predict` ─▶ unnecessary moves reverted

A search models the bottleneck but not the waiting times of tuples; so the results of several searches are evaluated by
the complete prediction, as is the running placement.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from stormwright.model import UNPLACED, Problem, cost_of
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.model.constraints.constraint import node_sum
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.model.constraints.violations import broken_limits
from stormwright.optimize.throughput.improve import ImprovedPlacement, ImproveEffort, about_steps, improve
from stormwright.optimize.throughput.parts import Parts
from stormwright.optimize.throughput.score import LATENCY, NODES, THROUGHPUT
from stormwright.optimize.throughput.start import Aim, MeasuredLoad, Seats, make_placement_state
from stormwright.predict.demand import cpu_s_of
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Factors, Profile
from stormwright.predict.gain import at_least, cost_change, model_sd
from stormwright.predict.reach import Reach, reaches
from stormwright.predict.steady import PlacedLoad, SteadyState
from stormwright.predict.throughput import SAME, UNLIMITED, growth_of, throughput_of
from stormwright.schedulers.templates.rate_seats import Seating
from stormwright.schedulers.templates.unnecessary_moves import move_back, with_running

#: Relative rounding error of sums: of the CPU of a node, or of traffic.
_ROUNDING = 1e-9

#: Kinds of scores to search for an objective; the best result by evaluation is used.
_KINDS = {
    "throughput": (THROUGHPUT, LATENCY),
    "latency": (LATENCY, THROUGHPUT),
    "nodes": (NODES,),
    "balanced": (LATENCY, THROUGHPUT),
}

#: Minimum relative gain for changing the running placement.
_WORTH_IT = 5e-3

#: Fraction of the time for searches and evaluations; the rest is for moving topologies back.
_SEARCHING = 0.85

#: Maximum number of searches that fill nodes less than allowed, as rates were not sustained, and by how much less than
#: their shortfall requires.
_FILLED_LESS, _LESS = 4, 0.95

#: Badness of a node with too little CPU, if that is a limit.
_TOO_FULL = 1e4

#: Number of cached states of placements as good as the best so far.
_REMEMBERED = 8

#: Minimum time of a search relative to the evaluation of its result, and minimum steps per executor.
_LONGER = 4


def quietest(problem: Problem, found: Sequence[IntArray], badness: Sequence[float], within: float) -> int:
    """Return the index of the placement with least traffic between nodes among the best; the first at ties.

    Parameters
    ----------
    problem
        Problem of the placements.
    found
        Slots of all executors, shape (E,) each.
    badness
        Badness of each placement of `found`, in its order; lower is better.
    within
        Tolerance within which placements are equally good.
    """
    alike = np.flatnonzero(np.array(badness) <= min(badness) + within).tolist()
    costs = [cost_of(problem, found[number]) for number in alike] if len(alike) > 1 else []
    if not costs:
        return int(alike[0])
    traffic = np.array([cost.inter_node + cost.inter_rack for cost in costs])
    return int(alike[int(np.argmax(traffic <= traffic.min() * (1 + _ROUNDING)))])


@dataclass(frozen=True)
class RateGoal:
    """Objective and options of a search by rates.

    Parameters
    ----------
    objective
        One of throughput, latency, nodes and balanced.
    workers
        Default of topologies without their own, one of `WORKERS`.
    headroom
        Fraction of all resources that stays free if nodes are minimised.
    seed
        Seed of the random numbers.
    caution
        Standard deviations of the prediction error to subtract from a predicted throughput.
    keeps_cpu
        Whether the CPU of executors limits placements; by default it follows from the rates.
    """

    objective: str
    workers: str
    headroom: float
    seed: int
    caution: float = 0.0
    keeps_cpu: bool = False


@dataclass(frozen=True)
class ScheduleSearch:
    """Budget of a search: `effort` for all, with a deadline `end_s` if by time, and the time per evaluation."""

    effort: ImproveEffort
    end_s: float
    evaluation_s: float

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return bool(self.effort.seconds) and time.perf_counter() >= self.end_s

    def most(self, executors: int) -> float:
        """Return the number of searches with sufficient budget each."""
        if self.effort.seconds:
            enough_s = max(self.evaluation_s, self.effort.seconds * executors / max(about_steps(self.effort), 1.0))
            return self.effort.seconds / (_LONGER * enough_s)
        return self.effort.steps / max(executors, 1)

    def one_of(self, searches: int, number: int) -> ImproveEffort:
        """Return the effort of one search: its share of the steps, or of the remaining time."""
        if not self.effort.seconds:
            return ImproveEffort(self.effort.steps // searches)
        left_s = (self.end_s - time.perf_counter()) / (searches - number)
        return ImproveEffort(0, max(left_s - self.evaluation_s, 0.0))


class RateSearch:
    """Search by rates for one problem; the costs of messages are those of `load`.

    Parameters
    ----------
    problem
        Problem with the running placement, if any.
    load
        Measured load, costs of messages, and corrections of topologies.
    goal
        Objective, policy for workers, headroom, caution and seed of the search.
    """

    def __init__(self, problem: Problem, load: MeasuredLoad, goal: RateGoal) -> None:
        self.problem, self.load, self.goal = problem, load, goal
        self._profile: Profile = load.profile
        self._last: PlacedLoad | None = None
        self._wanted_tps = weights_of(problem) * load.profile.rate_tps
        self._least, self._good = np.inf, deque[tuple[IntArray, SteadyState]](maxlen=_REMEMBERED)
        self._now: SteadyState | None = None
        self.steps = 0

    @cached_property
    def _seating(self) -> Seating:
        return Seating(self.problem, self._free, self.goal.workers)

    @cached_property
    def _free(self) -> BoolArray:
        """Topologies with measured load, shape (T,)."""
        free: BoolArray = self._profile.rate_tps > 0
        return free

    def improved(
        self, slots: IntArray, effort: ImproveEffort, others: Callable[[], Iterable[IntArray]] = tuple
    ) -> IntArray:
        """Return a better placement than the complete, valid `slots`, or the running one if it is as good.

        Parameters
        ----------
        slots
            Slot of every executor, -1 for those of topologies that are left out, shape (E,).
        effort
            Budget of all searches together.
        others
            Returns further starts; those that are not as complete and valid are ignored.
        """
        now, seating, begun_s = self.problem.current_slot, self._seating, time.perf_counter()
        runs = bool(np.all(now[slots != UNPLACED] != UNPLACED)) and all(map(seating.may_stay, range(len(self._free))))
        runs = runs and self._broken(now) <= self._broken(slots)
        found = [slots, *(each for each in others() if self._is_as_good_a_start(each, slots))]
        if runs:
            found = [*(each for each in found if not np.array_equal(each, now)), now]
        badness = [self.badness(each) for each in found]
        starts = len(found)
        searching = ScheduleSearch(
            effort, begun_s + _SEARCHING * effort.seconds, (time.perf_counter() - begun_s) / starts
        )
        for each in () if self._is_optimal(slots, min(badness)) else self._searched(found, badness, searching):
            found.append(each)
            badness.append(self.badness(each))
        best = int(np.argmin(badness))
        if self.goal.objective == "throughput":
            best = quietest(self.problem, found, badness, SAME)
        if not runs:
            return found[best]
        if badness[starts - 1] <= badness[best] + _WORTH_IT:  # the last start is the running placement
            return now
        end_s = begun_s + effort.seconds if effort.seconds else np.inf
        return move_back(self.problem, found[best], self.badness, badness[best] + SAME, end_s)

    def _is_optimal(self, slots: IntArray, badness: float) -> bool:
        """Return whether a search is useless: nothing with a rate is placed, or nothing known limits the rates."""
        unlimited = self.goal.objective == "throughput" and badness <= SAME - UNLIMITED
        return unlimited or not np.any(self._free[self.problem.executor_topology[slots != UNPLACED]])

    def _is_as_good_a_start(self, other: IntArray, slots: IntArray) -> bool:
        """Return whether another placement is as complete and valid as `slots`, and has allowed numbers of workers."""
        if not np.array_equal(other == UNPLACED, slots == UNPLACED) or np.array_equal(other, slots):
            return False
        every, seating = range(len(self._free)), self._seating
        return self._broken(other) <= self._broken(slots) and all(seating.may_use(other, each) for each in every)

    def _searched(self, known: list[IntArray], badness: list[float], searching: ScheduleSearch) -> Iterator[IntArray]:
        """Yield the results of searches, first from the `known` placements, to which the caller adds the results."""
        tried = self._tried(known, badness, searching.most(self.problem.num_executors))
        starts, saves_nodes = len(known), self.goal.objective == "nodes"
        total = len(tried) + saves_nodes
        for number, (kind, seats) in enumerate(tried):
            if searching.is_over:
                return
            yield from self._found(self._seating, seats, kind, searching.one_of(total, number), self._allowed)
        if saves_nodes:
            yield from self._sustained(known[starts:], searching, total)
            if not searching.is_over:
                # `NODES` does not depend on which workers are on the remaining nodes.
                seats = self._seating.on_its_nodes(known[int(np.argmin(badness))])
                yield from self._found(
                    self._seating, seats, LATENCY, searching.one_of(total, len(tried)), self._allowed
                )

    def _sustained(self, found: list[IntArray], searching: ScheduleSearch, total: int) -> Iterator[IntArray]:
        """Yield placements on more nodes than the best of `found`, until one surely sustains the rates.

        Nodes are filled less, as the shortfall requires. Topologies that fall short all the same stay where they run.
        """
        packed, seating, allowed = min(found, key=self._packed, default=None), self._seating, self._allowed
        for number in range(_FILLED_LESS):
            if packed is None or searching.is_over:
                return
            short = self._shortfalls(self.predicted(packed))
            if not short.any():
                return
            if number:
                seating = replace(seating, free=seating.free & (short == 0))
                packed = with_running(self.problem, packed, ~seating.free)
            else:
                allowed *= float(_LESS * np.exp(-short.max()))
            effort = searching.one_of(total + _FILLED_LESS, total - 1 + number)
            packed = next(self._found(seating, seating.seats(packed), NODES, effort, allowed), None)
            if packed is not None:
                yield packed

    def _found(
        self, seating: Seating, seats: Seats, kind: int, effort: ImproveEffort, allowed: float
    ) -> Iterator[IntArray]:
        """Yield the result of one search, if it is valid."""
        found = self._improve(seats, kind, effort, allowed)
        self.steps += found.steps
        if found.short < 1 and seating.holds(seats, found):
            yield seating.slots(seats, found)

    def _tried(self, starts: list[IntArray], badness: list[float], most: float) -> list[tuple[int, Seats]]:
        """Return pairs of kind of score and start; the best starts if there are too many.

        Placements are ordered by badness, then gathered ones by measured CPU.
        """
        kinds = _KINDS[self.goal.objective]
        ours, gathered = [self._seating.seats(each) for each in starts], list(self._seating.gathered(starts[0]))
        if len(kinds) * len(ours + gathered) <= most:
            return list(product(kinds, ours + gathered))
        ranked = [ours[number] for number in np.argsort(badness, kind="stable")] + sorted(gathered, key=self._fullness)
        return [(kind, seats) for seats in ranked for kind in kinds][: max(int(most), len(kinds))]

    def _fullness(self, seats: Seats) -> tuple[float, int]:
        fullest, nodes = self._seating.fullest(seats)
        return (max(fullest - 1, 0.0), nodes) if self.goal.objective == "nodes" else (fullest, nodes)

    @cached_property
    def _parts(self) -> Parts:
        return Parts.of(self.load.profile)

    @property
    def _allowed(self) -> float:
        """Utilisation that no resource may exceed."""
        return 1.0 - self.goal.headroom if self.goal.objective == "nodes" else 1.0

    def _improve(self, seats: Seats, kind: int, effort: ImproveEffort, allowed: float) -> ImprovedPlacement:
        aim = Aim(kind, self._wanted_tps if kind == THROUGHPUT else self._profile.rate_tps, allowed)
        state = make_placement_state(self.problem, self.load, seats, aim, self.goal.seed, self._parts)
        # Rates that nothing limits but pending trees grow without end; evaluation decides on the result.
        with np.errstate(over="ignore", invalid="ignore"):
            return improve(state, effort)

    def chosen_workers(self, slots: IntArray) -> dict[str, int]:
        """Return the numbers of workers by topology id, of topologies with another number than requested."""
        return self._seating.chosen_workers(slots)

    def _broken(self, slots: IntArray) -> int:
        """Return the number of violations; CPU is ignored, as it follows from rates."""
        cpu = self.problem.resources[0].name
        broken = broken_limits(self.problem, slots)
        return sum(not (isinstance(each, ResourceOveruse) and each.resource == cpu) for each in broken)

    def badness(self, slots: IntArray) -> float:
        """Return the badness of a placement by the complete prediction, relative to the objective: 0.01 is one percent.

        The predicted throughput of a placement other than the running one is reduced by `RateGoal.caution`. Any number
        of nodes may be used: fewer nodes have less CPU, so they gain only by the costs of a tree, and the
        predicted error grows with the change of these (`stormwright.predict.gain`).

        Throughput is that of the worst topology by weight, plus a tenth of the mean; latency counts if rates are
        sustained, and nodes if enough stays free.
        """
        state = self._evaluated(slots)
        if slots is self.problem.current_slot:
            self._now = state
        badness = self._badness(slots, state)
        if self.goal.keeps_cpu:
            badness += _TOO_FULL * self._overused(slots)
        if badness <= self._least + 2 * SAME:  # the answer, and moving back, may each be worse by one
            self._least = min(badness, self._least)
            if not any(np.array_equal(good, slots) for good, _ in self._good):
                self._good.append((slots, state))
        return badness

    def _badness(self, slots: IntArray, state: SteadyState) -> float:
        there = self._profile.rate_tps > 0
        there &= np.bincount(self.problem.executor_topology, slots == UNPLACED, len(there)) == 0
        rate = self._profile.rate_tps[there]
        if not len(rate):
            return 0.0
        too_full = float(np.maximum(state.given_use[there], 1.0).max() - 1.0)
        if self.goal.objective == "throughput":
            grown = self._grown(state) if state is self._now else self._at_least(state)
            return -throughput_of(grown[there])
        latency_s = float(rate @ state.given.ways.latency.mean[there] / rate.sum())
        if self.goal.objective == "balanced":
            cpu_s = cpu_s_of(state.full_demand)[there]
            return 1e3 * (too_full + float(self._shortfalls(state).max(initial=0.0))) + float(
                np.log(np.maximum(cpu_s, 1e-12)).mean()
            )
        if self.goal.objective == "latency":
            return 1e3 * too_full + float(np.log(max(latency_s, 1e-12)))
        return self._packed(slots) + 1e3 * float(self._shortfalls(state).max(initial=0.0)) + 1e-3 * min(latency_s, 1.0)

    def _overused(self, slots: IntArray) -> int:
        """Return the number of nodes whose executors need more CPU than they have."""
        used = node_sum(self.problem, slots, self.problem.executor_cpu_hz)
        return int(np.count_nonzero(used > self.problem.node_cpu_hz * (1 + _ROUNDING)))

    def _packed(self, slots: IntArray) -> float:
        """Return the number of nodes of a placement, and more than that if less than the headroom stays free."""
        there = self._profile.rate_tps > 0
        there &= np.bincount(self.problem.executor_topology, slots == UNPLACED, len(there)) == 0
        over = np.maximum(self.predicted(slots).given_use[there] - self._allowed, 0.0)
        return len(np.unique(self._nodes_of(slots))) + 1e3 * float(over.max(initial=0.0))

    def _nodes_of(self, slots: IntArray) -> IntArray:
        nodes: IntArray = self.problem.slot_node[slots[slots != UNPLACED]]
        return nodes

    def _grown(self, state: SteadyState) -> FloatArray:
        """Return logarithms of topologies' rates relative to the wanted ones, shape (T,)."""
        return growth_of(self._profile, self._wanted_tps, state)

    def _at_least(self, state: SteadyState) -> FloatArray:
        """Return `_grown` reduced by the prediction errors relative to the running placement, shape (T,)."""
        grown, now = self._grown(state), self._running
        if now is None or not self.goal.caution:
            return grown
        before = self._grown(now)
        change = cost_change(cpu_s_of(now.full_demand), cpu_s_of(state.full_demand))
        shared = int(np.count_nonzero(self._profile.rate_tps > 0)) > 1
        surely = at_least(grown - before, change, self.goal.caution, scale=self._scale, shared=shared)
        return np.where((grown == before) & (change == 0), grown, before + surely)

    def _shortfalls(self, state: SteadyState) -> FloatArray:
        """Return by how much a placement may fail the rates of topologies, as logarithms, shape (T,); 0: not at all.

        Rates are the measured ones or, where the running placement reaches less, those. From the predicted ones
        `RateGoal.caution` standard deviations of the prediction error are subtracted, but not for topologies that
        neither move nor lose.
        """
        now, there = self._running, self._profile.rate_tps > 0
        if now is None or state is now or not self.goal.caution:
            return np.zeros(len(there))
        grown, before = self._grown(state), self._grown(now)
        change = cost_change(cpu_s_of(now.full_demand), cpu_s_of(state.full_demand))
        measured = np.log(np.where(there, self._profile.rate_tps / self._wanted_or_one, 1.0))
        lacks = np.minimum(measured, before) - grown + self.goal.caution * model_sd(change)
        alike = (change == 0) & (grown >= before - SAME)
        return np.where(there & ~alike, np.maximum(lacks, 0.0), 0.0)

    @cached_property
    def _scale(self) -> FloatArray:
        """Factor of the CPU of topologies by the rate of the running placement, shape (T,)."""
        return Factors.of(self.problem, self.load.corrections).scale

    @cached_property
    def _wanted_or_one(self) -> FloatArray:
        return np.where(self._wanted_tps > 0, self._wanted_tps, 1.0)

    @cached_property
    def _running(self) -> SteadyState | None:
        """Steady state of the running placement; None if it is incomplete."""
        slots = self.problem.current_slot
        return None if np.any(slots == UNPLACED) else self.predicted(slots)

    def predicted(self, slots: IntArray) -> SteadyState:
        """Return the steady state of a placement; cached for the running one and the best so far."""
        if self._now is not None and np.array_equal(slots, self.problem.current_slot):
            return self._now
        known = (state for good, state in self._good if np.array_equal(good, slots))
        return next(known, None) or self._evaluated(slots)

    def reaches(self, slots: IntArray) -> list[Reach]:
        """Return the reachable rates of topologies under a placement; empty if nothing is placed."""
        if np.all(slots == UNPLACED):
            return []
        return list(reaches(self.problem, self._profile, self.predicted(slots)))

    def _evaluated(self, slots: IntArray) -> SteadyState:
        rates, load = self._profile.rate_tps, self.load
        self._last = PlacedLoad.under(self._profile, self.problem, slots, self._last)
        _, (state,) = steady_states(self._last, rates, self._wanted_tps, [(load.costs, load.corrections)])
        return state


def wanted_of(problem: Problem) -> str:
    """Return the default objective: throughput under the measured or assumed rates; traffic if there is no traffic."""
    loads = problem.loads
    return "throughput" if any(load.pair_tps.any() or load.flow_tps.any() for load in loads) else "traffic"


def is_measured(problem: Problem) -> bool:
    """Return whether a service measured the load."""
    load = problem.load
    return load is not None and (load.end_ms > load.start_ms or bool(load.costs))
