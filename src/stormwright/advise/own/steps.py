"""How advice is come to, in words: from what is there, step by step, to what is advised."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from stormwright.advise.own.kinds import NodeMix
from stormwright.advise.own.trials import ExecutorCounts, MixTrials
from stormwright.model import UNPLACED, Problem
from stormwright.model.humanize import counted

#: Reasons against mixes that are told, first and last.
_TOLD = 3


class RefusedMixes:
    """Reasons against mixes of nodes; the first and the last are kept."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last = deque[str](maxlen=_TOLD)
        self._count = 0

    def add(self, mix: NodeMix, why: str) -> None:
        """One more."""
        self._count += 1
        (self._first if len(self._first) < _TOLD else self._last).append(f"{mix}: {why}")

    @property
    def newest(self) -> str:
        """The last one; empty where there is none."""
        return ["", *self._first, *self._last][-1]

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        if left := self._count - len(self._first) - len(self._last):
            yield f"… and {left:,} more"
        yield from self._last


def there(problem: Problem) -> str:
    """What there is now."""
    slots = problem.current_slot[problem.current_slot != UNPLACED]
    used = len(np.unique(problem.slot_node[slots]))
    return (
        f"now: {counted(len(problem.supervisors), 'node')}, {used} of them in use, with "
        f"{counted(problem.num_executors, 'executor')}"
    )


def work(trials: MixTrials, least: ExecutorCounts) -> str:
    """What all executors take at least, where they are so many."""
    cores, core_ghz = trials.work_hz / trials.base.core_hz, trials.base.core_hz / 1e9
    return (
        f"at the rates asked for all executors take {cores:,.2f} cores of {core_ghz:g} GHz and "
        f"{trials.memory_mb(least):,.0f} MB, messages left aside; {trials.wish.headroom:.0%} is to stay free"
    )


def singles(trials: MixTrials, least: ExecutorCounts) -> Iterator[str]:
    """Components for which one executor is enough, a line for each topology."""
    for topology in trials.asked:
        one = trials.base.topologies[topology]
        names = [one.components[key[1]].id for key, count in least.items() if key[0] == topology and count == 1]
        if names:
            yield f"{one.name}: 1 executor is enough for {' and for '.join(names)}"


def too_small(trials: MixTrials, mix: NodeMix, work_hz: float, memory_mb: float) -> str:
    """Why nodes have too little for the work alone; empty where they have enough.

    Parameters
    ----------
    trials, mix
        What is to stay free, and the nodes.
    work_hz, memory_mb
        CPU and memory that all executors take.
    """
    worker_cores, pairs = trials.known[0].worker_cores, zip(mix.kinds, mix.counts, strict=True)
    taken = [(kind, count) for kind, count in pairs if count]
    free_hz = sum(count * max(trials.allowed * k.cores - worker_cores, 0.0) * k.core_hz for k, count in taken)
    has_mb = sum(count * kind.node.memory_mb for kind, count in taken)
    if free_hz < work_hz:
        return f"{free_hz / trials.base.core_hz:,.2f} such cores for executors, which are too few"
    return f"{has_mb:,.0f} MB of memory, which is too little" if has_mb < memory_mb else ""
