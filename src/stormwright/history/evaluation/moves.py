"""Evaluation of every move after enough windows, with state that survives restarts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import orjson
from scipy.special import stdtrit

from stormwright.base.documents import Document
from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.history.evaluation.regressions import worse
from stormwright.history.evaluation.verdict import (
    CONFIDENCE,
    MIN_WINDOWS,
    MORE_PROBABLY,
    Evaluation,
    calibration,
    judge,
    promised_for,
    ratio_interval,
)
from stormwright.history.evaluation.window import SHORTEST_MS, EvaluationWindow, Sample, warm
from stormwright.model import LoadProfile, Problem, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.traffic_matrix import traffic_under
from stormwright.plans.plan import Promise
from stormwright.plans.tuning import FASTER, TuningAim
from stormwright.predict.fixed_point import waiting

#: Evaluated quantities. The first is tuples between nodes for each tuple tree, or for each tuple processed where no
#: tree is tracked: so a load that grows or falls meanwhile changes nothing. The second one is trees or tuples per
#: second, the third is how long a tree takes. The fourth is relative to its prediction, not to what was before: the
#: rate while spouts wait for pending trees, as while a topology works off what waited during its pause.
INTER_NODE, THROUGHPUT, LATENCY, CORES = "inter-node tuples per tree", "throughput", "complete latency", "CPU"
HIGHEST_RATE = "highest rate, of the predicted one"

#: Seconds looked at on either side, at most.
BEFORE_S, AFTER_S = 240.0, 120.0

#: Seconds after a move that are left out: caches and compilers warm up.
SETTLE_S = 20.0

#: Seconds of windows after which a trial may be evaluated early if it is better, and if it is not: workers become
#: faster for a minute or two. The confidence of that, and the gain that is too little for a trial.
EARLY_S, EARLY_LOSS_S, EARLY_CONFIDENCE, TOO_LITTLE = 50.0, 100.0, 0.99, 0.02

#: Part of a rate that is wanted at which it counts as held.
HELD = 0.98

#: Seconds after which a move is evaluated with the data available.
PATIENCE_S = 3600.0

#: Seconds without a completed tree, and number of trees due in them, after which a topology of which a worker has ended
#: this often since the move has failed; and the latencies of before that it is given.
SILENT_S, SURELY_DUE, CRASHES, LATENCIES = 30.0, 20.0, 2, 3.0

#: Maximum number of evaluations used for calibration.
MAX_EVALUATED = 100


@dataclass(frozen=True)
class MovedTopology:
    """One topology that was moved.

    Parameters
    ----------
    decision_ms
        When it was decided, in ms since 1970: the key of the decision in the history.
    topology
        Id of the topology that was moved.
    promise
        Prediction for the topology when the move was decided.
    started_ms, ended_ms
        When it was paused, and from when its spouts could emit again, in ms since 1970. What was before the one and
        well after the other is compared.
    before, after
        Where it was and is; None where that is not known, so that it stays there.
    rolls_back
        Whether the move was a rollback, which is never rolled back itself.
    executors
        Numbers of executors before it by component (id), where it changed them.
    conf
        Values of the configuration before it by key, where it changed them.
    trial
        Whether it is to be undone unless the topology is measurably better.
    aim
        By which a trial is better. A move to fewer cores that is no trial stays within its limits of latency.
    """

    decision_ms: int
    topology: str
    promise: Promise
    started_ms: int
    ended_ms: int
    before: TopologyAssignment | None = None
    after: TopologyAssignment | None = None
    rolls_back: bool = False
    executors: Mapping[str, int] = field(default_factory=dict)
    conf: Mapping[str, Any] = field(default_factory=dict)
    trial: bool = False
    aim: TuningAim = FASTER


@dataclass(frozen=True)
class Pending:
    """A move that is not evaluated yet.

    Parameters
    ----------
    moved
        Topology that was moved, with times and promise.
    before, young
        Windows right before it, and those from when the workers that it stopped were young; oldest first.
    worse
        Why the topology performs worse since; None without a significant regression.
    """

    moved: MovedTopology
    before: tuple[Sample, ...]
    young: tuple[Sample, ...]
    worse: str | None = None

    @cached_property
    def encoded(self) -> bytes:
        """JSON encoding, cached, as it never changes and is written with each move."""
        return orjson.dumps(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the move as a JSON object, without names of parts of a slot."""
        found = asdict(self)
        for name in ("before", "after"):
            placement = getattr(self.moved, name)
            if placement is not None:
                found["moved"][name]["slots"] = [[*slot] for slot in placement.slots]
        return found

    @classmethod
    def of_dict(cls, raw: Mapping[str, Any]) -> Pending:
        """Return the move from the JSON of `as_dict`.

        Raises
        ------
        KeyError, TypeError
            It is none.
        """
        moved = dict(raw["moved"])
        moved["promise"] = Promise(**moved["promise"])
        moved["aim"] = TuningAim(**moved.get("aim", {}))
        for name in ("before", "after"):
            moved[name] = _placement(moved[name])
        before, young = (tuple(Sample(**sample) for sample in raw[name]) for name in ("before", "young"))
        return cls(MovedTopology(**moved), before, young, raw["worse"])


def _placement(raw: Mapping[str, Any] | None) -> TopologyAssignment | None:
    if raw is None:
        return None
    return TopologyAssignment(tuple(WorkerSlot(*slot) for slot in raw["slots"]), tuple(raw["slot_of_executor"]))


@dataclass(frozen=True)
class EvaluatedMove:
    """Result of the move of one topology."""

    decision_ms: int
    topology: str
    evaluation: Evaluation


@dataclass(frozen=True)
class Worse:
    """A topology that is measurably worse since its move; `why` has the quantity."""

    moved: MovedTopology
    why: str


class MoveEvaluator:
    """Evaluates moves by the windows before and after them.

    Parameters
    ----------
    document
        Document with pending and evaluated moves.
    observed
        Counts of records in windows, by topology, to compare.
    now_ms
        Returns the time of day.
    restore
        Whether to continue from the document; else it is replaced with the next change.
    """

    def __init__(
        self,
        document: Document,
        observed: ObservedTraffic,
        now_ms: Callable[[], int] = lambda: round(time.time() * 1000),
        *,
        restore: bool = True,
    ) -> None:
        self._document, self._observed, self._now_ms = document, observed, now_ms
        self._before, self._after = (round(s * 1000 / observed.window_ms) for s in (BEFORE_S, AFTER_S))
        self._pending: dict[str, Pending] = {}
        self._evaluated: deque[EvaluatedMove] = deque(maxlen=MAX_EVALUATED)
        #: When each topology was resumed after its last move, in ms since 1970.
        self._resumed_ms: dict[str, float] = {}
        if restore and (text := document.load()):
            self._load(text)

    def moved(self, moved: MovedTopology) -> list[EvaluatedMove]:
        """Record that a topology was moved, and evaluate its previous move now at the latest."""
        topology = moved.topology
        evaluated = self._evaluate(topology, until_ms=moved.started_ms) if topology in self._pending else []
        resumed_ms, until_ms = self._resumed_ms.get(topology, 0.0), moved.started_ms
        windows = self._observed.since(topology, resumed_ms + SETTLE_S * 1000)
        samples = self._samples(windows, moved.before, resumed_ms, until_ms)[-self._before :]
        # Of the workers before the move: those that it started use other slots, or their windows end after it began.
        generations = self._observed.young(topology)
        found = (self._samples(generation, moved.before, resumed_ms, until_ms) for generation in generations)
        young = next(filter(None, found), [])
        self._pending[topology] = Pending(moved, tuple(samples), tuple(young))
        self._resumed_ms[topology] = moved.ended_ms
        self._save()
        return evaluated

    def due(self) -> list[EvaluatedMove]:
        """Return moves that can be evaluated by now, each once."""
        found: list[EvaluatedMove] = []
        for topology, pending in list(self._pending.items()):
            waited_s = (self._now_ms() - pending.moved.ended_ms) / 1000
            # A move to be rolled back is evaluated at the rollback.
            if pending.worse is not None:
                continue
            complete = len(self._counting(pending)) >= self._after or waited_s > PATIENCE_S
            if complete or self._is_clear(pending):
                if why := self._why_no_better(pending):
                    self._pending[topology] = replace(pending, worse=why)
                    self._save()
                else:
                    found += self._evaluate(topology)
        if found:
            self._save()
        return found

    def _is_clear(self, pending: Pending) -> bool:
        """Return whether a trial is measurably better, or not enough so, before all windows are there."""
        if not pending.moved.trial:
            return False
        aim, (before, after) = pending.moved.aim, self._both(pending)
        measured_s = len(after) * self._observed.window_ms / 1000
        if measured_s < EARLY_S:
            return False
        low, high = _better(aim, before, after, EARLY_CONFIDENCE)
        if low is None or high is None:
            return False
        if low > 1.0:
            return not _beyond_limits(aim, before, after)
        return measured_s >= EARLY_LOSS_S and high < 1.0 + TOO_LITTLE

    def _why_no_better(self, pending: Pending) -> str:
        """Return why a trial is taken back; empty for a move that is none, and for one that is measurably better."""
        if not pending.moved.trial:
            return ""
        aim, (before, after) = pending.moved.aim, self._both(pending)
        low, high = _better(aim, before, after, CONFIDENCE)
        if low is None or high is None:
            return "too little could be measured for a trial"
        if low <= 1.0:
            name = THROUGHPUT if aim.quantity == "throughput" else "tuple trees for its CPU"
            return f"{name} is ×{low:.2f} to ×{high:.2f} of that before, which is too little for a trial"
        return _beyond_limits(aim, before, after)

    def _both(self, pending: Pending) -> tuple[list[Sample], list[Sample]]:
        """Return the windows before and after a move by which it is evaluated."""
        return warm(pending.before) or list(pending.before), self._counting(pending)[: self._after]

    def recent(self, topology: str, since_ms: float) -> list[Sample]:
        """Return the windows of a topology with warm workers that begin at `since_ms` or after its last move."""
        resumed_ms = self._resumed_ms.get(topology, 0.0)
        windows = self._observed.since(topology, max(since_ms, resumed_ms + SETTLE_S * 1000 if resumed_ms else 0.0))
        return warm(self._samples(windows, None, resumed_ms))

    def worse(self) -> list[Worse]:
        """Return topologies that are measurably worse since their moves, until they are moved again."""
        found = []
        for topology, pending in list(self._pending.items()):
            why = pending.worse or self._why_worse(pending)
            if why and pending.worse is None:
                self._pending[topology] = replace(pending, worse=why)
                self._save()
            if why:
                found.append(Worse(pending.moved, why))
        return found

    def forget(self, topology: str) -> list[EvaluatedMove]:
        """Evaluate the move of a topology that is elsewhere now by the windows so far."""
        if topology not in self._pending:
            return []
        evaluated = self._evaluate(topology)
        self._save()
        return evaluated

    def status(self) -> dict[str, Any]:
        """Return ``calibration``, ``pending`` moves, and the last ``evaluations`` for the status endpoint."""
        return {
            "calibration": self.calibration,
            "pending": sorted(self._pending),
            "evaluations": [asdict(evaluated) for evaluated in list(self._evaluated)[-10:]],
        }

    @property
    def calibration(self) -> float | None:
        """Share of the predicted effect on traffic that arrives (`calibration`)."""
        return calibration(
            evaluated.evaluation for evaluated in list(self._evaluated) if evaluated.evaluation.quantity == INTER_NODE
        )

    def _why_worse(self, pending: Pending) -> str | None:
        if pending.moved.rolls_back:
            return None
        if why := self._why_silent(pending):
            return why
        if pending.moved.aim.quantity == "cores" and not pending.moved.trial:
            return self._why_not_enough(pending)
        # From the first second on: young workers are compared with what the old ones did at that age.
        after = self._after_move(pending.moved, pending.moved.ended_ms)
        before = warm(pending.before) or pending.before
        return worse(pending.before, pending.young, after, promised_for(pending.moved.promise, before))

    def _why_not_enough(self, pending: Pending) -> str | None:
        """Return why a topology with less capacity does not hold its objective; None if it does, or little is known."""
        after, limit = self._counting(pending)[-MIN_WINDOWS:], pending.moved.promise.pending_limit
        if len(after) < MIN_WINDOWS:
            return None
        if why := _beyond_latency(pending.moved.aim, after):
            return why
        parts = [each.pending / limit for each in after if each.pending is not None] if limit else []
        waits = bool(parts) and float(waiting(np.array(sum(parts) / len(parts)))) > MORE_PROBABLY
        return "its spouts wait for pending trees" if waits else None

    def _why_silent(self, pending: Pending) -> str | None:
        """Return that no tree completes since a move after which workers crash; None if one does, or few are due.

        A worker that crashes reports too little for a window to count: `regressions.worse` never sees it.
        """
        moved, before = pending.moved, pending.before
        rate_tps = sum(each.acked for each in before) / max(sum(each.length_s for each in before), 1)
        if not rate_tps:
            return None
        latency_s = max((each.latency_ms or 0.0 for each in before), default=0.0) / 1000
        since_s = (self._now_ms() - moved.ended_ms) / 1000
        if since_s < max(SILENT_S, LATENCIES * latency_s, SURELY_DUE / rate_tps):
            return None
        if self._observed.crashes_since(moved.topology, moved.ended_ms) < CRASHES:
            return None
        return f"no tuple tree has completed for {since_s:.0f} s ({rate_tps:,.0f}/s before), and its workers crash"

    def _evaluate(self, topology: str, until_ms: float = float("inf")) -> list[EvaluatedMove]:
        pending = self._pending.pop(topology)
        moved = pending.moved
        before = warm(pending.before) or list(pending.before)
        after = [sample for sample in self._counting(pending) if sample.start_ms < until_ms][: self._after]
        threshold = promised_for(moved.promise, before)
        tracked = all(sample.acked for sample in before)
        evaluations = [judge(THROUGHPUT, threshold.throughput, _rates(before, tracked), _rates(after, tracked))]
        if moved.promise.inter_node is not None:
            crossing = [_crossing(samples, tracked) for samples in (before, after)]
            evaluations.insert(0, judge(INTER_NODE, moved.promise.inter_node, *crossing))
        if any(sample.latency_ms for sample in before):
            times = _latencies(before)
            # Times too short to distinguish are all reported with the same value.
            least = SHORTEST_MS / (sum(times) / len(times))
            evaluations.append(judge(LATENCY, max(threshold.latency, min(least, 1.0)), times, _latencies(after)))
        if moved.aim.quantity == "cores":
            evaluations.append(judge(CORES, moved.promise.cpu or 1.0, _cpu(before, tracked), _cpu(after, tracked)))
        if highest := _highest_tps(moved.promise, warm(self._after_move(moved, moved.ended_ms)), until_ms):
            evaluations.append(judge(HIGHEST_RATE, 1.0, [moved.promise.wanted_tps or 0.0] * MIN_WINDOWS, highest))
        evaluated = [EvaluatedMove(moved.decision_ms, topology, evaluation) for evaluation in evaluations]
        self._evaluated.extend(evaluated)
        return evaluated

    def _counting(self, pending: Pending) -> list[Sample]:
        """Return the windows after a move with warm workers."""
        return warm(self._after_move(pending.moved, pending.moved.ended_ms + SETTLE_S * 1000))

    def _after_move(self, moved: MovedTopology, since_ms: float) -> list[Sample]:
        return self._samples(self._observed.since(moved.topology, since_ms), moved.after, moved.ended_ms)

    def _samples(
        self,
        windows: Sequence[EvaluationWindow],
        placement: TopologyAssignment | None,
        resumed_ms: float,
        until_ms: float = float("inf"),
    ) -> list[Sample]:
        """Return complete windows that ended by `until_ms`, from all workers if these are known.

        Workers that started while their topology was paused are as old as the time since `resumed_ms`: before, they
        compiled nothing.
        """
        window_ms = self._observed.window_ms
        slots = None if placement is None else {(slot.supervisor, slot.port) for slot in placement.slots}
        return [
            window.sample(resumed_ms)
            for window in windows
            if window.start_ms + window_ms <= until_ms
            and not window.unknown
            and window.received
            and (slots is None or window.covers(slots, window_ms / 1000))
        ]

    def _save(self) -> None:
        document = {
            "pending": [orjson.Fragment(pending.encoded) for pending in self._pending.values()],
            "evaluated": [asdict(evaluated) for evaluated in self._evaluated],
        }
        self._document.save(orjson.dumps(document).decode())

    def _load(self, text: str) -> None:
        document = orjson.loads(text)
        pending = [Pending.of_dict(raw) for raw in document["pending"]]
        self._pending = {each.moved.topology: each for each in pending}
        self._resumed_ms = {each.moved.topology: each.moved.ended_ms for each in pending}
        self._evaluated.extend(
            EvaluatedMove(raw["decision_ms"], raw["topology"], Evaluation(**raw["evaluation"]))
            for raw in document["evaluated"]
        )


def _crossing(samples: Sequence[Sample], tracked: bool) -> list[float]:
    """Return the crossing tuples per tree of each window, or per tuple if no tree is tracked."""
    per = [(sample.crossing, sample.acked if tracked else sample.received) for sample in samples]
    return [crossing / of for crossing, of in per if of]


def _rates(samples: Sequence[Sample], tracked: bool) -> list[float]:
    """Return trees or tuples per second of each window."""
    return [(sample.acked if tracked else sample.received) / sample.length_s for sample in samples]


def _cpu(samples: Sequence[Sample], tracked: bool) -> list[float]:
    """Return the CPU of a tree or tuple in each window, in seconds of a core."""
    per = [(sample.cores, rate) for sample, rate in zip(samples, _rates(samples, tracked), strict=True)]
    return [cores / rate for cores, rate in per if cores is not None and rate]


def _better(
    aim: TuningAim, before: Sequence[Sample], after: Sequence[Sample], confidence: float
) -> tuple[float | None, float | None]:
    """Return the interval of the multiple by which a topology is better: of its rate, or of its trees for a CPU."""
    tracked = all(sample.acked for sample in before)
    of = _rates if aim.quantity == "throughput" else _cpu
    x, y = (np.array(of(samples, tracked)) for samples in (before, after))
    if aim.quantity == "cores":
        x, y = y, x
    if min(len(x), len(y)) < MIN_WINDOWS:
        return None, None
    return ratio_interval(x, y, 1.0, confidence)


def multiple_of(aim: TuningAim, evaluations: Iterable[Evaluation]) -> Evaluation | None:
    """Return the evaluation by which a trial is better, as a multiple that is better if it is above 1.

    Parameters
    ----------
    aim
        Aim of the trial; less CPU counts as more.
    evaluations
        Evaluations of its topology.

    Returns
    -------
    evaluation
        With its interval; None if nothing was measured.
    """
    quantity = THROUGHPUT if aim.quantity == "throughput" else CORES
    found = next((each for each in evaluations if each.quantity == quantity), None)
    if found is None or not found.measured:
        return None
    if aim.quantity == "throughput":
        return found
    low, high = (1 / each if each else None for each in (found.high, found.low))
    return replace(found, predicted=1 / found.predicted, measured=1 / found.measured, low=low, high=high)


def _beyond_limits(aim: TuningAim, before: Sequence[Sample], after: Sequence[Sample]) -> str:
    """Return which limit of an aim is exceeded after a change; empty for none."""
    rate_tps, wanted_tps = (float(np.mean([each.acked_tps for each in samples])) for samples in (after, before))
    if aim.quantity == "cores" and rate_tps < HELD * min(aim.rate_tps or wanted_tps, wanted_tps):
        return f"its rate is {rate_tps:,.0f} trees/s, and was {wanted_tps:,.0f}"
    return _beyond_latency(aim, after)


def _beyond_latency(aim: TuningAim, after: Sequence[Sample]) -> str:
    """Return which limit of latency is measurably exceeded; empty for none."""
    for name, limit, values in (
        ("mean", aim.latency_ms, [each.latency_ms for each in after]),
        ("99th percentile of the", aim.p99_ms, [each.p99_ms for each in after]),
    ):
        known = np.array([value for value in values if value is not None])
        if limit is None or len(known) < MIN_WINDOWS:
            continue
        error = float(stdtrit(len(known) - 1, (1 + CONFIDENCE) / 2) * known.std(ddof=1) / np.sqrt(len(known)))
        if (found := float(known.mean())) - error > limit:
            return f"its {name} latency is {found:,.1f} ± {error:,.1f} ms, above {limit:,.1f} ms"
    return ""


def _highest_tps(promise: Promise, samples: Sequence[Sample], until_ms: float) -> list[float]:
    """Return the rates of windows in which spouts waited for pending trees."""
    if promise.pending_limit is None or not promise.wanted_tps:
        return []
    known = [each for each in samples if each.pending is not None and each.start_ms < until_ms]
    pending = np.array([each.pending for each in known], np.float64) / promise.pending_limit
    return [
        each.acked_tps for each, waits in zip(known, waiting(pending).tolist(), strict=True) if waits > MORE_PROBABLY
    ]


def _latencies(samples: Sequence[Sample]) -> list[float]:
    return [sample.latency_ms for sample in samples if sample.latency_ms is not None]


def predicted_ratios(problem: Problem, topologies: Sequence[int], after: IntArray) -> list[float | None]:
    """Return predicted traffic between nodes relative to the present one; None if undefined.

    Parameters
    ----------
    topologies
        Indices of the topologies, in the order of the result.
    after
        Slot of every executor of the problem, shape (E,).
    """
    some, now, then = list(topologies), problem.current_slot, after
    if len(some) <= len(problem.topologies) // 2:
        # Of a problem without the others nothing takes longer, however many they are.
        own = np.isin(problem.executor_topology, some)
        now, then, problem = now[own], then[own], _only(problem, sorted(some))
        some = np.argsort(np.argsort(some)).tolist()
    both = (_crossing_tps(problem, slots)[some].tolist() for slots in (now, then))
    return [to / of if of else None for of, to in zip(*both, strict=True)]


def _only(problem: Problem, topologies: Sequence[int]) -> Problem:
    loads = problem.load.topologies if problem.load else {}
    some = tuple(problem.topologies[each] for each in topologies)
    load = LoadProfile({each.id: loads[each.id] for each in some if each.id in loads})
    return replace(problem, topologies=some, current={}, load=load)


def _crossing_tps(problem: Problem, slots: IntArray) -> FloatArray:
    """Return every topology's traffic between nodes in tuples/s, shape (T,)."""
    traffic = traffic_under(problem, slots)
    node = problem.slot_node[slots]
    crosses = np.not_equal(node[traffic.source], node[traffic.target])
    of = problem.executor_topology[traffic.source[crosses]]
    sent_tps: FloatArray = np.bincount(of, traffic.tps[crosses], len(problem.topologies)).astype(np.float64)
    return sent_tps
