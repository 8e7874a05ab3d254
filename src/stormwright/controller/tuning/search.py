"""The next trial of a tuning: the changes of highest expected improvement.

Each knob is predicted by the model on its own. Those that promise most are put together, as long as the expected
improvement rises (D. R. Jones, M. Schonlau, W. J. Welch, Efficient Global Optimization of Expensive Black-Box
Functions, Journal of Global Optimization 13, 1998, https://doi.org/10.1023/A:1008306431147), and predicted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, inf, isfinite, log, sqrt, tau
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from stormwright.controller.objectives.outlook import THROUGHPUT
from stormwright.controller.propose import Proposals, propose
from stormwright.controller.reconfigure import by_tasks, reconfigured
from stormwright.controller.requests import NoPlan, Place, PlanInputs
from stormwright.controller.tuning.effects import Effects, LogEffect, features_of
from stormwright.controller.tuning.knobs import ConfigChange, changes_of
from stormwright.controller.tuning.polls import PollingCost
from stormwright.errors import Fault, InputError
from stormwright.history.evaluation.verdict import MORE_PROBABLY
from stormwright.model import UNPLACED, Problem, Scheduler, TopologyAssignment
from stormwright.model.answer import name_slots
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.plans.figures import Range
from stormwright.plans.plan import Plan, Promise
from stormwright.plans.tuning import TuningAim
from stormwright.predict.fixed_point import waiting
from stormwright.predict.flow.layout import FlowLayout

#: Changes that one trial puts together, at most.
MAX_TOGETHER = 4

#: Rise of the logarithm of the expected multiple for which another change is put into a trial.
_RISES = 0.01

#: Logarithm of a multiple that a trial can tell from none, and seconds for which it is measured.
_MEASURABLE, _MEASURED_S = 0.05, 100.0

#: Seconds within which a change has to pay for its pauses.
PAYS_WITHIN_S = 3600.0

#: Seconds of a pause of which nothing is known.
_USUAL_PAUSE_S = 15.0

#: Part of the reachable rate, and of the CPU of a node, from which a topology may be at its limit.
_HALF = 0.5

#: Standard errors of an interval with 95 % confidence.
_Z = 1.96


class Latency(NamedTuple):
    """Complete latency as measured now: mean and 99th percentile in ms; None if unknown."""

    mean_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True)
class TrialInputs:
    """Inputs of the search besides the problem.

    Parameters
    ----------
    plan
        Schedulers and limits of plans.
    scheduler
        Places the topology again, around all others.
    effects
        Effects of changes beyond the model.
    tried
        Changes that were tried, against the configuration of now.
    latency
        Latency as measured now.
    max_pause_s
        Seconds for which the trial may pause its topology.
    """

    plan: PlanInputs
    scheduler: Scheduler
    effects: Effects
    tried: Sequence[ConfigChange] = ()
    latency: Latency = field(default_factory=Latency)
    max_pause_s: float = inf


@dataclass(frozen=True)
class Candidate:
    """A change that can be tried.

    Parameters
    ----------
    change, plan, features
        The change, its plan, and its features.
    modelled
        Logarithm of the multiple of the aim's quantity that the model predicts; less CPU counts as more.
    expected
        The same with the effects beyond the model.
    latency
        Logarithm of the expected multiple of the mean latency.
    improvement
        Expected improvement as a fraction, with the probability that the limits of latency hold.
    full
        Probability that the topology is at its limit, so that a higher one shows.
    """

    change: ConfigChange
    plan: Plan
    features: Mapping[str, float]
    modelled: float
    expected: LogEffect
    latency: float
    improvement: float
    full: float

    def promise(self, topology: str, aim: TuningAim) -> Promise:
        """Return the promise of the plan to its topology (id), with the effects beyond the model."""
        promise, multiple = self.plan.promises[topology], exp(self.expected.mean)
        return (
            replace(promise, sustained=multiple) if aim.quantity == "throughput" else replace(promise, cpu=1 / multiple)
        )

    @property
    def range(self) -> Range:
        """The expected multiple with its interval."""
        mean, sd = self.expected
        return Range(value=exp(mean), low=exp(mean - _Z * sd), high=exp(mean + _Z * sd))


def next_trial(problem: Problem, topology: str, aim: TuningAim, inputs: TrialInputs) -> Candidate | NoPlan:
    """Return the next trial, or why none is worth it.

    Parameters
    ----------
    problem
        Current problem under the newest load.
    topology
        Id of the topology.
    aim
        Aim of its configuration.
    inputs
        Schedulers, effects, earlier trials and measured latency.

    Raises
    ------
    InputError
        There is no such topology.
    """
    if topology not in problem.topology_index:
        raise InputError("tuning", [Fault("no such topology", topology)])
    index = problem.topology_index[topology]
    search = TrialSearch(problem, index, aim, inputs)
    if problem.load is None or topology not in problem.load.topologies:
        return NoPlan("unmeasured", "it is not measured yet")
    singles = list(search.candidates(changes_of(problem, index)))
    if not singles and search.too_slow:
        return NoPlan("impossible", f"no change is predicted to reach {aim.rate_tps:,.0f} trees/s")
    if not singles:
        return NoPlan("nothing_to_do", "no further change is left to try")
    best = search.combined(singles)
    described = propose(problem, search.request(best.change), inputs.plan)
    if isinstance(described, NoPlan):
        return described
    return _worth(replace(best, plan=described), inputs.max_pause_s)


def _worth(best: Candidate, max_pause_s: float) -> Candidate | NoPlan:
    """Return a candidate if it is worth its pauses, a second one if it is taken back, and the loss until then."""
    if best.full < MORE_PROBABLY and best.improvement * PAYS_WITHIN_S <= _USUAL_PAUSE_S:
        return NoPlan("nothing_to_do", "it handles all that comes, so no configuration has it handle more")
    (mean, sd), pause_s = best.expected, max(best.plan.pauses_s[:1], default=_USUAL_PAUSE_S)
    pauses_s, lost = pause_s * (1 + float(ndtr(-mean / sd))), _beyond(LogEffect(-mean, sd))
    if pauses_s > max_pause_s:
        return NoPlan(
            "small_gain", f"the next trial would pause it for {pauses_s:.0f} s, and {max_pause_s:.0f} s are left"
        )
    if best.improvement * PAYS_WITHIN_S > pauses_s + lost * _MEASURED_S:
        return best
    text = f"the next trial promises {100 * best.improvement:.2g} % more"
    cost = f"its pauses of {pauses_s:.0f} s, and a loss until it is taken back, cost"
    return NoPlan("small_gain", f"{text}, less than {cost} within {PAYS_WITHIN_S / 60:.0f} minutes")


def _beyond(effect: LogEffect, least: float = 0.0) -> float:
    """Return the expectation of an effect where it is above `least`, and of 0 elsewhere."""
    mean, sd = effect
    z = (mean - least) / sd
    return mean * float(ndtr(z)) + sd * exp(-z * z / 2) / sqrt(tau)


class TrialSearch:
    """Search for the next trial of one topology.

    Parameters
    ----------
    problem
        Current problem under the newest load.
    index
        Index of the topology.
    aim
        Aim of its configuration.
    inputs
        As for `next_trial`, of which this is the search.
    """

    def __init__(self, problem: Problem, index: int, aim: TuningAim, inputs: TrialInputs) -> None:
        self._problem, self._index, self._aim, self._inputs = problem, index, aim, inputs
        self._topology = problem.topologies[index]
        self._polls = PollingCost(problem, index)
        self._proposals = Proposals(problem, (THROUGHPUT,), replace(inputs.plan, sources=None))
        #: Number of candidates that are predicted to come to less than the minimum rate of the aim.
        self.too_slow = 0

    @cached_property
    def _pending(self) -> float:
        """Probability that spouts wait for pending trees."""
        load, limit = self._problem.load, FlowLayout.of(self._problem).pending[self._index]
        pending = load.topologies[self._topology.id].pending_trees if load else None
        return float(waiting(np.array(pending.sum() / limit))) if pending is not None and isfinite(limit) else 0.0

    @cached_property
    def _busiest(self) -> float:
        """CPU of the fullest node that it runs on, as a fraction of its capacity, as measured."""
        problem = self._problem
        used_hz = problem.load.node_cpu_hz if problem.load else {}
        slots = problem.current_slot[problem.executors_of(self._index)]
        nodes = [problem.supervisors[node] for node in np.unique(problem.slot_node[slots[slots != UNPLACED]]).tolist()]
        return max((used_hz.get(node.id, 0.0) / node.cpu_hz for node in nodes if node.cpu_hz), default=0.0)

    def _full(self, promise: Promise) -> float:
        """Return the probability that the topology is at its limit: by its pending trees, rate, or CPU."""
        if self._aim.quantity == "cores":
            return 1.0
        rate = promise.rate_tps / promise.sustained_tps if promise.sustained_tps else 0.0
        parts = [min(max((each - _HALF) / _HALF, 0.0), 1.0) for each in (rate, self._busiest)]
        return max(self._pending, *parts)

    def candidates(self, changes: Sequence[ConfigChange]) -> Iterator[Candidate]:
        """Yield changes that are allowed, were not tried, and can be predicted."""
        for change in changes:
            tried = (each.of(self._topology) for each in self._inputs.tried)
            if any(each == change for each in tried):
                continue
            if (found := self._candidate(change)) is not None:
                yield found

    def combined(self, singles: Sequence[Candidate]) -> Candidate:
        """Return the best candidate, one or several changes together."""
        best = max(singles, key=lambda each: each.improvement)
        for _ in range(MAX_TOGETHER - 1):
            # The best few by the sum of what each is expected to bring are predicted together.
            others = self._beside(best, singles)
            # One that is only less certain would be as good a trial later, and tell more on its own.
            together = self.candidates([best.change & each.change for each in others])
            better = [each for each in together if each.expected.mean > best.expected.mean + _RISES]
            more = max(better, key=lambda each: each.improvement, default=best)
            if more.improvement <= best.improvement:
                break
            best = more
        return best

    def _beside(self, best: Candidate, singles: Sequence[Candidate]) -> list[Candidate]:
        apart = [each for each in singles if not each.change.overlaps(best.change)]
        return sorted(apart, key=lambda each: -self._together(best, each))[:3]

    def request(self, change: ConfigChange) -> Place:
        """Return the request for a change."""
        topology = self._topology.id
        executors = {topology: change.executors} if change.executors else {}
        conf = {topology: change.conf} if change.conf else {}
        placed = {topology: self._placement(change)} if change.placed or change.executors else {}
        return Place(placed, executors, conf, origin="person", goals=(THROUGHPUT,))

    def _placement(self, change: ConfigChange) -> TopologyAssignment:
        """Return the placement of a change with other executors, or of one that is placed again.

        Raises
        ------
        InputError
            There is no room for it.
        """
        topology = self._topology.id
        then = reconfigured(self._problem, {topology: change.executors}, {})
        if not change.placed:
            return by_tasks(self._topology, then.topologies[self._index], self._problem.current[topology])
        slots = self._inputs.scheduler.schedule(then).slot_of_executor[then.executors_of(self._index)]
        if (slots == UNPLACED).any():
            raise InputError("tuning", [Fault("there is no room for it", topology)])
        return name_slots(then, slots)

    def _together(self, one: Candidate, other: Candidate) -> float:
        """Return the expected improvement by two changes as if neither changed the effect of the other."""
        expected = LogEffect(one.expected.mean + other.expected.mean, one.expected.sd)
        return self._improvement(expected, {**one.features, **other.features}, one.latency + other.latency)

    def _candidate(self, change: ConfigChange) -> Candidate | None:
        try:
            plan = self._proposals.of(self.request(change))
        except InputError:  # workers would end with it, or there is no room
            return None
        if isinstance(plan, NoPlan):
            return None
        if (promise := plan.promises.get(self._topology.id)) is None:
            return None
        multiple = promise.sustained if self._aim.quantity == "throughput" else promise.cpu and 1 / promise.cpu
        if not multiple or not isfinite(multiple):
            return None
        multiple *= self._polls.gain(change)
        if self._aim.rate_tps and promise.wanted_tps is not None and promise.wanted_tps < self._aim.rate_tps:
            self.too_slow += 1
            return None
        features = features_of(self._topology, change, self._problem.conf)
        if change.placed:
            features["placed"] = abs(log(multiple))
        beyond = self._inputs.effects.of(features)
        expected = LogEffect(log(multiple) + beyond.mean, beyond.sd)
        latency = self._latency(features, expected, promise)
        full = self._full(promise)
        improvement = full * self._improvement(expected, features, latency)
        return Candidate(change, plan, features, log(multiple), expected, latency, improvement, full)

    @cached_property
    def _by_pending(self) -> bool:
        """Whether the number of pending trees limits the rate, so that the latency follows from it."""
        conf = {**self._problem.conf, **self._topology.conf}
        return self._aim.quantity == "throughput" and bool(conf.get(MAX_SPOUT_PENDING))

    def _latency(self, features: Mapping[str, float], expected: LogEffect, promise: Promise) -> float:
        """Return the logarithm of the expected multiple of the mean latency.

        At a limit of pending trees that is reached it follows from Little's law (doi:10.1287/opre.9.3.383).
        """
        if self._by_pending:
            return features.get("pending", 0.0) - expected.mean
        multiple = promise.full_latency if self._aim.quantity == "throughput" else promise.latency
        return log(multiple) if multiple else 0.0

    def _improvement(self, expected: LogEffect, features: Mapping[str, float], latency: float) -> float:
        """Return the expected improvement of a logarithm over none, as far as limits of latency hold.

        At a limit of pending trees the latency falls as the rate rises, so a limit is one of the least improvement;
        else it holds with a probability.
        """
        now, aim = self._inputs.latency, self._aim
        room = min(
            (
                log(limit / measured)
                for limit, measured in ((aim.latency_ms, now.mean_ms), (aim.p99_ms, now.p99_ms))
                if limit and measured
            ),
            default=inf,
        )
        least = max(features.get("pending", 0.0) - room, _MEASURABLE) if self._by_pending else _MEASURABLE
        improvement = _beyond(expected, least)
        return improvement if self._by_pending else improvement * float(ndtr((room - latency) / expected.sd))
