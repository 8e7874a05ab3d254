"""Steady engine: predicted rates without tuples, for virtual clusters with too many tuples to simulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.predict.calibration.document import costs_of
from stormwright.predict.costs import Costs
from stormwright.simulator.engine import NOWHERE, EngineCounts
from stormwright.simulator.steady_counts import Counting, Stretch, joined
from stormwright.simulator.steady_flows import Pace, Share, SteadyFlows
from stormwright.simulator.steady_trees import Trees

#: Mean delay of Storm's message timeout, as a fraction of it, due to its rotating map.
_WHEEL = 1.5

#: Capacity of a receive queue, by Storm's default.
_BUFFER = 32_768.0

#: (Problem with present nodes, slots, offered rates) → pace and work of topologies.
Under = Callable[[Problem, NDArray[np.int32], FloatArray], tuple[Pace, Share]]


@dataclass(frozen=True)
class SteadySettings:
    """Settings of a steady engine.

    Parameters
    ----------
    start_s
        Seconds from the start of a worker until its executors run.
    timeout_s
        Mean timeout of a tree in seconds, by Storm's default.
    offered_tps
        Topology id → offered trees/s, inf for as many as possible; measured rates by default.
    seed
        Seed of random choices, such as the acker of a tree.
    varies
        Relative variation of latencies between intervals, as on real clusters; the statistical evaluation of moves
        relies on it.
    """

    start_s: float = 6.0
    timeout_s: float = 30.0 * _WHEEL
    offered_tps: Mapping[str, float] | None = None
    seed: int = 0
    varies: float = 0.0


class SteadyEngine:
    """Engine with constant rates between changes, predicted by `stormwright.predict`.

    1. A topology with an executor that does not run begins no tree.
    2. Moving an executor loses all trees in process of its topology, as each visits most workers.
    3. Fill levels of queues only show that they are not empty.

    Parameters
    ----------
    problem
        Problem with a load; nothing runs yet.
    settings
        Times and rates; None for the defaults.
    under
        Predictor; by default `stormwright.predict`.
    """

    def __init__(self, problem: Problem, settings: SteadySettings | None = None, under: Under | None = None) -> None:
        self._settings = settings = settings or SteadySettings()
        self._nodes, self._speed = problem, np.ones(len(problem.supervisors))
        costs: Costs = costs_of(problem)[0]
        steadily = SteadyFlows(problem, costs)
        self._profile, self._under = steadily.profile, under or steadily.under
        layout = self._profile.layout
        earlier = settings.offered_tps or {}
        rates = zip(problem.topologies, self._profile.rate_tps.tolist(), strict=True)
        self._offered = np.array([earlier.get(topology.id, rate) for topology, rate in rates])
        self._factor, self._active = np.ones(len(self._offered)), np.ones(len(self._offered), dtype=bool)
        self._slots = np.full(problem.num_executors, NOWHERE, np.int32)
        self._up_s = np.full(problem.num_executors, np.inf)
        self._of = layout.executor_topology.astype(np.int64)
        spouts = np.flatnonzero(layout.is_spout[layout.executor_component])
        self._trees = Trees(spouts, self._of[spouts], len(self._offered), settings.timeout_s)
        self._acker = layout.is_acker[layout.executor_component]
        self._rng = np.random.default_rng(settings.seed)
        self._now_s, self._begun_s, self._counted_s, self._known = 0.0, 0.0, 0.0, False
        self._pace: Pace
        self._counting: Counting
        self._done = np.zeros(len(self._offered))
        self._reported = tuple(np.zeros(len(spouts), np.int64) for _ in range(2))
        self._taken = (*(np.zeros(len(spouts), np.int64) for _ in range(2)), self._trees.lost.copy())
        self._stretches: list[Stretch] = []
        self._look()

    @property
    def now_s(self) -> float:
        """Present time."""
        return self._now_s

    @property
    def lost(self) -> NDArray[np.int64]:
        """Trees of every topology that have lost a tuple since the start, shape (T,)."""
        return self._trees.lost

    def until(self, time_s: float) -> None:
        """Advance to a time."""
        while self._now_s < time_s:
            starting = self._up_s[self._up_s > self._now_s]
            ends_s = min(time_s, float(starting.min(initial=np.inf)))
            self._go_on(ends_s)
            if np.any(starting == ends_s):
                self._change()

    def take(self) -> EngineCounts:
        """Return the counts since the last call."""
        self._count()
        trees, found = self._trees, joined(self._stretches)
        acked, failed, lost = (
            now - earlier for now, earlier in zip((trees.acked, trees.failed, trees.lost), self._taken, strict=True)
        )
        self._taken = trees.acked.copy(), trees.failed.copy(), trees.lost.copy()
        spouts, topology = trees.spouts, self._of[trees.spouts]
        completed, timed_out = (np.bincount(topology, each, len(lost)).astype(np.int64) for each in (acked, failed))
        of_executor = [found.handled.copy(), np.zeros_like(found.handled)]
        for each, of_spouts in zip(of_executor, (acked, failed), strict=True):
            each[spouts] = of_spouts
        queue = np.minimum(trees.pending()[self._of] / _BUFFER, 1.0)
        queue[spouts] = 0.0
        begun_s, self._begun_s, self._stretches = self._begun_s, self._now_s, []
        return EngineCounts(
            start_s=begun_s,
            length_s=self._now_s - begun_s,
            received=found.handled,
            emitted=found.emitted,
            acked=of_executor[0],
            failed=of_executor[1],
            cpu_ns=found.cpu_ns,
            execute_ns=found.cpu_ns,
            queue=queue,
            source=found.source,
            target=found.target,
            tuples=found.tuples,
            completed=completed,
            timed_out=timed_out,
            replayed=timed_out,
            lost=lost,
            latency=found.latency,
        )

    def place(self, slots: NDArray[np.int32], started_s: float = 0.0) -> None:
        """Set the executors' slots, `NOWHERE` for those that do not run, shape (E,); see `Engine`."""
        changed = self._slots != slots
        if not changed.any():
            return
        # A worker is identified by topology and slot; if an executor leaves or enters, it restarts completely.
        many = len(self._nodes.slots) + 1
        before, after = self._of * many + self._slots, self._of * many + slots
        touched = np.concatenate([before[changed & (self._slots != NOWHERE)], after[changed & (slots != NOWHERE)]])
        self._slots = slots.copy()
        self._restart(changed | np.isin(after, touched), started_s)

    def activate(self, topology: int, active: bool) -> None:
        """Set whether a topology's spouts begin trees."""
        if self._active[topology] != active:
            self._count()
            self._active[topology] = active

    def rate(self, topology: int, factor: float) -> None:
        """Scale the initial rate of a topology's spouts."""
        self._factor[topology] = factor
        self._change()

    def kill(self, slot: int) -> None:
        """Kill the workers in a slot."""
        self._end(self._slots == slot)

    def node(self, node: int, up: bool) -> None:
        """Stop a node with everything that runs there, or bring it back."""
        if not up:
            there = np.append(self._nodes.slot_node, NOWHERE)[self._slots] == node
            self._end(there & (self._slots != NOWHERE))

    def slow(self, node: int, factor: float) -> None:
        """Scale the speed of a node's cores."""
        self._speed[node] = factor
        self._change()

    def _end(self, executors: BoolArray) -> None:
        self._slots = np.where(executors, NOWHERE, self._slots).astype(np.int32)
        self._restart(executors)

    def _restart(self, executors: BoolArray, started_s: float = 0.0) -> None:
        """Stop some executors, and run them again after their start-up time."""
        up = executors & (self._up_s <= self._now_s)
        topologies = np.bincount(self._of, executors & np.isfinite(self._up_s), len(self._offered)) > 0
        self._trees.lose(topologies, executors[self._trees.spouts], self._now_s)
        starts_s = np.where(self._slots == NOWHERE, np.inf, self._now_s + max(self._settings.start_s - started_s, 0.0))
        self._up_s = np.where(executors, starts_s, self._up_s)
        up |= executors & (self._up_s <= self._now_s)
        if up.any():  # executors that are not up do not affect the others
            self._change()

    def _go_on(self, to_s: float) -> None:
        if not self._known:
            self._look()
        pace, occupied = self._pace, self._trees.unanswered() / self._profile.layout.pending
        begin = np.where(self._active, pace.begin_tps * np.maximum(1.0 - occupied, 0.0), 0.0)
        seconds = to_s - self._now_s
        self._now_s = to_s
        self._done += self._trees.go_on(seconds, to_s, begin, pace.reach_tps, pace.stay_s)

    def _change(self) -> None:
        """Recompute rates from now on."""
        self._count()
        self._known = False

    def _look(self) -> None:
        """Predict the present rates of everything that is up."""
        up = np.where(self._up_s <= self._now_s, self._slots, NOWHERE).astype(np.int32)
        pairs = zip(self._nodes.supervisors, self._speed.tolist(), strict=True)
        nodes = tuple(replace(node, cpu_hz=node.cpu_hz * speed) if speed != 1 else node for node, speed in pairs)
        problem = self._nodes if np.all(self._speed == 1) else replace(self._nodes, supervisors=nodes)
        self._pace, share = self._under(problem, up, self._offered * self._factor)
        spouts = self._trees.spouts
        self._trees.share(share.handled[spouts])
        latency, varies = self._pace.latency, self._settings.varies
        self._counting = Counting(share, self._of, self._acker, spouts, latency, varies)
        self._known = True

    def _count(self) -> None:
        if self._counted_s == self._now_s and self._stretches:
            return
        self._counted_s, trees = self._now_s, self._trees
        now = trees.begun.copy(), trees.acked.copy()
        begun, acked = (count - earlier for count, earlier in zip(now, self._reported, strict=True))
        self._stretches.append(self._counting.count(self._done, begun, acked, self._rng))
        self._reported, self._done = now, np.zeros(len(self._done))
