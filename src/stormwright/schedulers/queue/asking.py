"""A scheduler asked about some of the topologies that wait, as if there were no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Unplaced
from stormwright.model.arrays import IntArray
from stormwright.schedulers.kit.checked import NO_REASON


@dataclass(frozen=True)
class PartAnswer:
    """What a scheduler answers about some topologies, by their indices in the whole problem.

    Parameters
    ----------
    topologies
        Those that it was asked about, in the order in which it was shown them.
    slots
        Of every executor of the whole problem, -1 also for those that it was not asked about, shape (E,).
    answer
        As it came.
    """

    topologies: tuple[int, ...]
    slots: IntArray
    answer: Assignment

    def holds(self, problem: Problem, topology: int) -> bool:
        """Whether all executors of a topology have slots."""
        return bool(np.all(self.slots[problem.executors_of(topology)] != UNPLACED))

    def reasons(self, problem: Problem, topology: int) -> tuple[str, ...]:
        """Why executors of a topology have none, each thing once."""
        return tuple(self._told.get(problem.topologies[topology].id, ())) or (NO_REASON,)

    @cached_property
    def _told(self) -> dict[str, dict[str, None]]:
        """Topology → the reasons of all its executors, in their order."""
        told: dict[str, dict[str, None]] = {}
        for each in self.answer.unplaced:
            told.setdefault(each.topology, {}).update(dict.fromkeys(each.reasons))
        return told


class AskingInParts:
    """Asks one scheduler about parts of one problem, and counts how often.

    Parameters
    ----------
    problem
        The whole.
    scheduler
        Who is asked.
    running
        Topologies that run, at least in part: they are always shown.
    in_turn
        Whether the scheduler is shown what waits behind what runs, in the order of the queue; else as in the problem.
    """

    def __init__(self, problem: Problem, scheduler: Scheduler, running: Sequence[int], *, in_turn: bool) -> None:
        self._problem, self._scheduler, self.running = problem, scheduler, tuple(running)
        self._in_turn = in_turn
        self.times, self.seconds = 0, 0.0

    def about(self, waiting: Sequence[int]) -> PartAnswer:
        """What it answers where, of what does not run, only these wait, in this order."""
        problem, topologies = self._problem, (*self.running, *waiting)
        topologies = topologies if self._in_turn else tuple(sorted(topologies))
        as_given = topologies == tuple(range(len(problem.topologies)))
        part = problem if as_given else _part(problem, topologies)
        answer = self._scheduler.schedule(part)
        self.times += 1
        self.seconds += answer.seconds
        if as_given:
            return PartAnswer(topologies, answer.slot_of_executor, answer)
        slots = np.full(problem.num_executors, UNPLACED, dtype=np.int32)
        for position, topology in enumerate(topologies):
            slots[problem.executors_of(topology)] = answer.slot_of_executor[part.executors_of(position)]
        return PartAnswer(topologies, slots, answer)


def unplaced(problem: Problem, slots: IntArray, topology: int, reasons: tuple[str, ...]) -> list[Unplaced]:
    """All executors of a topology that have no slot, with one and the same reasons.

    Parameters
    ----------
    problem
        The whole.
    slots
        Of every executor of it, -1 for none, shape (E,).
    topology
        Its index.
    reasons
        Why it waits.
    """
    of = problem.topologies[topology]
    lacking = np.flatnonzero(slots[problem.executors_of(topology)] == UNPLACED).tolist()
    return [Unplaced(of.id, each, of.components[of.executor_component[each]].id, reasons) for each in lacking]


def _part(problem: Problem, topologies: Sequence[int]) -> Problem:
    chosen = tuple(problem.topologies[index] for index in topologies)
    current = {of.id: problem.current[of.id] for of in chosen if of.id in problem.current}
    return replace(problem, topologies=chosen, current=current)
