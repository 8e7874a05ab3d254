"""Evaluation of every move after enough windows, with state that survives restarts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
import orjson
from scipy.special import stdtrit

from stormwright.base.documents import Document
from stormwright.history.evaluation.verdict import (
    MIN_WINDOWS,
    MIN_WORTH,
    MORE_PROBABLY,
    Evaluation,
    Threshold,
    calibration,
    judge,
    promised_for,
    ratio_interval,
)
from stormwright.history.evaluation.window import (
    SHORTEST_MS,
    EvaluationWindow,
    ObservedTraffic,
    Sample,
    connected,
    of_like_age,
    warm,
)
from stormwright.model import LoadProfile, Problem, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.traffic_matrix import traffic_under
from stormwright.plans.plan import Promise
from stormwright.predict.fixed_point import waiting

# Regressions --------------------------------------------------------------------------------------
# Detection of regressions after a move: pure arithmetic on windows before and after it.

#: Maximum false-alarm probability of a regression.
FALSE_ALARMS = 0.01

#: Numbers of windows after the move at which it is tested, and tests at each of them: both share the false-alarm
#: probability.
LOOKS = (4, 6, 8, 12, 18, 24)
_QUESTIONS = 6

#: By how much the trees completed must have fallen, or their time grown, beyond chance; and in ms.
MIN_LOSS, MIN_DELAY, MIN_DELAY_MS = 0.1, 0.2, 1.0

#: By how much more trees failing, in parts of all that ended.
MIN_FAILING = 0.01

#: Load that is as before, up to this part, and trees under way, which buckets of latency tell less exactly.
SAME_LOAD, UNEXPLAINED = 0.05, 0.2

#: Windows from which it is estimated how far neighbours depend on each other.
_ENOUGH_FOR_DEPENDENCE = 12


def worse(
    before: Sequence[Sample], young: Sequence[Sample], after: Sequence[Sample], threshold: Threshold | None = None
) -> str | None:
    """Return why a topology is measurably worse; None if it is not or that is uncertain.

    A load that falls makes fewer trees, and none of them slower; a placement that is at its limit makes fewer trees
    because each takes longer: with L trees under way, throughput λ and time W each, L = λ W (J. D. C. Little,
    Operations Research 9(3), 1961, https://doi.org/10.1287/opre.9.3.383). So it is worse where

    1. fewer trees complete and each takes longer, so that about as many are under way; or none completes at all;
    2. each takes longer although no more are completed than before;
    3. more of them fail;

    each beyond what was promised, by at least `MIN_LOSS`, `MIN_DELAY` or `MIN_FAILING`, and beyond chance: the
    interval of the ratio of means (`verdict.judge`) lies wholly on the wrong side. Its level is `FALSE_ALARMS` by the
    number of looks and questions, which holds however these depend on each other (Bonferroni). Neighbouring windows do
    depend on each other: variances are those of the number of independent windows that ones with this correlation are
    worth, n (1 − ρ) / (1 + ρ) (G. V. Bayley, J. M. Hammersley, JRSS Supplement 8(2), 1946,
    https://doi.org/10.2307/2983560), ρ being estimated without bias (F. H. C. Marriott, J. A. Pope, Biometrika 41(3–4),
    1954, https://doi.org/10.1093/biomet/41.3-4.390).

    JVMs that warm up are compared with such only: warm windows with warm ones; and those of young workers with what the
    old ones did when they were as young, if these, once warm, were no slower. Time in which a move paused the topology
    is no part of an age.

    Parameters
    ----------
    before
        Windows right before the move, oldest first.
    young
        Those of the time after the workers before it had started.
    after
        Windows after it; each look takes the first n.
    threshold
        Promised throughput and latency, relative to before; unchanged by default.
    """
    threshold = threshold or Threshold()
    early, now = of_like_age(connected(young), _at_latest_look(connected(after)))
    settled, recent = warm(before), _at_latest_look(warm(after))
    if _harder(early, settled):
        early = []
    for one, other in ((settled, recent), (early, now)):
        if other and len(one) >= MIN_WINDOWS and (found := _compared(one, other, threshold)):
            return found
    return None


def _at_latest_look(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples that the latest of `LOOKS` tests, so that each look is one test; empty before the first."""
    return samples[: max((look for look in LOOKS if look <= len(samples)), default=0)]


def _harder(early: Sequence[Sample], later: Sequence[Sample]) -> bool:
    """Return whether old workers performed worse once warm, so that their young windows are no reference."""
    times = [[sample.latency_ms for sample in samples if sample.latency_ms is not None] for samples in (early, later)]
    if not all(times):
        return bool(later)
    return float(np.mean(times[1])) > (1 + SAME_LOAD) * float(np.mean(times[0]))


def _compared(before: Sequence[Sample], after: Sequence[Sample], threshold: Threshold) -> str | None:
    """Return the result of one comparison at one check."""
    level = 1 - 2 * FALSE_ALARMS / (len(LOOKS) * _QUESTIONS)

    def limits(of: Callable[[Sample], float | None], ratio: float) -> _Ratio | None:
        x, y = ([value for s in samples if (value := of(s)) is not None] for samples in (before, after))
        return _ratio(np.array(x), np.array(y), ratio, level)

    rate = limits(lambda sample: sample.acked_tps, threshold.throughput)
    delay = limits(lambda sample: sample.latency_ms, threshold.latency)
    if rate is None:
        return None
    if rate.high < min(threshold.throughput, 1) * (1 - MIN_LOSS):  # 1
        if delay is None and all(sample.acked == 0 and bool(sample.pending) for sample in after):
            return "no tuple tree completes any more"
        if delay is not None and delay.low > 1 and delay.value * rate.value > 1 - UNEXPLAINED:
            return f"{_percent(rate.value)} fewer tuple trees complete, and each takes {_percent(delay.value)} longer"
    late = delay is not None and delay.low > max(threshold.latency, 1) * (1 + MIN_DELAY) and delay.more >= MIN_DELAY_MS
    if delay is not None and late and rate.value <= 1 + SAME_LOAD:  # 2
        fewer = rate.value < 1 - SAME_LOAD
        but = f"and {_percent(rate.value)} fewer complete" if fewer else "although no more of them come"
        return f"tuple trees take {_percent(delay.value)} longer, {delay.more:,.0f} ms, {but}"
    failing = _more_fail(before, after, level)
    if failing:  # 3
        return f"{failing:.0%} of all tuple trees fail"
    return None


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Ratio of means after and before, with its interval; `more` is their difference."""

    value: float
    low: float
    high: float
    more: float


def _ratio(before: FloatArray, after: FloatArray, ratio: float, level: float) -> _Ratio | None:
    if min(len(before), len(after)) < MIN_WINDOWS or not before.mean():
        return None
    low, high = ratio_interval(before, after, ratio, level, _inflation(before))
    if low is None or high is None:
        return None
    return _Ratio(float(after.mean() / before.mean()), low, high, float(after.mean() - before.mean()))


def _more_fail(before: Sequence[Sample], after: Sequence[Sample], level: float) -> float | None:
    """Return the fraction of failing trees if it is significantly higher than before."""
    x, y = (np.array([s.failed / (s.acked + s.failed) for s in each if s.acked + s.failed]) for each in (before, after))
    if min(len(x), len(y)) < MIN_WINDOWS:
        return None
    worth = np.array([len(x), len(y)]) / _inflation(x)
    if worth.min() < MIN_WORTH:
        return None
    error = sqrt(float(x.var(ddof=1)) / worth[0] + float(y.var(ddof=1)) / worth[1])
    t = float(stdtrit(worth.min() - 1, (1 + level) / 2))
    return float(y.mean()) if y.mean() - x.mean() - t * error > MIN_FAILING else None


def _inflation(values: FloatArray) -> float:
    """Return the variance inflation due to autocorrelation."""
    off = values - values.mean()
    total = float(off @ off)
    if len(values) < _ENOUGH_FOR_DEPENDENCE or not total:
        return 1.0
    correlation = max(float(off[1:] @ off[:-1]) / total, 0.0)
    # From few windows it is estimated too low, by (1 + 3 ρ) / n.
    alike = min(correlation + (1 + 3 * correlation) / len(values), 0.95) if correlation else 0.0
    return (1 + alike) / (1 - alike)


def _percent(ratio: float) -> str:
    return f"{abs(ratio - 1):.0%}"


# Pending evaluations ------------------------------------------------------------------------------
# Moves not evaluated yet, with observations from before them; persistent, so that a restart loses none.


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
        for name in ("before", "after"):
            moved[name] = _placement(moved[name])
        before, young = (tuple(Sample(**sample) for sample in raw[name]) for name in ("before", "young"))
        return cls(MovedTopology(**moved), before, young, raw["worse"])


def _placement(raw: Mapping[str, Any] | None) -> TopologyAssignment | None:
    if raw is None:
        return None
    return TopologyAssignment(tuple(WorkerSlot(*slot) for slot in raw["slots"]), tuple(raw["slot_of_executor"]))


# Moves --------------------------------------------------------------------------------------------

#: Evaluated quantities. The first is tuples between nodes for each tuple tree, or for each tuple processed where no
#: tree is tracked: so a load that grows or falls meanwhile changes nothing. The second one is trees or tuples per
#: second, the third is how long a tree takes. The fourth is relative to its prediction, not to what was before: the
#: rate while spouts wait for pending trees, as while a topology works off what waited during its pause.
INTER_NODE, THROUGHPUT, LATENCY = "inter-node tuples per tree", "throughput", "complete latency"
HIGHEST_RATE = "highest rate, of the predicted one"

#: Seconds looked at on either side, at most.
BEFORE_S, AFTER_S = 240.0, 120.0

#: Seconds after a move that are left out: caches and compilers warm up.
SETTLE_S = 20.0

#: Seconds after which a move is evaluated with the data available.
PATIENCE_S = 3600.0

#: Maximum number of evaluations used for calibration.
MAX_EVALUATED = 100


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
            if pending.worse is None and (len(self._counting(pending)) >= self._after or waited_s > PATIENCE_S):
                found += self._evaluate(topology)
        if found:
            self._save()
        return found

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
        # From the first second on: young workers are compared with what the old ones did at that age.
        after = self._after_move(pending.moved, pending.moved.ended_ms)
        before = warm(pending.before) or pending.before
        return worse(pending.before, pending.young, after, promised_for(pending.moved.promise, before))

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
