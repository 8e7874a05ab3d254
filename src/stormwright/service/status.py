"""Status of a service: the document behind its status page and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stormwright.controller.reports import MoveReport
from stormwright.controller.tally import NodeStandbys
from stormwright.pipeline.monitoring.drift import Drift
from stormwright.pipeline.streaming.progress import StreamProgress
from stormwright.service.memory import EventCounts


@dataclass(frozen=True)
class ServiceStatus:
    """Status of a service at one moment.

    Parameters
    ----------
    scheduler, initial
        Schedulers of running topologies, and of topologies without a slot.
    decision
        Reason of the last decision; None before the first.
    moves
        Moves of the last decision.
    drift
        Loads that have changed since they were last used for a decision.
    pipeline
        Progress of the stream of loads.
    history
        `storage.history.ServiceHistory.status`, with ``closed_panes``: why complete panes have not reached it.
    evaluation
        Evaluations of moves, as in `storage.history.ServiceHistory.evaluation_status`.
    costs
        Costs of messages and workers with their accuracy, as in `storage.calibration.CostCalibration.status`.
    objective
        Quantity that the triggers refer to.
    waits
        Why topologies stay because too little was measured, a sentence for each kind of reason.
    waiting
        Number of these topologies.
    staying
        Topology → why the last decision left it where it is, whatever could be gained.
    hold, hold_why
        Why moves are not allowed now: a code (`stormwright.controller.safety.holds.HoldCode`) and a sentence, or empty.
    anomalies
        Open anomalies, as in `stormwright.client.shapes.Anomaly`.
    budget
        Current move budget, as in `safety.move_budget.MoveBudgetKeeper.status`.
    pair
        Leadership, as in `service.leader_election.leadership.Leadership.status`.
    standbys
        Idle standby workers by host, as `controller.tally.NodeStandbys`; only of nodes with workers that report them.
    damaged
        Rows of the database that cannot be read and were set aside, a text each.
    refused
        Topology → rolled-back placements that are not tried again now, with the outcome.
    """

    scheduler: str
    initial: str
    decision: str | None
    moves: Sequence[MoveReport]
    counts: EventCounts
    drift: Sequence[Drift]
    pipeline: StreamProgress
    history: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    costs: Mapping[str, Any]
    objective: str
    waits: Sequence[str] = ()
    waiting: int = 0
    staying: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    standbys: Mapping[str, NodeStandbys] = field(default_factory=dict)
    hold: str = ""
    hold_why: str = ""
    anomalies: Sequence[Mapping[str, Any]] = field(default_factory=list)
    budget: Mapping[str, Any] = field(default_factory=dict)
    pair: Mapping[str, Any] = field(default_factory=dict)
    damaged: Sequence[str] = field(default_factory=list)
