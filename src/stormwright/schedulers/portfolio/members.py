"""Member schedulers of a portfolio, and their valid answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from stormwright.errors import Fault, InputError, MissingDependencyError, StormwrightError
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import counted
from stormwright.schedulers.portfolio.evaluation import PlacementEvaluator
from stormwright.schedulers.templates.waiting import CompletePlan, answer
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.schedulers.toolkit.limits import with_room_for_cpu
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.plugin_guard import checked
from stormwright.schedulers.toolkit.registry import SCHEDULERS, scheduler_names, scheduler_type, traits_of
from stormwright.schedulers.toolkit.resolve import ALL, choose_schedulers, is_java
from stormwright.schedulers.toolkit.traits import declared

#: Name of all schedulers that usually take a second or two for a problem of this size.
QUICK: Final = "quick"

#: Name of the running placement as an answer.
WHAT_RUNS: Final = "what runs"

#: Relative rounding error of badness.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Members:
    """Member schedulers as configured by a user.

    Parameters
    ----------
    names
        `QUICK`, ``all``, or names separated by commas.
    settings
        Their parameters: ``NAME.KEY=VALUE``, separated by semicolons.
    seed
        Seed of randomised members.
    objective
        Objective of members that support it.
    own
        Name of the calling scheduler, which cannot be a member.
    """

    names: str
    settings: str
    seed: int
    objective: str
    own: str

    def check(self) -> None:
        """Create all members once; of other packages only validate the parameters.

        Raises
        ------
        InputError
            A name or a parameter is wrong; all faults at once.
        """
        named = [name.strip() for name in self.names.split(",")]
        if self.own in named:
            raise InputError("scheduler parameters", [Fault(f"{self.own} cannot ask itself", "schedulers")])
        try:
            choose_schedulers(",".join(self._all()), self._settings_texts(), self.seed, made_elsewhere=is_foreign)
        except InputError as error:
            faults = [Fault(f"{fault.path}: {fault.message}", "schedulers") for fault in error.faults]
            raise InputError("scheduler parameters", faults) from error

    def for_size(self, executors: int) -> list[str]:
        """Return the members for a problem with this number of executors; explicitly named ones always."""
        named = [name.strip() for name in self.names.split(",")]
        if QUICK not in named:
            return self._all()
        return [name for name in self._all() if name in named or traits_of(name).quick_up_to >= executors]

    def made(self, name: str, budget_s: float = 0.0) -> Scheduler | StormwrightError:
        """Return a member, or the error; one with a search budget gets `budget_s` seconds."""
        settings_texts = [text for text in self._settings_texts() if text.startswith(f"{name}.")]
        known = {} if is_java(name) else {field.name: field.metadata for field in fields(_params_of(name))}
        choices = known["objective"]["choices"] if "objective" in known else ()
        if self.objective in choices and f"{name}.objective" not in self.settings:
            settings_texts.append(f"{name}.objective={self.objective}")
        if budget_s and self.keeps_budget(name):
            settings_texts.append(f"{name}.time_budget_s={budget_s}")
        return choose_schedulers(name, settings_texts, self.seed)[name]

    @staticmethod
    def keeps_budget(name: str) -> bool:
        """Return whether a member has a search budget."""
        return not is_java(name) and any(field.name == "time_budget_s" for field in fields(_params_of(name)))

    def _all(self) -> list[str]:
        given = list(dict.fromkeys(name for part in self.names.split(",") if (name := part.strip())))
        if QUICK in given or ALL in given:
            others = [name for name in given if name not in (QUICK, ALL)]
            given = list(dict.fromkeys([*(name for name in scheduler_names() if name != self.own), *others]))
        return given

    def _settings_texts(self) -> list[str]:
        return [text.strip() for text in self.settings.split(";") if text.strip()]


def is_foreign(name: str) -> bool:
    """Return whether a scheduler belongs to another package, and so runs in its own process."""
    return not is_java(name) and name not in SCHEDULERS


def _params_of(name: str) -> type:
    try:
        return scheduler_type(name).params_type
    except MissingDependencyError:
        return Scheduler  # its parameters are unknown


@dataclass(frozen=True)
class MemberAnswer:
    """A valid answer of a member.

    Parameters
    ----------
    name
        Name of the member.
    answer
        Assignment as the member returned it, with reasons for unplaced executors.
    rank
        Number of violations and unplaced executors, and badness; the lowest is best.
    moves
        Whether it moves running executors.
    """

    name: str
    answer: Assignment
    rank: tuple[int, int, float]
    moves: bool

    @property
    def slots(self) -> IntArray:
        """Slot of every executor."""
        return self.answer.slot_of_executor


class Portfolio:
    """Evaluated answers of several schedulers to a problem.

    Parameters
    ----------
    problem
        Problem that the schedulers answer, with the running placement.
    evaluator
        Determines violations and badness of each answer.

    Attributes
    ----------
    answers
        Valid answers, in the order of the calls.
    left_out
        Name → reason why its answer is invalid.
    """

    def __init__(self, problem: Problem, evaluator: PlacementEvaluator) -> None:
        self.problem, self.evaluator = problem, evaluator
        self.answers: list[MemberAnswer] = []
        self.left_out: dict[str, str] = {}
        self._runs = problem.current_slot != UNPLACED
        self._allowed = len(evaluator.broken(problem.current_slot, chosen_workers=True))
        self._known: dict[bytes, tuple[int, float]] = {}

    def note(self, name: str, answer: Assignment) -> None:
        """Evaluate an answer, and record it if it is valid."""
        slots = answer.slot_of_executor
        if why := self._unusable(slots):
            self.left_out[name] = why
            return
        broken, badness = self._evaluated(slots, bool(answer.num_workers))
        if broken > self._allowed:
            self.left_out[name] = f"{counted(broken, 'limit')} broken"
            return
        moves = bool(np.any((slots != self.problem.current_slot) & self._runs))
        left = int(np.count_nonzero(slots == UNPLACED))
        self.answers.append(MemberAnswer(name, answer, (broken, left, badness), moves))

    def note_current(self) -> None:
        """Record the running placement as an answer, if it is complete."""
        if self._runs.all():
            self.note(WHAT_RUNS, Assignment(self.problem.current_slot))

    def none_usable(self, name: str, params: Params) -> tuple[Assignment, str]:
        """Return the calling scheduler's answer if no answer is valid: no change, and the reason."""
        why = f"none of {counted(len(self.left_out), 'answer')} can be used: {left_out_text(self.left_out)}"
        waiting = np.unique(self.problem.executor_topology[~self._runs]).tolist()
        return answer(
            self.problem, name, params, CompletePlan(self.problem.current_slot, dict.fromkeys(waiting, (why,)))
        ), why

    def ask(self, name: str, scheduler: Scheduler, keep_running: bool) -> None:
        """Run a scheduler on the waiting executors, and unless `keep_running` also from scratch."""
        for variant in self._ways(scheduler, keep_running):
            try:
                self.note(name, self._answer_of(name, variant))
            except Exception as error:  # a failing member does not affect the others
                self.left_out[name] = f"failed: {' '.join(str(error).split()) or type(error).__name__}"

    def _answer_of(self, name: str, scheduler: Scheduler) -> Assignment:
        """Return an answer; if CPU is no constraint, rerun a scheduler that leaves something out for it."""
        answer = checked(self.problem, scheduler.schedule(self.problem), name)
        if not self.evaluator.soft_cpu or np.all(answer.slot_of_executor != UNPLACED):
            return answer
        again = checked(self.problem, scheduler.schedule(with_room_for_cpu(self.problem)), name)
        lacking = (int(np.count_nonzero(each.slot_of_executor == UNPLACED)) for each in (again, answer))
        return again if next(lacking) < next(lacking) else answer

    def _ways(self, scheduler: Scheduler, keep_running: bool) -> Iterator[Scheduler]:
        moves = declared(scheduler).moves_running
        if moves or not self._runs.all():
            yield scheduler
        if self._runs.any() and not moves and not keep_running:
            yield FromScratchScheduler(scheduler)

    def _unusable(self, slots: IntArray) -> str:
        """Return why an answer is invalid, constraints apart; empty if it is valid."""
        placed = slots != UNPLACED
        if stopped := int(np.count_nonzero(self._runs & ~placed)):
            return f"it would stop {counted(stopped, 'executor')}"
        topology, count = self.problem.executor_topology, len(self.problem.topologies)
        sizes, own, ran = (np.bincount(topology[each], minlength=count) for each in (..., placed, self._runs))
        partly = (own > 0) & (own < sizes) & (ran == 0)
        return f"it places a part of {counted(int(partly.sum()), 'topology')}" if partly.any() else ""

    def _evaluated(self, slots: IntArray, chosen_workers: bool) -> tuple[int, float]:
        """Return violations and badness, cached as several schedulers may give the same answer."""
        key = slots.tobytes() + bytes([chosen_workers])
        if key not in self._known:
            self._known[key] = len(self.evaluator.broken(slots, chosen_workers)), self.evaluator.badness(slots)
        return self._known[key]


def best_of(answers: Sequence[MemberAnswer]) -> list[MemberAnswer]:
    """Return the answers, best first; ties, up to rounding, keep their order."""
    ranked: list[MemberAnswer] = []
    left = sorted(range(len(answers)), key=lambda number: answers[number].rank)
    while left:
        broken, unplaced, badness = answers[left[0]].rank
        most = broken, unplaced, badness + _ROUNDING * max(abs(badness), 1.0)
        alike = [number for number in left if answers[number].rank <= most]
        ranked += [answers[number] for number in sorted(alike)]
        left = left[len(alike) :]
    return ranked


def left_out_text(left_out: Mapping[str, str]) -> str:
    """Return the left-out members with reasons as text, grouped by reason."""
    why: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        why.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in why.items())
