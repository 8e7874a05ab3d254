"""Steady engine: predicted rates without tuples, for virtual clusters with too many tuples to simulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.predict.calibration.document import costs_of
from stormwright.predict.costs import Costs
from stormwright.predict.queueing.trees import Times
from stormwright.simulator.engine import NOWHERE, EngineCounts
from stormwright.simulator.steady_flows import Pace, Share, SteadyFlows

# Counting -----------------------------------------------------------------------------------------
# Conversion of constant rates to integer counts of executors, pairs of them and topologies.

Whole = NDArray[np.int64]


class Stretch(NamedTuple):
    """Counts while rates were constant: by executor, by pair, and latencies by topology."""

    handled: Whole
    emitted: Whole
    cpu_ns: Whole
    source: Whole
    target: Whole
    tuples: Whole
    latency: Whole


class Counting:
    """Counts during one placement; fractions of tuples are carried over.

    Parameters
    ----------
    share
        Work of executors per tree.
    topology, acker
        Topology of every executor, and whether it is an acker, shape (E,).
    spouts
        Executors of spouts, shape (S,).
    latency
        Latency of trees, shape (T,).
    varies
        Relative variation of latency between intervals.
    """

    def __init__(
        self,
        share: Share,
        topology: IndexArray,
        acker: BoolArray,
        spouts: IndexArray,
        latency: Times,
        varies: float = 0.0,
    ) -> None:
        self._share, self._of, self._varies = share, topology, varies
        spout = np.zeros(len(topology), dtype=bool)
        spout[spouts] = True
        begins = np.flatnonzero(spout[share.source] & acker[share.target])
        self._begins = begins[np.argsort(share.source[begins], kind="stable")]
        sources = share.source[self._begins]
        first, last = np.searchsorted(sources, spouts, "left"), np.searchsorted(sources, spouts, "right")
        self._begins_of = np.stack([first, last], axis=1).tolist()
        self._spout, self._spouts = spout, spouts
        self._left, self._left_pairs = np.zeros(len(topology)), np.zeros(len(share.source))
        self._buckets = _buckets(latency)

    def count(self, done: FloatArray, begun: Whole, acked: Whole, rng: np.random.Generator) -> Stretch:
        """Return the counts since the last call.

        Parameters
        ----------
        done
            Trees processed, by topology, shape (T,).
        begun, acked
            Trees by executor of a spout, shape (S,).
        rng
            Selects ackers and latencies of trees.
        """
        share, trees = self._share, done[self._of]
        handled = share.handled * trees + self._left
        whole = np.floor(handled + 1e-9).astype(np.int64)
        self._left = handled - whole
        whole[self._spout] = 0
        sent = share.tuples * trees[share.source] + self._left_pairs
        tuples = np.floor(sent + 1e-9).astype(np.int64)
        self._left_pairs = sent - tuples
        self._deal(tuples, begun, rng)
        emitted = np.bincount(share.source, tuples, len(self._of)).astype(np.int64)
        completed = np.bincount(self._of[self._spouts], acked, len(done)).astype(np.int64)
        buckets = _later(self._buckets, rng.normal(0.0, self._varies, len(done))) if self._varies else self._buckets
        latency = np.stack([rng.multinomial(*each) for each in zip(completed, buckets, strict=True)])
        cpu_ns = (share.cpu_s * trees * 1e9).astype(np.int64)
        return Stretch(whole, emitted, cpu_ns, share.source, share.target, tuples, latency)

    def _deal(self, tuples: Whole, begun: Whole, rng: np.random.Generator) -> None:
        """Assign every tree that is begun to one acker."""
        at, share = self._begins, self._share
        tuples[at] = 0
        for (first, last), trees in zip(self._begins_of, begun.tolist(), strict=True):
            if last > first:
                own = at[first:last]
                parts = share.tuples[own]
                tuples[own] = rng.multinomial(trees, parts / parts.sum())


def joined(stretches: Sequence[Stretch]) -> Stretch:
    """Return the sum of several stretches."""
    if len(stretches) == 1:
        return stretches[0]
    handled, emitted, cpu_ns, source, target, tuples, latency = zip(*stretches, strict=True)
    return Stretch(
        np.sum(handled, axis=0),
        np.sum(emitted, axis=0),
        np.sum(cpu_ns, axis=0),
        np.concatenate(source),
        np.concatenate(target),
        np.concatenate(tuples),
        np.sum(latency, axis=0),
    )


def _later(buckets: FloatArray, part: FloatArray) -> FloatArray:
    """Return buckets for times that are longer or shorter by a small fraction, shape (T,); the outer ones are open."""
    moves = np.clip(part / np.log(LATENCY_EDGES_MS[1] / LATENCY_EDGES_MS[0]), -1.0, 1.0)[:, None]
    up, down = np.maximum(moves, 0.0), np.maximum(-moves, 0.0)
    higher, lower = np.roll(buckets, 1, axis=1), np.roll(buckets, -1, axis=1)
    higher[:, 0], lower[:, -1] = 0.0, 0.0
    higher[:, -1] += buckets[:, -1]
    lower[:, 0] += buckets[:, 0]
    found = (1 - up - down) * buckets + up * higher + down * lower
    whole: FloatArray = found / found.sum(axis=1, keepdims=True)
    return whole


def _buckets(latency: Times) -> FloatArray:
    """Return the fraction of every topology's trees in each latency bucket, by a gamma distribution."""
    from scipy.special import gammainc  # slow to import

    mean, variance = (np.where(np.isfinite(each) & (each > 0), each, 1e-9)[:, None] for each in latency)
    below = gammainc(np.minimum(mean**2 / variance, 1e6), np.array(LATENCY_EDGES_MS) * 1e-3 * mean / variance)
    parts = np.diff(np.clip(below, 0.0, 1.0), prepend=0.0, append=1.0)
    found = np.maximum(parts, 0.0)
    whole: FloatArray = found / found.sum(axis=1, keepdims=True)
    return whole


# Trees --------------------------------------------------------------------------------------------
# Pending, acked, failed and lost trees between changes of the steady state.
#
# Trees begun at λ per second, of which each takes L seconds, are λ L pending (Little's law); from one rate to the next
# their number changes exponentially, as in a queue with infinitely many servers. Trees begun beyond the capacity of a
# placement queue up, and are completed at that rate.

#: Pending trees that count as 0; minimum latency in seconds; rounding tolerance of sums.
_NONE, _SHORTEST_S, _ROUNDING = 0.5, 1e-6, 1e-6


class Trees:
    """Integer numbers of trees of all spout executors since the start; unanswered trees time out.

    Parameters
    ----------
    spouts, topology
        Executors of spouts, and the topology of each, shape (S,).
    topologies
        Number of topologies of the problem, which is the length of `lost`.
    timeout_s
        Seconds after which a spout fails an unanswered tree.

    Attributes
    ----------
    begun, acked, failed
        Trees by executor, shape (S,).
    lost
        Trees that lost a tuple, by topology, shape (T,).
    """

    def __init__(self, spouts: IndexArray, topology: IndexArray, topologies: int, timeout_s: float) -> None:
        self.spouts, self._topology, self._timeout_s = spouts, topology, timeout_s
        self.begun, self.acked, self.failed = (np.zeros(len(spouts), np.int64) for _ in range(3))
        self.lost = np.zeros(topologies, np.int64)
        self._pending = np.zeros(topologies)
        self._begun, self._share = np.zeros(len(spouts)), np.zeros(len(spouts))
        # Unanswered trees: those that the spout will fail, their timeouts, and those that it forgot.
        self._gone, self._forgotten = (np.zeros(len(spouts), np.int64) for _ in range(2))
        self._until_s = np.full(len(spouts), np.inf)

    def share(self, handled: FloatArray) -> None:
        """Set the fraction of its topology's trees that each executor begins, in any unit; shape (S,)."""
        whole = np.bincount(self._topology, handled, len(self._pending))[self._topology]
        self._share = np.divide(handled, whole, out=np.zeros(len(handled)), where=whole > 0)

    def unanswered(self) -> FloatArray:
        """Return unanswered trees that count as pending, shape (T,)."""
        return np.bincount(self._topology, self._gone, len(self._pending)).astype(np.float64)

    def pending(self) -> FloatArray:
        """Return trees in process, shape (T,)."""
        return self._pending

    def go_on(
        self, seconds: float, now_s: float, begin_tps: FloatArray, reach_tps: FloatArray, stay_s: FloatArray
    ) -> FloatArray:
        """Advance time; return the number of completed trees, shape (T,).

        Parameters
        ----------
        seconds, now_s
            Duration, and the resulting time.
        begin_tps, reach_tps
            Rates at which trees are begun and could be completed, shape (T,).
        stay_s
            Latency without queueing, shape (T,).
        """
        begun = begin_tps * seconds
        after = _after(seconds, self._pending, begin_tps, reach_tps, np.maximum(stay_s, _SHORTEST_S))
        done = np.maximum(self._pending + begun - after, 0.0)
        self._pending = self._pending + begun - done
        self._begun += begun[self._topology] * self._share
        over = self._until_s <= now_s
        self.failed[over] += self._gone[over]
        self._gone[over], self._until_s[over] = 0, np.inf
        self._count()
        return done

    def lose(self, topologies: BoolArray, restarted: BoolArray, now_s: float) -> None:
        """Lose all trees in process of some topologies, shape (T,); restarted spouts forget theirs, (S,)."""
        self._count()
        affected = topologies[self._topology]
        open_ = np.where(affected, self._open(), 0)
        self.lost += np.bincount(self._topology, open_, len(self.lost)).astype(np.int64)
        self._pending = np.where(topologies, 0.0, self._pending)
        self._gone += open_
        self._until_s = np.where(affected & (open_ > 0), now_s + self._timeout_s, self._until_s)
        self._forgotten[restarted] += self._gone[restarted]
        self._gone[restarted], self._until_s[restarted] = 0, np.inf

    def _open(self) -> IndexArray:
        """Return trees in process, by executor, shape (S,)."""
        whole: IndexArray = np.rint(self._pending[self._topology] * self._share).astype(np.int64)
        return whole

    def _count(self) -> None:
        self.begun = np.floor(self._begun + _ROUNDING).astype(np.int64)
        self.acked = np.maximum(self.acked, self.begun - self._open() - self._gone - self._forgotten - self.failed)


def _after(
    seconds: float, pending: FloatArray, begin_tps: FloatArray, reach_tps: FloatArray, stay_s: FloatArray
) -> FloatArray:
    """Return the number of pending trees after some time, shape (T,)."""
    usual, spare = reach_tps * stay_s, reach_tps - begin_tps
    ahead, inside = np.maximum(pending - usual, 0.0), np.minimum(pending, usual)
    queued_s = np.divide(ahead, spare, out=np.where(ahead > 0, np.inf, 0.0), where=spare > 0)
    ahead = np.maximum(ahead - spare * seconds, 0.0)
    goal = np.minimum(begin_tps, reach_tps) * stay_s
    inside = goal + (inside - goal) * np.exp(-np.maximum(seconds - queued_s, 0.0) / stay_s)
    after = np.where(reach_tps > 0, inside + ahead, pending + begin_tps * seconds)
    return np.where((begin_tps == 0) & (after < _NONE) & (reach_tps > 0), 0.0, after)


# Engine -------------------------------------------------------------------------------------------

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
