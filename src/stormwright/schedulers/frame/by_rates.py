"""The frame of a search for what operators want: highest rates, least latency, or fewest nodes.

::

    starts ─▶ a search from each (`optimize.rates`) ─▶ judged by `predict` ─▶ what need not move stays

A search knows the bottleneck but not how long tuples wait in queues; so what several of them have found is judged by
the whole prediction, beside what runs now.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.conf.keys import WORKERS, WORKERS_KEY
from stormwright.model.limits.violations import broken_limits
from stormwright.optimize.rates.improve import Effort, Improved, improve
from stormwright.optimize.rates.score import LATENCY, NODES, THROUGHPUT
from stormwright.optimize.rates.start import Aim, MeasuredLoad, Seats, make_sustained
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.graph import Graph
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Routes
from stormwright.predict.shares import with_shares
from stormwright.predict.spill import with_spill
from stormwright.predict.steady import Placed, Steady, steady_state
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.frame.quietest import quietest
from stormwright.schedulers.kit.limits import max_executors_per_worker, num_workers
from stormwright.schedulers.placing.staying import choose_slots

#: Kinds of scores that are searched for an objective: what is judged best among all of them counts.
_KINDS = {"throughput": (THROUGHPUT, LATENCY), "latency": (LATENCY, THROUGHPUT), "nodes": (NODES,)}

#: What runs is left alone for less than this, in parts of the objective; and what need not move for less than that.
_WORTH_IT, _SAME = 5e-3, 1e-3

#: More topologies than these are not tried one by one to stay where they run.
_MOST_TRIED = 200


@dataclass(frozen=True)
class Wish:
    """What is wanted of a placement.

    Parameters
    ----------
    objective
        One of throughput, latency and nodes.
    workers
        One of `WORKERS`, for topologies that do not say.
    headroom
        Part of everything that is to stay free where nodes are saved.
    seed
        Of the random numbers.
    """

    objective: str
    workers: str
    headroom: float
    seed: int


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

    def __init__(self, problem: Problem, load: MeasuredLoad, wish: Wish) -> None:
        self.problem, self._load, self._wish = problem, load, wish
        self._profile: Profile = load.profile
        self._wanted_tps = weights_of(problem) * load.profile.rate_tps
        self.steps = 0

    @cached_property
    def _graph(self) -> Graph:
        return Graph.of(self._profile)

    @cached_property
    def _free(self) -> BoolArray:
        """Topologies whose load was measured, and whose limits a search knows; shape (T,)."""
        problem = self.problem
        asks = np.any(problem.executor_demand[2:] > 0, axis=0)
        held = np.bincount(problem.executor_topology, asks, len(problem.topologies)) > 0
        held[list(problem.component_limits)] = True
        return ~held & (self._profile.rate_tps > 0)

    def improved(self, slots: IntArray, effort: Effort) -> IntArray:
        """A better placement than `slots`, which is complete and keeps all limits; or what runs, if that is as good.

        Parameters
        ----------
        slots
            Slot of every executor, -1 for those of topologies that are left out, shape (E,).
        effort
            Of all searches together.
        """
        now = self.problem.current_slot
        runs = bool(np.all(now[slots != UNPLACED] != UNPLACED)) and all(map(self._may_stay, range(len(self._free))))
        starts = [slots, now] if runs and not np.array_equal(slots, now) else [slots]
        found = [*starts, *self._searched(starts, effort)]
        badness = [self.badness(each) for each in found]
        best = int(np.argmin(badness))
        if self._wish.objective == "throughput":
            best = quietest(self.problem, found, badness, _SAME)
        if not runs:
            return found[best]
        if badness[len(starts) - 1] <= badness[best] + _WORTH_IT:  # the last start is what runs
            return now
        return self._moved_back(found[best], badness[best])

    def _may_stay(self, topology: int) -> bool:
        """Whether a topology runs on a number of workers that it may have."""
        used = self._used_by(topology, self.problem.current_slot)
        choice, wanted = self._choice(topology), num_workers(self.problem.topologies[topology])
        return not self._free[topology] or choice == "free" or used == wanted or (choice == "at_most" and used < wanted)

    def _used_by(self, topology: int, slots: IntArray) -> int:
        """How many workers a topology has."""
        return len(set(slots[self.problem.executors_of(topology)].tolist()) - {UNPLACED})

    def _searched(self, starts: list[IntArray], effort: Effort) -> Iterator[IntArray]:
        kinds, end = _KINDS[self._wish.objective], time.perf_counter() + effort.seconds
        tried = [(kind, seats) for kind in kinds for seats in (*map(self._seats, starts), *self._gathered(starts[0]))]
        for number, (kind, seats) in enumerate(tried):
            left = len(tried) - number
            seconds = max(end - time.perf_counter(), 0.0) / left if effort.seconds else 0.0
            found = self._improve(seats, kind, Effort(effort.steps // len(tried), seconds))
            self.steps += found.steps
            if found.short < 1:
                yield self._slots(seats, found)

    def _improve(self, seats: Seats, kind: int, effort: Effort) -> Improved:
        limit = 1.0 - self._wish.headroom if kind == NODES else 1.0
        aim = Aim(kind, self._wanted_tps if kind == THROUGHPUT else self._profile.rate_tps, limit)
        return improve(make_sustained(self.problem, self._load, seats, aim, self._wish.seed), effort)

    # Seats ----------------------------------------------------------------------------------------

    def _workers_of(self, topology: int) -> int:
        """The most workers that a topology may have."""
        of = self.problem.topologies[topology]
        if self._choice(topology) == "free":
            return min(of.num_executors, int(np.count_nonzero(self.problem.node_usable)))
        return num_workers(of)

    def _choice(self, topology: int) -> str:
        told = self.problem.topologies[topology].conf.get(WORKERS_KEY)
        return told if told in WORKERS else self._wish.workers

    def _seats(self, slots: IntArray) -> Seats:
        """A placement as workers by topology, with empty ones where a topology may have more."""
        problem = self.problem
        used, first, worker = np.unique(slots, return_index=True, return_inverse=True)
        missing = int(UNPLACED in used)
        topology = problem.executor_topology[first[missing:]].astype(np.int64)
        node = problem.slot_node[used[missing:]].astype(np.int64)
        has = np.bincount(topology, minlength=len(problem.topologies))
        chosen = np.array([self._choice(t) != "exactly" for t in range(len(has))], bool) & self._free
        more = [max(self._workers_of(t) - has[t], 0) if chosen[t] and has[t] else 0 for t in range(len(has))]
        topology = np.concatenate([topology, np.repeat(np.arange(len(has)), more)])
        node = np.concatenate([node, np.zeros(sum(more), np.int64)])
        order = np.argsort(topology, kind="stable")
        number = np.full(len(order) + 1, UNPLACED)
        number[order] = np.arange(len(order))
        ports = np.array([len(supervisor.ports) for supervisor in problem.supervisors])
        return Seats(
            worker=number[worker - missing],
            topology=topology[order],
            node=node[order],
            most=np.array([min(max_executors_per_worker(t), t.num_executors) for t in problem.topologies], np.int64),
            movable=self._free,
            may_be_empty=chosen,
            ports=np.where(problem.node_usable, ports, 0),
        )

    def _gathered(self, slots: IntArray) -> Iterator[Seats]:
        """Starts with every free topology in one worker, on 1, 2, 4, … nodes and on all; the fullest first."""
        seats = self._seats(slots)
        usable = np.flatnonzero(seats.ports > 0)
        if not np.any(seats.may_be_empty):
            return
        cpu_hz = np.bincount(self.problem.executor_topology, self.problem.executor_cpu_hz, len(seats.movable))
        largest = usable[np.argsort(-self.problem.node_cpu_hz[usable], kind="stable")]
        counts = sorted({*(2**k for k in range(len(usable).bit_length())), len(usable)})
        for count in (c for c in counts if c <= len(usable)):
            room, left = self.problem.node_cpu_hz[largest[:count]].copy(), seats.ports[largest[:count]].copy()
            worker, node = seats.worker.copy(), seats.node.copy()
            for topology in np.argsort(-cpu_hz, kind="stable"):
                members = self.problem.executors_of(topology)
                if seats.may_be_empty[topology] and worker[members][0] != UNPLACED and left.any():
                    own = int(np.searchsorted(seats.topology, topology))
                    to = int(np.argmax(np.where(left > 0, room, -np.inf)))
                    worker[members], node[own] = own, largest[to]
                    room[to], left[to] = room[to] - cpu_hz[topology], left[to] - 1
            yield replace(seats, worker=worker, node=node)

    def _slots(self, seats: Seats, found: Improved) -> IntArray:
        draft = Draft.empty(self.problem, seats.ports > 0)
        for topology, node in zip(seats.topology.tolist(), found.node.tolist(), strict=True):
            draft.add_worker(topology, found.worker[:0], node)
        filled = np.bincount(found.worker[found.worker >= 0], minlength=len(found.node)) > 0
        draft.node = [node if full else UNPLACED for node, full in zip(draft.node, filled.tolist(), strict=True)]
        draft.worker = found.worker.copy()
        return choose_slots(draft)

    def chosen_workers(self, slots: IntArray) -> dict[str, int]:
        """Topology id → how many workers it should be given, of those that get another number than they ask for."""
        problem, chosen = self.problem, {}
        for index, topology in enumerate(problem.topologies):
            used = self._used_by(index, slots)
            if used and used != num_workers(topology) and self._free[index] and self._choice(index) != "exactly":
                chosen[topology.id] = used
        return chosen

    # Judged ---------------------------------------------------------------------------------------

    def badness(self, slots: IntArray) -> float:
        """How bad a placement is by the whole prediction, in parts of the objective: 0.01 is one percent.

        Throughput is that of the topology that comes off worst by its weight, and a tenth of what it is on average;
        latency counts where rates are sustained, and nodes where enough stays free.
        """
        state = self.predicted(slots)
        there = self._profile.rate_tps > 0
        there &= np.bincount(self.problem.executor_topology, slots == UNPLACED, len(there)) == 0
        rate = self._profile.rate_tps[there]
        if not len(rate):
            return 0.0
        too_full = float(np.maximum(state.given_use[there], 1.0).max() - 1.0)
        if self._wish.objective == "throughput":
            reached = np.where(np.isfinite(self._profile.layout.pending), state.pending.rate_tps, state.highest_tps)
            grown = np.log(np.maximum(reached[there], 1e-12) / self._wanted_tps[there])
            return -float(grown.min() + 0.1 * grown.mean())
        latency_s = float(rate @ state.given.ways.latency.mean[there] / rate.sum())
        if self._wish.objective == "latency":
            return 1e3 * too_full + float(np.log(max(latency_s, 1e-12)))
        allowed = 1.0 - self._wish.headroom
        over = float(np.maximum(state.given_use[there] - allowed, 0.0).max())
        nodes = len(np.unique(self.problem.slot_node[slots[slots != UNPLACED]]))
        return nodes + 1e3 * over + 1e-3 * min(latency_s, 1.0)

    def predicted(self, slots: IntArray) -> Steady:
        """The steady state of a placement."""
        load, profile = self._load, self._profile
        rates = profile.rate_tps
        placed = Placed(profile, self._graph, self.problem, Routes.under(profile, self._graph, self.problem, slots))
        placed = with_spill(placed, slots, self._wanted_tps, load.costs, load.corrections)
        placed = with_shares(placed, slots, load.costs, load.corrections)
        return steady_state(placed, rates, self._wanted_tps, load.costs, load.corrections)

    def _moved_back(self, slots: IntArray, badness: float) -> IntArray:
        """Without moves that bring nothing: topology by topology, what may as well stay where it runs."""
        problem, now = self.problem, self.problem.current_slot
        moved = [t for t in range(len(problem.topologies)) if np.any((slots != now)[problem.executors_of(t)])]
        most_broken = len(broken_limits(problem, slots))
        for topology in moved if len(moved) <= _MOST_TRIED else ():
            members = problem.executors_of(topology)
            back = slots.copy()
            back[members] = now[members]
            taken = np.setdiff1d(np.delete(back, members), [UNPLACED])
            broken = len(broken_limits(problem, back))
            if np.isin(now[members], taken).any() or broken > most_broken:
                continue
            there = self.badness(back)
            if there <= badness + _SAME:
                slots, badness, most_broken = back, max(badness, there), broken
        return slots
