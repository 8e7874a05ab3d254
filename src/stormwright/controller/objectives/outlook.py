"""Predicted gain of a placement over the current one, by objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, inf, isfinite, log

import numpy as np

from stormwright.controller.objectives.gains import gain_in, inter_node_tps, nodes_used
from stormwright.controller.objectives.placements import TOLERANCE, Placements
from stormwright.history.evaluation.moves import predicted_ratios
from stormwright.model import UNPLACED, Cost, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import listed, readable
from stormwright.plans.plan import Promise
from stormwright.predict.answer import Assumptions
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.gain import ONE_SIDED, RateGain, rate_gain, together
from stormwright.predict.prediction import TopologyPrediction
from stormwright.predict.workers import nodes_of

#: Objectives: the highest rate; the lowest latency of a tuple tree at the measured rate; the fewest nodes that sustain
#: the measured rates; the least CPU for a tuple tree at those rates; or, as in the papers, the least traffic between
#: nodes.
THROUGHPUT, LATENCY, NODES, BALANCED, TRAFFIC = OBJECTIVES = ("throughput", "latency", "nodes", "balanced", "traffic")

#: Default minimum gain of a move in percent: of traffic as in the paper, else a little more than the error of
#: predictions.
_MIN_TRAFFIC_PERCENT, _MIN_PERCENT = 20.0, 10.0

#: Cap of a rate as a multiple of the measured one; for a topology above the geometric mean weight, the cap grows with
#: its weight.
ENOUGH = 2.0

#: Minimum rise of reachable throughput in percent, at the lower end of its interval, for which topologies move.
SURE_PERCENT = 2.0

#: Part of the measured CPU that the model has to explain for a decision to rest on it.
_EXPLAINED = (0.7, 1.4)

#: Part of a node's CPU beyond which no text says that there is room; no decision depends on it.
_MOSTLY = 0.8

#: Minimum CPU of a tuple tree in µs, to avoid a division by zero.
_TINY = 1e-9

#: Latency of trees if no rate is sustained.
_ENDLESS_MS = 1e9

#: Predictions of topologies under the current and under a new placement.
_Pairs = list[tuple[TopologyPrediction, TopologyPrediction]]


@dataclass(frozen=True)
class Outlook:
    """A placement compared with the current one.

    Parameters
    ----------
    gain_percent
        Gain in percent; negative if worse, -inf if invalid.
    gained, text
        Description, such as ``reachable throughput rises by 45 %``, and the figures behind it.
    worth
        Worth of the placement by topology id, higher is better; for running topologies with a measured load.
    promises
        Promise by topology id.
    at_least_percent, at_most_percent
        Ends of the interval of the gain; None for objectives without one.
    has_room
        Whether every topology already reaches so much more than its measured rate that no rate can gain.
    explained
        Part of the CPU of topologies that the model explains: of the one for which it is furthest from all.
    less
        Why the figures of `text` are discounted; empty if they are not.
    """

    gain_percent: float
    gained: str
    text: str
    worth: Mapping[str, float] = field(default_factory=dict)
    promises: Mapping[str, Promise] = field(default_factory=dict)
    less: str = ""
    at_least_percent: float | None = None
    at_most_percent: float | None = None
    has_room: bool = False
    explained: float = 1.0

    @property
    def is_explained(self) -> bool:
        """Return whether the model explains enough of the measured CPU for a decision to rest on it."""
        low, high = _EXPLAINED
        return low <= self.explained <= high

    @property
    def interval(self) -> str:
        """The gain as an interval of multiples, for people; empty without one."""
        if self.at_least_percent is None or self.at_most_percent is None:
            return ""
        return f"between ×{1 + self.at_least_percent / 100:.2g} and ×{1 + self.at_most_percent / 100:.2g}"

    @property
    def is_sure(self) -> bool:
        """Return whether the gain exceeds the errors of predictions."""
        return self.at_least_percent is None or self.at_least_percent >= SURE_PERCENT


class Outlooks:
    """Comparison of placements with the current one.

    Parameters
    ----------
    problem
        Current problem with the newest load; topologies without a measured load are ignored.
    objective
        Quantity by which placements are compared, one of `OBJECTIVES`.
    assumptions
        What predictions take for given; None for their own defaults.
    gains
        With objective traffic, alternative quantities to gain, as in `Adaptation`.
    placements
        Shared cache for comparisons by several objectives; None for a private one.
    """

    def __init__(
        self,
        problem: Problem,
        objective: str,
        assumptions: Assumptions | None = None,
        gains: tuple[str, ...] = (TRAFFIC,),
        placements: Placements | None = None,
    ) -> None:
        self._problem, self._objective, self._gains = problem, objective, gains or (TRAFFIC,)
        self.placements = placements or Placements(problem, assumptions)

    @property
    def cost(self) -> Cost:
        """Cost of the current placement."""
        return self.placements.cost(self._problem.current_slot)

    @property
    def rate_tps(self) -> dict[str, float]:
        """Measured trees/s per topology id."""
        return self.placements.rate_tps

    @cached_property
    def _weight(self) -> dict[str, float]:
        """Fairness weight per topology id."""
        given = self.placements.assumptions
        custom = given.weights if given else {}
        both = zip(self._problem.topologies, weights_of(self._problem).tolist(), strict=True)
        return {topology.id: custom.get(topology.id, own) for topology, own in both}

    @property
    def can_gain(self) -> bool:
        """Return whether any placement could be better."""
        runs = bool((self._problem.current_slot != UNPLACED).any())
        return runs and (self._objective != TRAFFIC or self._gains != (TRAFFIC,) or inter_node_tps(self.cost) > 0)

    def of(self, slot_of_executor: IntArray) -> Outlook:
        """Return the outlook of a placement, shape (E,)."""
        if self._objective == TRAFFIC:
            return self._of_traffic(slot_of_executor, [])
        pairs = self._pairs(slot_of_executor) if self.placements.profile else []
        return self._of_pairs(slot_of_executor, pairs) if pairs else Outlook(0.0, "", "no tuple tree was measured")

    def promises(self, slot_of_executor: IntArray, topologies: Mapping[str, int]) -> dict[str, Promise]:
        """Return the promises of a placement per id, for topologies given by index."""
        ratios = predicted_ratios(self._problem, list(topologies.values()), slot_of_executor)
        found = {topology: Promise(ratio) for topology, ratio in zip(topologies, ratios, strict=True)}
        if self.placements.profile is None or not topologies:
            return found
        limits, pairs = FlowLayout.of(self._problem).pending, self._pairs(slot_of_executor)
        worth = self._of_pairs(slot_of_executor, pairs).worth if pairs else {}
        for now, new in pairs:
            if new.topology in topologies:
                limit = float(limits[topologies[new.topology]])
                promise = _promise(now, new, limit)
                inter_node = found[new.topology].inter_node
                found[new.topology] = replace(promise, inter_node=inter_node, worth=worth.get(new.topology))
        return found

    def of_resized(self, then: Placements, slot_of_executor: IntArray) -> tuple[str, dict[str, Promise]]:
        """Return the gain of other numbers of executors as text, and the promises by topology id.

        Parameters
        ----------
        then
            The problem with other numbers of executors.
        slot_of_executor
            Their placement, shape (E,) of that problem.
        """
        if not (pairs := self._pairs(slot_of_executor, then)):
            return "no tuple tree was measured", {}
        limits, index = FlowLayout.of(self._problem).pending, self._problem.topology_index
        promises = {now.topology: _promise(now, new, float(limits[index[now.topology]])) for now, new in pairs}
        return self._of_throughput(slot_of_executor, pairs).text, promises

    def _pairs(self, slot_of_executor: IntArray, then: Placements | None = None) -> _Pairs:
        """Return the current and the new prediction of each running topology with a measured load."""
        now = self.placements.predicted(self._problem.current_slot)
        new = (then or self.placements).predicted(slot_of_executor)
        both = zip(now.topologies, new.topologies, strict=True)
        return [(one, other) for one, other in both if one.measured_tps > 0 and one.reachable_tps.value > 0]

    def _of_pairs(self, slots: IntArray, pairs: _Pairs) -> Outlook:
        """Return the outlook on a non-empty set of predictions."""
        kinds = {
            THROUGHPUT: self._of_throughput,
            LATENCY: self._of_latency,
            NODES: self._of_nodes,
            BALANCED: self._of_balanced,
            TRAFFIC: self._of_traffic,
        }
        return kinds[self._objective](slots, pairs)

    def _of_throughput(self, _: IntArray, pairs: _Pairs) -> Outlook:
        weight = [self._weight[now.topology] for now, _ in pairs]
        usual = exp(sum(map(log, weight)) / len(weight))
        enough = [ENOUGH * max(each / usual, 1.0) for each in weight]
        gains = [rate_gain(*pair, shared=len(pairs) > 1) for pair in pairs]
        capped = [_capped(now, gain, most) for (now, _), gain, most in zip(pairs, gains, enough, strict=True)]
        whole = together([gain for gain, _ in capped], weight)
        now, new = (sum(pair[side].reachable_tps.value for pair in pairs) for side in (0, 1))
        several = len(pairs) > 1
        text = f"reachable throughput {readable(now)} → {readable(new)} trees/s{' of all together' * several}"
        worth = {new.topology: new.reachable_tps.value for _, new in pairs}
        is_capped = any(cut for _, cut in capped)
        less = "a rate above twice the measured one counts for no more" if is_capped and new > now else ""
        has_room = not self._is_a_node_full and all(
            now.reachable_tps.value >= most * now.measured_tps for (now, _), most in zip(pairs, enough, strict=True)
        )
        percent, at_least, at_most = (100 * (each - 1) for each in (whole.value, whole.at_least, whole.high))
        gained = f"reachable throughput rises by {percent:.0f} %{' or more' * is_capped}{' per topology' * several}"
        explained = max((1 / now.scale for now, _ in pairs), key=lambda part: abs(log(part)))
        return Outlook(
            percent,
            gained,
            text,
            worth,
            less=less,
            at_least_percent=at_least,
            at_most_percent=at_most,
            has_room=has_room,
            explained=explained,
        )

    @cached_property
    def _is_a_node_full(self) -> bool:
        """Whether a node with executors uses most of its CPU as measured, whatever is predicted of it."""
        problem = self._problem
        used_hz = problem.load.node_cpu_hz if problem.load else {}
        cores = nodes_of(problem)
        nodes = np.unique(problem.slot_node[problem.current_slot[problem.current_slot != UNPLACED]])
        capacity_hz = (cores.cores * cores.core_hz)[nodes]
        used = np.array([used_hz.get(problem.supervisors[node].id, 0.0) for node in nodes.tolist()])
        return bool(np.any(used > _MOSTLY * capacity_hz))

    def _of_latency(self, _: IntArray, pairs: _Pairs) -> Outlook:
        gain = _gain([(1 / _latency_ms(now), 1 / _latency_ms(new)) for now, new in pairs], [1.0] * len(pairs))
        now, new = (sum(_latency_ms(pair[side]) for pair in pairs) / len(pairs) for side in (0, 1))
        text = f"predicted latency {readable(now)} → {readable(new)} ms"
        worth = {new.topology: -_latency_ms(new) for _, new in pairs}
        return Outlook(100 - 100 / (1 + gain / 100), f"predicted latency falls to {readable(new)} ms", text, worth)

    def _of_nodes(self, slots: IntArray, pairs: _Pairs) -> Outlook:
        gain = gain_in(NODES, self._problem, slots)
        index = self._problem.topology_index
        own = {new.topology: slots[self._problem.executors_of(index[new.topology])] for _, new in pairs}
        worth = {topology: -float(nodes_used(self._problem, its)) for topology, its in own.items()}
        if short := _not_held(pairs):
            return Outlook(
                -inf, "", f"{gain.text}, which would not surely sustain the rate of {self._listed(short)}", worth
            )
        return Outlook(gain.percent, gain.gained, gain.text, worth)

    def _of_balanced(self, _: IntArray, pairs: _Pairs) -> Outlook:
        gain = _gain(
            [(1 / max(now.cpu_us, _TINY), 1 / max(new.cpu_us, _TINY)) for now, new in pairs], [1.0] * len(pairs)
        )
        rate = sum(now.measured_tps for now, _ in pairs)
        now_us, new_us = (sum(pair[side].cpu_us * pair[0].measured_tps for pair in pairs) / rate for side in (0, 1))
        text = f"CPU of a tuple tree {readable(now_us)} → {readable(new_us)} µs"
        worth = {new.topology: -new.cpu_us for _, new in pairs}
        if short := _not_held(pairs):
            return Outlook(-inf, "", f"{text}, which would not surely sustain the rate of {self._listed(short)}", worth)
        percent = 100 - 100 / (1 + gain / 100)
        return Outlook(percent, f"CPU of a tuple tree falls by {percent:.0f} %", text, worth)

    def _listed(self, topologies: Sequence[str]) -> str:
        index = self._problem.topology_index
        return listed([self._problem.topologies[index[each]].name for each in topologies])

    def _of_traffic(self, slots: IntArray, _: _Pairs) -> Outlook:
        found = [gain_in(kind, self._problem, slots) for kind in self._gains]
        best = max(found, key=lambda gain: gain.percent)
        return Outlook(best.percent, best.gained, ", ".join(gain.text for gain in found))


def least_gain_percent(objective: str) -> float:
    """Return the default minimum gain of a move."""
    return _MIN_TRAFFIC_PERCENT if objective == TRAFFIC else _MIN_PERCENT


def _capped(now: TopologyPrediction, gain: RateGain, most: float) -> tuple[RateGain, bool]:
    """Return a gain with rates capped at `most` times the measured one, and whether any rate was capped."""
    enough_tps, rate_tps = most * now.measured_tps, now.reachable_tps.value
    if max(rate_tps, rate_tps * gain.value) <= enough_tps:
        return gain, False
    return gain.capped(rate_tps, enough_tps), True


def _latency_ms(predicted: TopologyPrediction) -> float:
    """Return the latency at the measured rate, else at the sustained rate, else that of an unused topology."""
    interval = predicted.latency_ms or predicted.pending_latency_ms
    return min(interval.value, _ENDLESS_MS) if interval else _ENDLESS_MS


def _not_held(pairs: _Pairs) -> list[str]:
    """Return topologies (ids) whose measured rate a placement is predicted not to sustain."""
    return [new.topology for now, new in pairs if not _holds(now, new, shared=len(pairs) > 1)]


def _holds(now: TopologyPrediction, new: TopologyPrediction, *, shared: bool) -> bool:
    """Return whether a placement sustains the measured (or currently predicted) rate at the lower end of its interval.

    A topology that neither moves nor loses a thousandth of its rate does so, too.
    """
    gain = rate_gain(now, new, shared=shared)
    if now.cpu_us == new.cpu_us and gain.predicted >= 1 - TOLERANCE:
        return True
    at_least_tps = new.reachable_tps.value * exp(-ONE_SIDED * gain.sd)
    return at_least_tps >= min(now.measured_tps, now.reachable_tps.value)


def _gain(pairs: list[tuple[float, ...]], weights: list[float]) -> float:
    """Return the weighted geometric mean gain of the second figures over the first, in percent."""
    if any(new <= 0 for _, new in pairs):
        return -inf
    logs = (weight * log(new / old) for weight, (old, new) in zip(weights, pairs, strict=True))
    return 100 * (exp(sum(logs) / sum(weights)) - 1)


def _promise(now: TopologyPrediction, new: TopologyPrediction, pending_limit: float) -> Promise:
    def ratio(of: float | None, to: float | None) -> float | None:
        return of / to if of and to and isfinite(of) and isfinite(to) else None

    def value(name: str, of: TopologyPrediction) -> float | None:
        interval = getattr(of, name)
        return None if interval is None else interval.value

    reach, wanted = now.reachable_tps.value, new.reachable_tps.value
    return Promise(
        sustained=ratio(wanted, reach),
        latency=ratio(value("latency_ms", new), value("latency_ms", now)),
        full_latency=ratio(value("pending_latency_ms", new), value("pending_latency_ms", now)),
        pending_limit=pending_limit if isfinite(pending_limit) else None,
        sustained_tps=reach if isfinite(reach) else None,
        wanted_tps=wanted if isfinite(wanted) else None,
        rate_tps=now.measured_tps,
        cpu=ratio(now.cpu_us, new.cpu_us),
    )
