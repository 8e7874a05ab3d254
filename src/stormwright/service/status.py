"""What a service shows of itself: the one document behind its status page and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from stormwright.controller.reports import MoveReport
from stormwright.pipeline.monitoring.drift import Drift
from stormwright.pipeline.streaming.progress import Progress
from stormwright.service.memory import EventCounts


@dataclass(frozen=True)
class ServiceStatus:
    """A moment of a service.

    Parameters
    ----------
    scheduler, initial
        Who decides about what runs, and who places what has no slot.
    decision
        Why something was to move at the last look, or why nothing was; None before the first.
    moves
        Those of the last decision.
    drift
        Loads that are no longer those that were decided by.
    pipeline
        Where the stream of loads stands.
    history
        As `storage.history.ServiceHistory.status` gives it, with ``closed_panes``: why panes that are
        complete have not reached it.
    evaluation
        What came of moves, as `stormwright.service.storage.history.ServiceHistory.judged` gives it.
    costs
        What messages and workers cost and how well that is known, as
        `stormwright.service.storage.calibration.CostCalibration.status` gives it.
    objective
        What the triggers speak of.
    waits
        Why topologies stay because too little of them was measured, a sentence each.
    hold, hold_why
        Why nothing moves at all now, in a word (`stormwright.controller.safety.holds.Word`) and in a sentence;
        empty where things may.
    anomalies
        What is not as it should be, as `stormwright.client.shapes.Anomaly` has it.
    budget
        How many topologies one decision may move, as `safety.move_budget.MoveBudgetKeeper.told` gives it.
    pair
        Which of several services leads, as `service.leader_election.lead.Lead.told` gives it.
    refused
        Topology → what came of placements that were taken back and are not tried again now.
    """

    scheduler: str
    initial: str
    decision: str | None
    moves: Sequence[MoveReport]
    counts: EventCounts
    drift: Sequence[Drift]
    pipeline: Progress
    history: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    costs: Mapping[str, Any]
    objective: str
    waits: Sequence[str] = ()
    refused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hold: str = ""
    hold_why: str = ""
    anomalies: Sequence[Mapping[str, Any]] = field(default_factory=list)
    budget: Mapping[str, Any] = field(default_factory=dict)
    pair: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
