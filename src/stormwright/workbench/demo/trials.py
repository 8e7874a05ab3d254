"""Trials of placements: move, measure, compare with the original, and roll back if it is not better.

::

    measure A ─▶ decide ─▶ move to B ─▶ measure B ─▶ compare ─┬─ better ───────▶ B stays
         ▲                    ▲                               ├─ undecided ───▶ back to A, measure; to B, measure
         │                    └───────────────────────────────┘                 and compare again
         └── next decision ◀── measure A again ◀── roll back ◀─── worse, or no gain could be shown

This module contains the comparison, its consequences and its description.

A is where Storm's own scheduler has put everything, B where a decision wants it. Each move starts new workers, so each
measurement is one start (`stormwright.history.evaluation.comparison`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from stormwright.controller.objectives.outlook import LATENCY
from stormwright.controller.requests import NoPlan
from stormwright.history.evaluation.comparison import (
    StartComparison,
)
from stormwright.model import TopologyAssignment
from stormwright.model.humanize import counted
from stormwright.plans.plan import Plan, Promise
from stormwright.workbench.demo.promise import PlacementPromise
from stormwright.workbench.demo.settings import Criterion, MeasuredStart, TrialPlan

log = logging.getLogger(__name__)


#: Minimum relative change of a cost that is reported.
_CORRECTED = 0.05

#: Accepted, or rolled back; ``shown``: left in place regardless of the result; ``not moved``: the decision moves
#: nothing.
TrialOutcome = Literal["kept", "rolled back", "shown", "not moved"]

#: Final verdict of a demonstration.
DemoVerdict = Literal["better", "worse", "undecided", "not moved", "rolled back"]


@dataclass(frozen=True)
class CpuCorrection:
    """CPU per tuple tree in a tried placement, in µs.

    Parameters
    ----------
    predicted_us, corrected_us
        By the costs of the decision, and by costs fitted to records of this placement as well.
    measured_us
        Measured CPU per tuple tree.
    """

    predicted_us: float
    corrected_us: float
    measured_us: float

    @property
    def text(self) -> str:
        """Return a sentence; empty if almost nothing changed."""
        if abs(self.corrected_us - self.predicted_us) < _CORRECTED * self.predicted_us:
            return ""
        return (
            f"CPU of a tuple tree in that placement corrected from {self.predicted_us:,.0f} to "
            f"{self.corrected_us:,.0f} µs ({self.measured_us:,.0f} µs measured)"
        )


@dataclass(frozen=True)
class PlacementTrial:
    """A decision and its outcome.

    Parameters
    ----------
    number
        Number of the trial within the demonstration, from 1.
    decision
        Decision that was tried.
    criterion
        Criterion of the comparison.
    outcome
        Outcome of the trial.
    promise
        Prediction for the placement; None if nothing moved.
    promised
        Predicted ratio; None if unknown.
    comparison
        Comparison with the original placement; None if nothing moved.
    correction
        Correction of costs by its measurement; None if it was not rolled back, or nothing was fitted.
    """

    number: int
    decision: Plan | NoPlan
    criterion: Criterion
    outcome: TrialOutcome
    promise: PlacementPromise | None = None
    promised: float | None = None
    comparison: StartComparison | None = None
    correction: CpuCorrection | None = None

    @property
    def verdict(self) -> DemoVerdict:
        """The final verdict."""
        if self.comparison is None:
            return "not moved"
        return "rolled back" if self.outcome == "rolled back" else self.comparison.verdict

    @property
    def figures(self) -> str:
        """Return promised and measured figures; empty if nothing moved."""
        found, change = self.comparison, self.criterion.change
        if found is None:
            return ""
        ends = sorted((found.low, found.high), reverse=self.criterion.objective == LATENCY)
        promised = "" if self.promised is None else f"promised {change(self.promised)}, "
        measured = f"measured {change(found.ratio)} (95 % interval {change(ends[0])} to {change(ends[1])})"
        starts = counted(found.starts[0], "start") + f" before, {found.starts[1]} after"
        return f"{self.criterion.figure} {promised}{measured}, {starts}"

    @property
    def text(self) -> str:
        """Return the figures and the outcome as a sentence."""
        found = self.comparison
        if found is None:
            return f"nothing moved: {self.decision.reason}"
        ending: str = found.verdict
        if self.outcome == "rolled back":
            ending = "rolled back" if found.verdict == "worse" else "no gain could be shown, rolled back"
        elif self.outcome == "kept":
            ending = f"{found.verdict}, kept{'' if found.verdict == 'better' else ' as it is no worse in the mean'}"
        more = f"; {counted(found.more_starts, 'more start')} of each would decide" if found.more_starts else ""
        return f"{self.figures}: {ending}{more}"


@dataclass(frozen=True)
class DecidedPlacement:
    """A decision with its predictions.

    Parameters
    ----------
    decision
        Decision with the wanted placement.
    now, then
        Predictions for the current and for the wanted placement.
    """

    decision: Plan | NoPlan
    now: PlacementPromise
    then: PlacementPromise


class TrialStage(Protocol):
    """A cluster for trials of placements."""

    def measure(self, trial: int) -> MeasuredStart:
        """Wait until the placement of a trial is warm, and measure it."""

    def decide(self, trial: int) -> DecidedPlacement:
        """Decide once, by the newest measurement."""

    def act(self, plan: Plan) -> None:
        """Make the moves of a plan."""

    def place(self, placements: Mapping[str, TopologyAssignment], reason: str, promises: Mapping[str, Promise]) -> None:
        """Move topologies to given placements."""

    def roll_back(self, trial: int, placements: Mapping[str, TopologyAssignment], reason: str) -> None:
        """Move topologies back from the placement of a trial, which is refused from now on."""

    def correction(self, trial: int, start: MeasuredStart) -> CpuCorrection | None:
        """Return the correction of a trial's placement by the newest costs."""


@dataclass
class PlacementTrials:
    """Trials of decisions on a stage, with all measurements.

    Parameters
    ----------
    stage
        Cluster on which placements are measured.
    plan
        Settings of the trials.

    Attributes
    ----------
    starts, trials
        Measurements and trials, in order.
    """

    stage: TrialStage
    plan: TrialPlan

    def __post_init__(self) -> None:
        self.starts: list[MeasuredStart] = []
        self.trials: list[PlacementTrial] = []

    def run(self) -> None:
        """Measure, decide and try until a placement is accepted, nothing moves, or no decision is left."""
        self._measure(0)
        while len(self.trials) < (self.plan.decisions if self.plan.look_back else 1):
            number = len(self.trials) + 1
            decided = self.stage.decide(number)
            if isinstance(decided.decision, NoPlan):
                self._end(PlacementTrial(number, decided.decision, self.plan.criterion, "not moved"))
                if number == 1:
                    self._measure(0)
                return
            self._try(number, decided, decided.decision)
            if self.trials[-1].outcome != "rolled back":
                return

    def _try(self, number: int, decided: DecidedPlacement, plan: Plan) -> None:
        criterion = self.plan.criterion
        before, after = {move.topology: move.before for move in reversed(plan.moves)}, plan.targets
        self.stage.act(plan)
        found, rounds = self._measure(number), 1
        while self.plan.look_back and found.verdict == "undecided" and rounds < self.plan.rounds:
            rounds += 1
            log.info("undecided: %s; both are measured again", self._trial(number, decided, found, "shown").figures)
            self.stage.place(before, "to compare placements: where it was, once more", {})
            self._measure(0)
            self.stage.place(after, f"to compare placements: decision {number}, once more", plan.promises)
            found = self._measure(number)
        if not self.plan.look_back:
            self._end(self._trial(number, decided, found, "shown"))
        elif criterion.keeps(found, self._of(0), self._of(number)):
            self._end(self._trial(number, decided, found, "kept"))
        else:
            trial = self._trial(number, decided, found, "rolled back")
            self.stage.roll_back(number, before, trial.text)
            self._end(trial)
            tried = self._of(number)[-1]
            self._measure(0)
            correction = self.stage.correction(number, tried)
            self.trials[-1] = replace(trial, correction=correction)
            if correction is not None and correction.text:
                log.info(correction.text)

    def _trial(
        self, number: int, decided: DecidedPlacement, found: StartComparison, outcome: TrialOutcome
    ) -> PlacementTrial:
        criterion = self.plan.criterion
        promised = criterion.promised(decided.now, decided.then)
        return PlacementTrial(number, decided.decision, criterion, outcome, decided.then, promised, found)

    def _measure(self, trial: int) -> StartComparison:
        """Measure a start, and compare its placement with the original."""
        start = self.stage.measure(trial)
        own = [*self._of(trial), start]
        found = self.plan.criterion.compare(self._of(0) or own, own)
        self.starts.append(replace(start, comparison=found) if trial else start)
        return found

    def _of(self, trial: int) -> list[MeasuredStart]:
        return [start for start in self.starts if start.trial == trial]

    def _end(self, trial: PlacementTrial) -> None:
        self.trials.append(trial)
        log.info("decision %d: %s", trial.number, trial.text)


def verdict_of(trials: Sequence[PlacementTrial]) -> DemoVerdict:
    """Return the verdict of a demonstration: that of the last decision that moved anything."""
    moved = [trial.verdict for trial in trials if trial.comparison is not None]
    return moved[-1] if moved else "not moved"
