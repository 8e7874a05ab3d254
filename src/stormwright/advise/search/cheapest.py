"""Search for the cheapest nodes and the fewest sufficient executors.

::

    mixes of nodes, cheapest first ─▶ fewest possible executors ─▶ placed by `optimizer` ─▶ evaluated by `predict`
           ▲                                     ▲                                                   │
           └── too little CPU, memory, link ─────┴── an executor too full: more of its component ────┘

If a latency is required, executors are added where that shortens it most. Finally unnecessary executors are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np

from stormwright.advise.search.advice import RefusedMixes, single_executor_texts, too_small_text, work_text
from stormwright.advise.search.evaluation import EvaluatedPlacement
from stormwright.advise.search.kinds import NodeMix, mixes
from stormwright.advise.search.trials import ExecutorCounts, Key, MixTrials
from stormwright.errors import Fault, InputError
from stormwright.model.humanize import counted
from stormwright.model.requests import ACKER

log = logging.getLogger(__name__)

#: Maximum number of mixes of nodes that are tried, without those that have too little CPU or memory in any case; and of
#: mixes of several kinds that are considered.
_MAX_MIXES, _MAX_LOOKED_AT = 60, 50_000

#: Minimum resources of all executors and messages on as many nodes or more, relative to those found on some nodes.
_TAKES_AS_WELL = 0.95

#: Times that executors are added for one mix, for each component; and in a row without that the fullest node, link or
#: thread of messages is less full than before by this part: then it is not full because executors are too large.
_MAX_RAISES, _MAX_IN_VAIN, _LESS_FULL = 4, 6, 1e-3

#: Number of executors per step of one.
_PART = 8

#: Factor by which all nodes together exceed the allowed load so that other executors cannot help.
_PACKED = 1.02

#: Mixes that are tried for an alternative, and how much more CPU each has at least than the one before.
_MAX_NEAR, _MORE_CPU = 4, 1.03

#: Maximum number of executors added for less latency, and the minimum fraction by which each has to lower it.
_MAX_QUICKER, _QUICKER = 24, 0.005


class CheapestSearch:
    """Search with the trials of a problem.

    Parameters
    ----------
    trials
        Trials of the problem, with the goals.
    """

    def __init__(self, trials: MixTrials) -> None:
        self.trials = trials
        self.steps: list[str] = []
        self._given_up = False
        self._takes: EvaluatedPlacement | None = None

    def best(self) -> EvaluatedPlacement:
        """Return the cheapest sufficient placement; `steps` then has the log of the search.

        Raises
        ------
        InputError
            None suffices: tasks, nodes or executors are too few, or no placement is fast enough.
        """
        trials, least = self.trials, self.least()
        self.steps.append(work_text(trials, least))
        refused = RefusedMixes()
        quickest, in_vain = np.inf, 0
        for mix in self._mixes(least, refused):
            raised: list[str] = []
            log.info("%s …", mix)
            found = self._enough(least, mix, raised)
            if isinstance(found, str):
                log.info("%s: %s", mix, found)
                refused.add(mix, found)
                continue
            found = self._quicker(found, raised)
            if trials.meets_latency(found):
                self.steps += [*refused, *raised]
                found = self._thinned(found, least)
                self.steps.append(f"{mix}: enough")
                found = trials.evaluated(trials.counts(found), mix, thoroughly=True)
                if str(found.used) != str(mix):
                    self.steps.append(f"{found.used}: these alone are used where a search places the executors")
                return found
            late = trials.p95_ms(found)
            refused.add(
                mix, f"the 95th percentile would be {late:,.1f} ms, above the requested {trials.goals.p95_ms:g} ms"
            )
            in_vain = in_vain + 1 if late > quickest * (1 - _QUICKER) else 0
            quickest = min(quickest, late)
            if in_vain > len(trials.kinds):
                break
        tries = refused.newest or f"{counted(trials.goals.max_nodes, 'node')} have too little CPU or memory"
        if self._given_up:
            message = f"{_MAX_MIXES} mixes of nodes were tried, and none was enough; the last one was {tries}"
            raise InputError("advice", [Fault(message, "nodes")])
        raise InputError("advice", [Fault(f"no allowed number of nodes is sufficient: {tries}", "nodes")])

    def near(self, other: EvaluatedPlacement) -> EvaluatedPlacement | None:
        """Return a sufficient placement for the executors of another one, or more, on the cheapest of a few mixes.

        Much quicker than `best`, which may find fewer nodes or executors; None if none of these mixes suffices.

        Parameters
        ----------
        other
            Sufficient placement with another headroom.

        Raises
        ------
        InputError
            Tasks or executors are too few.
        """
        trials, now, left = self.trials, self.trials.counts(other), _MAX_NEAR
        counts = {key: max(least, now[key]) for key, least in self.least().items()}
        if any(self._total(counts, topology) > trials.goals.max_executors for topology in trials.requested):
            return None
        memory_mb, least_hz = trials.memory_mb(counts), _TAKES_AS_WELL * other.cpu_hz / trials.allowed
        for mix in mixes(trials.kinds, trials.goals.max_nodes, _MAX_LOOKED_AT):
            if mix.cpu_hz < least_hz or too_small_text(trials, mix, trials.work_hz, memory_mb):
                continue
            found = trials.evaluated(counts, mix)
            if trials.has_headroom(found) and trials.meets_latency(found):
                return found
            left, least_hz = left - 1, _MORE_CPU * mix.cpu_hz
            if not left:
                break
        return None

    def least(self) -> dict[Key, int]:
        """Return a lower bound of executors of every component, without messages.

        Raises
        ------
        InputError
            A component has too few tasks for its work, or all together are more executors than are allowed.
        """
        trials, counts, faults = self.trials, dict[Key, int](), list[Fault]()
        for key, size in trials.sizes.items():
            allowed = trials.most_cores(key)
            least = size.least(allowed)
            if least is None:
                most_tps = trials.requested[key[0]] * allowed / size.busiest(size.tasks)
                how = "setNumAckers" if trials.name(key).endswith(f"/{ACKER}") else "setNumTasks"
                message = (
                    f"its {counted(size.tasks, 'task')} are too few: with an executor each they are enough for "
                    f"{most_tps:,.0f} trees/s, and Storm fixes their number when a topology is submitted; submit it "
                    f"with more ({how})"
                )
                faults.append(Fault(message, trials.name(key)))
                continue
            counts[key] = least
            if least > 1:
                why = trials.insufficient_reason(key, size.busiest(least - 1))
                self.steps.append(
                    f"{trials.name(key)}: {counted(least - 1, 'executor')} {why} at "
                    f"{size.handled_tps / (least - 1):,.0f} tuples/s each, so {least} at least"
                )
        for topology in trials.requested:
            total = sum(count for key, count in counts.items() if key[0] == topology)
            if total > trials.goals.max_executors:
                message = f"needs {total} executors at least, and --max-executors allows {trials.goals.max_executors}"
                faults.append(Fault(message, trials.base.topologies[topology].name))
        if faults:
            raise InputError("advice", faults)
        self.steps += single_executor_texts(trials, counts)
        return counts

    def _mixes(self, least: ExecutorCounts, refused: RefusedMixes) -> Iterator[NodeMix]:
        """Yield mixes with enough CPU and memory for the work alone, cheapest first.

        Mixes that have too little for the work with messages, as found on as many nodes or fewer, are left out.
        """
        trials, tried = self.trials, 0
        memory_mb, work_hz = trials.memory_mb(least), trials.work_hz
        for mix in mixes(trials.kinds, trials.goals.max_nodes, _MAX_LOOKED_AT):
            if why := too_small_text(trials, mix, work_hz, memory_mb) or self._too_small_for_messages(mix):
                refused.add(mix, why)
                continue
            if tried == _MAX_MIXES:
                self._given_up = True
                return
            yield mix
            tried += 1

    def _too_small_for_messages(self, mix: NodeMix) -> str:
        """Return why nodes have too little with the message costs found so far; empty if they may have enough."""
        took = self._takes
        if took is None or mix.size < took.mix.size or mix.cpu_hz * self.trials.allowed >= _TAKES_AS_WELL * took.cpu_hz:
            return ""
        return f"too little for what executors and messages took of {took.mix}, {took.total_use:.0%} of all CPU"

    def _enough(self, least: ExecutorCounts, mix: NodeMix, raised: list[str]) -> EvaluatedPlacement | str:
        """Return a placement without overload and at least `least` executors; or why there is none.

        Additions are recorded in `raised`.
        """
        trials, counts, why = self.trials, dict(least), ""
        fullest, in_vain = np.inf, 0
        for _ in range(_MAX_RAISES * len(counts) + 1):
            evaluated = trials.evaluated(counts, mix)
            if not evaluated.complete:
                return _unplaced(evaluated)
            if trials.has_headroom(evaluated):
                return evaluated
            over = evaluated.too_full(set(trials.requested), trials.allowed)
            why = evaluated.node_fault(trials.allowed)
            if why and evaluated.total_use > trials.allowed * _PACKED:
                self._takes = evaluated
                return f"all CPU together would be {evaluated.total_use:.0%} full"
            if over:
                use = evaluated.component_use[over[0]]
                why = f"{trials.name(over[0])}: one of {counted(counts[over[0]], 'executor')} would be {use:.0%} busy"
            full = evaluated.fullest(set())
            in_vain = 0 if over or full < fullest * (1 - _LESS_FULL) else in_vain + 1
            fullest = min(fullest, full)
            if in_vain > _MAX_IN_VAIN:
                return f"{why}, and smaller executors do not help"
            before = dict(counts)
            for key in over or self._largest(evaluated):
                self._raise(counts, key)
            if counts == before:
                return why
            more = [f"{counts[key]} of {trials.name(key)}" for key in counts if counts[key] != before[key]]
            _note(raised, f"{mix}: {why}, so {' and '.join(more)}")
        return why

    def _raise(self, counts: dict[Key, int], key: Key) -> None:
        """Add executors to a component, if allowed: an eighth, or one."""
        size, has = self.trials.sizes[key], counts[key]
        left = self.trials.goals.max_executors - self._total(counts, key[0])
        for step in (max(has // _PART, 1), 1):
            more = size.more(min(has + step - 1, size.tasks))
            if more is not None and more - has <= left:
                counts[key] = more
                return

    @staticmethod
    def _total(counts: ExecutorCounts, topology: int) -> int:
        return sum(count for key, count in counts.items() if key[0] == topology)

    def _largest(self, evaluated: EvaluatedPlacement) -> Sequence[Key]:
        """Return the component with the largest executor: smaller ones fill nodes better."""
        counts, use = self.trials.counts(evaluated), evaluated.component_use
        keys = [key for key, size in self.trials.sizes.items() if size.more(counts[key]) is not None]
        return [max(keys, key=lambda key: (use[key], key))] if keys else []

    def _quicker(self, found: EvaluatedPlacement, raised: list[str]) -> EvaluatedPlacement:
        """Return the placement with executors added where that reduces latency most, until it is low enough."""
        trials = self.trials
        for _ in range(_MAX_QUICKER):
            if trials.meets_latency(found):
                break
            late, counts = trials.p95_ms(found), trials.counts(found)
            tried: list[tuple[float, Key, EvaluatedPlacement]] = []
            for key in counts:
                more = dict(counts)
                self._raise(more, key)
                one = trials.evaluated(more, found.mix) if more != counts else found
                if one is not found and trials.has_headroom(one):
                    tried.append((trials.p95_ms(one), key, one))
            if not tried or min(tried)[0] > late * (1 - _QUICKER):
                break
            less, key, found = min(tried, key=lambda each: each[:2])
            more_of = f"{trials.counts(found)[key]} of {trials.name(key)}"
            _note(raised, f"{found.mix}: 95 % of trees within {late:,.1f} ms; with {more_of} within {less:,.1f} ms")
        return found

    def _thinned(self, found: EvaluatedPlacement, least: ExecutorCounts) -> EvaluatedPlacement:
        """Return the placement without unnecessary executors, from the largest component, down to `least`.

        One is taken away, or two: an odd number is harder to spread over nodes. Of many it is an eighth first.
        """
        trials, going = self.trials, True
        while going:
            going, counts = False, trials.counts(found)
            tries = [
                (key, has - less)
                for key, has in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
                for less in dict.fromkeys((max(has // _PART, 1), 1, 2))
                if has - less >= least[key]
            ]
            for key, count in tries:
                fewer = trials.evaluated({**counts, key: count}, found.mix)
                if trials.has_headroom(fewer) and trials.meets_latency(fewer):
                    found, going = fewer, True
                    _note(self.steps, f"{found.mix}: {count} of {trials.name(key)} are enough as well")
                    break
        return found


def _note(steps: list[str], step: str) -> None:
    """Add a step to the list and log it, as a search may take minutes."""
    log.info("%s", step)
    steps.append(step)


def _unplaced(evaluated: EvaluatedPlacement) -> str:
    reasons = [reason for _, _, why in evaluated.assignment.grouped_reasons() for reason in why]
    return f"not every executor finds a slot: {reasons[0]}" if reasons else "not every executor finds a slot"
