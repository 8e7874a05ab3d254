"""Predictive adviser: adds at once, removes late, and reports useless additions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stormwright.advise.adviser import Observation, TargetSize
from stormwright.advise.search.cheapest import CheapestSearch
from stormwright.advise.search.evaluation import EvaluatedPlacement
from stormwright.advise.search.goals import AdviceGoals
from stormwright.advise.search.kinds import NodeKind, NodeMix, kinds_of
from stormwright.advise.search.trials import MixTrials
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.predict.answer import Assumptions
from stormwright.predict.changes import with_rates
from stormwright.predict.flow.profile import Profile
from stormwright_lab.advisers.pace import Patience, WindowPace

#: Part of the required rate from which it counts as reached.
_REACHED = 0.97

#: Minimum fraction of a promised rise that counts as help, and the number of windows before a useless one is reported.
_HELP, _IN_VAIN = 0.5, 2


@dataclass(frozen=True)
class _Change:
    """Promise of a change, and the state before."""

    promised_tps: float
    before: Observation


class PredictiveAdviser:
    """Cheapest sufficient size by `stormwright.predict`, changed as rarely as possible.

    1. If the running placement would be overloaded or too slow at the offered rate, or does not reach it, the cheapest
       sufficient one with full headroom is recommended at once: for the extrapolated rate of the next windows, or, with
       a known season, for its highest expected rate, so that one step covers the coming peak.
    2. Less is recommended only after several windows in which it would have been enough, for the highest rate of these;
       with a known season after fewer, but only if it is enough for the expected rates, too.
    3. If a change gains almost nothing of the promised rate, that is reported, and it is reversed; for some windows
       nothing more is added. If it gains a part, the next recommendation is based on the new measurement.

    Parameters
    ----------
    goals
        Latency, headroom and quotas; its rates are ignored.
    kinds
        Available kinds of nodes; by default those of the cluster.
    patience
        Parameters of the timing.
    past
        Trees/s of windows before the first, for instance from a history.
    """

    def __init__(
        self,
        goals: AdviceGoals,
        kinds: Sequence[NodeKind] = (),
        patience: Patience | None = None,
        past: Iterable[float] = (),
    ) -> None:
        self._goals, self._kinds, self._patience = goals, tuple(kinds), patience or Patience()
        self._pace = WindowPace(self._patience, past)
        self._in_vain = self._wait = 0
        self._last: _Change | None = None

    @property
    def headroom(self) -> float:
        """Fraction of all resources that stays free."""
        return self._goals.headroom

    def advise(self, observation: Observation) -> TargetSize:
        """See `Adviser`.

        Raises
        ------
        InputError
            The observation has no measured problem.
        """
        if observation.problem is None:
            raise InputError("observation", [Fault("has no measured problem, so the placement is unknown", "$")])
        self._pace.note(observation.wanted_tps)
        self._wait = max(self._wait - 1, 0)
        last = self._useless(observation)
        self._in_vain = self._in_vain + 1 if last else 0
        if last and self._in_vain < _IN_VAIN:
            return TargetSize(
                observation.executors, why="the last change has brought next to nothing so far: a window more"
            )
        if last:
            return self._back(observation, last)
        runs = _evaluated(observation.problem, observation.topology, observation.wanted_tps)
        index = observation.problem.topology_index[observation.topology]
        full = runs.fullest({index})
        most = 1 - self._goals.headroom * (1 - self._patience.ceiling)
        late = self._goals.p95_ms is not None and runs.p95_ms(index) > self._goals.p95_ms
        if full > most or late or observation.reached_tps < _REACHED * observation.wanted_tps:
            self._pace.changed()
            if self._wait:
                return TargetSize(observation.executors, why="more did not help a while ago")
            return self._more(observation, observation.problem)
        self._pace.enough(less_is=full < (1 - self._goals.headroom) * (1 - self._patience.saving))
        most_tps = self._pace.to_leave_for()
        if most_tps is not None and most_tps < (1 - self._patience.saving) * self._holds(full, observation.wanted_tps):
            return self._less(observation, observation.problem, most_tps)
        return TargetSize(observation.executors, why=f"enough: the fullest thread, node or link is {full:.0%} full")

    def _more(self, observation: Observation, problem: Problem) -> TargetSize:
        why = ""
        for rate_tps in (self._pace.to_add_for(), observation.wanted_tps):
            try:
                found, steps = self._best(problem, observation.topology, rate_tps)
            except InputError as error:
                why = "; ".join(fault.message for fault in error.faults)
                continue
            return self._changed(observation, found, rate_tps, "; ".join(steps))
        return TargetSize(observation.executors, why=f"nothing is enough: {why}")

    def _holds(self, full: float, rate_tps: float) -> float:
        """Return the trees/s at which the fullest resource would have just the headroom."""
        return rate_tps * (1 - self._goals.headroom) / full if full > 0 else np.inf

    def _less(self, observation: Observation, problem: Problem, most_tps: float) -> TargetSize:
        why = f"{self._pace.below} windows in which less was enough, and for {most_tps:,.0f} trees/s it is"
        self._pace.changed()
        try:
            found, _ = self._best(problem, observation.topology, most_tps)
        except InputError:
            return TargetSize(observation.executors, why="nothing less is enough")
        executors, most = sum(_executors(found, observation.topology).values()), 1 - self._patience.saving
        if found.used.price > most * self._price_now(problem) and executors > most * observation.total:
            return TargetSize(observation.executors, why="less would save too little for a restart")
        return self._changed(observation, found, most_tps, why)

    def _changed(self, observation: Observation, found: EvaluatedPlacement, rate_tps: float, why: str) -> TargetSize:
        self._last, self._in_vain = _Change(rate_tps, observation), 0
        self._pace.changed()
        workers = found.workers(found.problem.topology_index[observation.topology])
        return TargetSize(_executors(found, observation.topology), workers, why, found.problem, found.assignment)

    def _useless(self, observation: Observation) -> _Change | None:
        """Return the last change if it added something and brought almost nothing of its promise.

        A change that helped once is forgotten: what happens later is not its fault.
        """
        last = self._last
        if last is None or (observation.total <= last.before.total and observation.workers <= last.before.workers):
            return None
        promised = min(observation.wanted_tps, last.promised_tps) - last.before.reached_tps
        if promised <= 0:  # at this rate nothing more is needed, which shows nothing
            return None
        came = observation.reached_tps - last.before.reached_tps
        held = observation.reached_tps >= _REACHED * min(observation.wanted_tps, last.promised_tps)
        if held or came >= _HELP * promised:
            self._last = None
        return self._last

    def _back(self, observation: Observation, last: _Change) -> TargetSize:
        self._last, self._in_vain, self._wait = None, 0, self._patience.windows + 1
        why = (
            f"the last change did not help: {min(last.promised_tps, observation.wanted_tps):,.0f} trees/s were "
            f"promised, and {observation.reached_tps:,.0f} were reached; what limits them is nothing that was "
            "measured, so take it back"
        )
        before, problem = last.before, last.before.problem
        placed = None if problem is None else Assignment(problem.current_slot)
        return TargetSize(before.executors, before.workers, why, problem, placed)

    def _best(self, problem: Problem, topology: str, rate_tps: float) -> tuple[EvaluatedPlacement, list[str]]:
        goals = replace(self._goals, rates={topology: rate_tps}, times={})
        search = CheapestSearch(MixTrials(problem, goals, self._kinds or kinds_of(problem)))
        return search.best(), search.steps

    def _price_now(self, problem: Problem) -> float:
        """Return the price of the used nodes; unknown kinds count as the first one."""
        kinds = self._kinds or kinds_of(problem)
        used = set(problem.slot_node[problem.current_slot[problem.current_slot != UNPLACED]].tolist())
        price_of = {kind.node.cpu_hz: kind.price for kind in kinds}
        return sum(price_of.get(problem.supervisors[node].cpu_hz, kinds[0].price) for node in used)


def _evaluated(problem: Problem, topology: str, rate_tps: float) -> EvaluatedPlacement:
    """Return the evaluation of the running placement at another rate of one topology."""
    assumptions, rates = Assumptions.of(problem), Profile.of(problem).rate_tps
    index, factors = problem.topology_index[topology], np.ones(len(problem.topologies))
    factors[index] = rate_tps / rates[index] if rates[index] > 0 else 1.0
    scaled = with_rates(problem, factors)
    known = assumptions.costs, assumptions.corrections
    return EvaluatedPlacement.of(
        scaled, NodeMix((), ()), Assignment(problem.current_slot), Profile.of(scaled), known, {}
    )


def _executors(found: EvaluatedPlacement, topology: str) -> dict[str, int]:
    """Return executors by component name."""
    return found.problem.topologies[found.problem.topology_index[topology]].executor_counts
