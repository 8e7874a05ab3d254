"""Our advice window by window: it adds at once, takes away late, and says so where adding did not help."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stormwright.advise.adviser import Observation, Wanted
from stormwright.advise.own.judged import Judged
from stormwright.advise.own.kinds import Mix, NodeKind, kinds_of
from stormwright.advise.own.search import Search
from stormwright.advise.own.trials import Trials
from stormwright.advise.own.wish import Wish
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.predict.answer import Assumptions
from stormwright.predict.changed import with_rates
from stormwright.predict.flow.profile import Profile

#: Less of the rate that is wanted than this, and it is not reached.
_REACHED = 0.97

#: Of the rise that a change promised, less than this part is no help; after so many windows of it that is said.
_HELP, _IN_VAIN = 0.5, 2


#: Changes from window to window that have to be known before a rate is taken to rise on, and by how much at most.
_LEAST_SEEN, _MOST_AHEAD = 3, 1.5


@dataclass(frozen=True)
class Patience:
    """When something is changed.

    Parameters
    ----------
    windows
        Only after so many in which less would have been enough is anything taken away, and then for the most trees of
        these; and so many windows nothing is added after something that did not help.
    ceiling
        Executors and nodes are added once something is fuller than this part of what is not headroom goes half way to
        being full: with 20 % headroom and 0.5 that is above 90 %.
    saving
        Less of the price, and of the executors, than this part is not worth a restart.
    ahead
        What rises is taken to rise on for so many windows.
    """

    windows: int = 6
    ceiling: float = 0.5
    saving: float = 0.15
    ahead: int = 5


@dataclass(frozen=True)
class _Change:
    """What was promised of a change, and what was there before."""

    promised_tps: float
    before: Observation


class Ours:
    """The cheapest that `stormwright.predict` says is enough, changed as rarely as is enough.

    1. Where what runs would be too full at the rate that is wanted, or too slow, or does not reach it, the cheapest
       that is enough with all headroom is wanted at once: for the rate to which it rises in the next windows.
    2. Less is wanted only after some windows in which it would have been enough, for the most trees of these.
    3. Where a change brings next to nothing of the rate that it promised, that is said, and the way back is wanted; for
       some windows nothing more is added. Where it brings part of it, more is wanted by what is measured now.

    Parameters
    ----------
    wish
        Latency, headroom and quotas; its rates count for nothing.
    kinds
        Nodes that can be had; by default those that the cluster has.
    patience
        When something is changed.
    """

    def __init__(self, wish: Wish, kinds: Sequence[NodeKind] = (), patience: Patience | None = None) -> None:
        self._wish, self._kinds, self._patience = wish, tuple(kinds), patience or Patience()
        self._rates: deque[float] = deque(maxlen=max(self._patience.windows, self._patience.ahead + 1))
        self._below = self._in_vain = self._wait = 0
        self._last: _Change | None = None

    @property
    def headroom(self) -> float:
        """Part of everything that is to stay free."""
        return self._wish.headroom

    def advise(self, seen: Observation) -> Wanted:
        """See `Adviser`.

        Raises
        ------
        InputError
            The observation has no measured problem.
        """
        if seen.problem is None:
            raise InputError("observation", [Fault("has no measured problem, which tells where executors are", "$")])
        self._rates.append(seen.wanted_tps)
        self._wait = max(self._wait - 1, 0)
        last = self._useless(seen)
        self._in_vain = self._in_vain + 1 if last else 0
        if last and self._in_vain < _IN_VAIN:
            return Wanted(seen.executors, why="the last change has brought next to nothing so far: a window more")
        if last:
            return self._back(seen, last)
        runs = _judged(seen.problem, seen.topology, seen.wanted_tps)
        index = seen.problem.topology_index[seen.topology]
        full = runs.fullest({index})
        most = 1 - self._wish.headroom * (1 - self._patience.ceiling)
        late = self._wish.p95_ms is not None and runs.p95_ms(index) > self._wish.p95_ms
        if full > most or late or seen.reached_tps < _REACHED * seen.wanted_tps:
            self._below = 0
            if self._wait:
                return Wanted(seen.executors, why="more did not help a while ago")
            return self._more(seen, seen.problem)
        self._below = self._below + 1 if full < (1 - self._wish.headroom) * (1 - self._patience.saving) else 0
        if self._below >= self._patience.windows:
            return self._less(seen, seen.problem)
        return Wanted(seen.executors, why=f"enough: the fullest thread, node or link is {full:.0%} full")

    def _more(self, seen: Observation, problem: Problem) -> Wanted:
        why = ""
        ahead_tps = min(seen.wanted_tps + self._rises(), _MOST_AHEAD * seen.wanted_tps)
        for rate_tps in (ahead_tps, seen.wanted_tps):
            try:
                found, steps = self._best(problem, seen.topology, rate_tps)
            except InputError as error:
                why = "; ".join(fault.message for fault in error.faults)
                continue
            return self._changed(seen, found, rate_tps, "; ".join(steps))
        return Wanted(seen.executors, why=f"nothing is enough: {why}")

    def _rises(self) -> float:
        """By how much the rate is to rise: as it did in the median of the last windows, which no leap moves."""
        by_window = np.diff(self._rates)[-self._patience.ahead :]
        if len(by_window) < _LEAST_SEEN:
            return 0.0
        return self._patience.ahead * max(float(np.median(by_window)), 0.0)

    def _less(self, seen: Observation, problem: Problem) -> Wanted:
        self._below = 0
        most_tps = max(list(self._rates)[-self._patience.windows :])
        try:
            found, _ = self._best(problem, seen.topology, most_tps)
        except InputError:
            return Wanted(seen.executors, why="nothing less is enough")
        executors, most = sum(_executors(found, seen.topology).values()), 1 - self._patience.saving
        if found.used.price > most * self._price_now(problem) and executors > most * seen.total:
            return Wanted(seen.executors, why="less would save too little for a restart")
        return self._changed(seen, found, most_tps, f"{self._patience.windows} windows in which less was enough")

    def _changed(self, seen: Observation, found: Judged, rate_tps: float, why: str) -> Wanted:
        self._last, self._in_vain, self._below = _Change(rate_tps, seen), 0, 0
        workers = found.workers(found.problem.topology_index[seen.topology])
        return Wanted(_executors(found, seen.topology), workers, why, found.problem, found.assignment)

    def _useless(self, seen: Observation) -> _Change | None:
        """The last change, where it added something and brought next to nothing of the rate that it promised."""
        last = self._last
        if last is None or (seen.total <= last.before.total and seen.workers <= last.before.workers):
            return None
        promised = min(seen.wanted_tps, last.promised_tps) - last.before.reached_tps
        came = seen.reached_tps - last.before.reached_tps
        held = seen.reached_tps >= _REACHED * min(seen.wanted_tps, last.promised_tps)
        return None if held or came >= _HELP * promised else last

    def _back(self, seen: Observation, last: _Change) -> Wanted:
        self._last, self._in_vain, self._wait = None, 0, self._patience.windows + 1
        why = (
            f"the last change did not help: {min(last.promised_tps, seen.wanted_tps):,.0f} trees/s were promised, and "
            f"{seen.reached_tps:,.0f} were reached; what limits them is nothing that was measured, so take it back"
        )
        before, problem = last.before, last.before.problem
        placed = None if problem is None else Assignment(problem.current_slot)
        return Wanted(before.executors, before.workers, why, problem, placed)

    def _best(self, problem: Problem, topology: str, rate_tps: float) -> tuple[Judged, list[str]]:
        wish = replace(self._wish, rates={topology: rate_tps}, times={})
        search = Search(Trials(problem, wish, self._kinds or kinds_of(problem)))
        return search.best(), search.steps

    def _price_now(self, problem: Problem) -> float:
        """Of the nodes that are used; one of no kind that can be had is taken for one of the first."""
        kinds = self._kinds or kinds_of(problem)
        used = set(problem.slot_node[problem.current_slot[problem.current_slot != UNPLACED]].tolist())
        price_of = {kind.node.cpu_hz: kind.price for kind in kinds}
        return sum(price_of.get(problem.supervisors[node].cpu_hz, kinds[0].price) for node in used)


def _judged(problem: Problem, topology: str, rate_tps: float) -> Judged:
    """What runs, at another rate of one topology."""
    assumptions, rates = Assumptions.of(problem), Profile.of(problem).rate_tps
    index, factors = problem.topology_index[topology], np.ones(len(problem.topologies))
    factors[index] = rate_tps / rates[index] if rates[index] > 0 else 1.0
    scaled = with_rates(problem, factors)
    known = assumptions.costs, assumptions.corrections
    return Judged.of(scaled, Mix((), ()), Assignment(problem.current_slot), Profile.of(scaled), known, {})


def _executors(found: Judged, topology: str) -> dict[str, int]:
    """Executors by name."""
    one = found.problem.topologies[found.problem.topology_index[topology]]
    sizes = np.bincount(one.executor_component, minlength=len(one.components)).tolist()
    return dict(zip((component.id for component in one.components), sizes, strict=True))
