"""A plan: one change of a cluster, from its proposal through storage to the API.

Whether the service decided it, a person asked for it, a node is drained or a move is rolled back: it is a `Plan`. It is
proposed (`stormwright.controller.plans`), stored (`stormwright.service.plans.store`), executed, evaluated and rolled
back (`stormwright.service.plans.executor`), and answered by the API as it is here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stormwright.modes import MoveKind

#: Origin of a plan: the service decided it, a person asked for it, a node is drained, or moves are rolled back.
Origin = Literal["service", "person", "drain", "rollback"]

#: State of a plan.
#:
#: ``planning`` (being made), ``planned`` (may be applied), ``proposed`` (by the service, waits for a person),
#: ``applying``, ``evaluating`` (a stage has moved and is compared with its prediction), ``waiting`` (the outcome is
#: unclear and needs a person), ``stopped``, ``rolling_back``; and the final ones ``done``, ``rolled_back``, ``failed``
#: and ``discarded``.
PlanState = Literal[
    "planning",
    "planned",
    "proposed",
    "applying",
    "evaluating",
    "waiting",
    "stopped",
    "rolling_back",
    "done",
    "rolled_back",
    "failed",
    "discarded",
]

#: States in which a plan is active: nothing else may move meanwhile.
ACTIVE_STATES: tuple[PlanState, ...] = ("applying", "evaluating", "rolling_back")

#: States in which a plan may be applied for the first time.
OPEN_STATES: tuple[PlanState, ...] = ("planned", "proposed")

#: States in which a plan waits for a person to go on.
HALTED_STATES: tuple[PlanState, ...] = ("waiting", "stopped")

#: States that a plan leaves without a person.
IN_PROGRESS_STATES: tuple[PlanState, ...] = ("planning", *ACTIVE_STATES)

#: States that a plan does not leave.
FINAL_STATES: tuple[PlanState, ...] = ("done", "rolled_back", "failed", "discarded")

#: State of a step.
StepState = Literal["planned", "moving", "moved", "failed", "rolled_back"]

#: Objective of a plan.
Goal = Literal["throughput", "latency", "nodes", "balanced", "traffic"]


class Shape(BaseModel):
    """Base of responses of the API; those of a later service may have further fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Range(Shape):
    """A value with its interval; null where an end is infinite."""

    value: float | None
    low: float | None
    high: float | None


class Side(Shape):
    """Prediction for all topologies together, before or after a plan.

    Parameters
    ----------
    reachable_tps
        Highest rate of all topologies, in tuple trees/s.
    latency_ms
        Mean complete latency over topologies; None if none is known.
    traffic_tps
        Tuples/s between nodes.
    nodes, workers
        Number in use.
    bottleneck
        Limit of the topology with the least headroom.
    violations
        Violated constraints, a sentence each.
    score
        0 to 100, as defined in `stormwright.controller.plans.description`.
    """

    reachable_tps: Range
    latency_ms: Range | None
    traffic_tps: float
    nodes: int
    workers: int
    bottleneck: str
    violations: tuple[str, ...]
    score: float


class TopologySide(Shape):
    """Prediction for one topology, as in `Side`."""

    reachable_tps: Range
    latency_ms: Range | None
    bottleneck: str


class MoveKindReport(Shape):
    """How a topology can be moved.

    Parameters
    ----------
    kind, reason
        Kind of the move, and why in one sentence.
    wait_s
        Maximum time in seconds after the pause until its windows are empty; 0 without windows, None if they never are.
    replayed, lost
        Predicted number of tuple trees that are replayed, and of tuples that are lost; None if unknown.
    """

    kind: MoveKind
    reason: str
    wait_s: float | None
    replayed: int | None
    lost: int | None


class HeapChange(Shape):
    """Heap of a worker that starts.

    Parameters
    ----------
    worker
        Its slot (``node:port``).
    before_mb, after_mb
        Size in MB of the heap of the worker from which most of its executors come, and of its own; None if unknown.
    used_mb
        Predicted use by live objects; None if it was not measured.
    too_small
        Whether the use with headroom exceeds the size; as in a worker that the topology has now.
    """

    worker: str
    before_mb: float | None
    after_mb: float | None
    used_mb: float | None
    too_small: bool

    def __str__(self) -> str:
        sizes = [each for each in (self.before_mb, self.after_mb) if each is not None]
        changes = sizes if len(set(sizes)) > 1 else sizes[:1]
        used = "" if self.used_mb is None else f", used {self.used_mb:,.0f}"
        text = f"heap of {self.worker} {' → '.join(f'{each:,.0f}' for each in changes)} MB{used}"
        return f"{text}: too small" if self.too_small else text


class PlannedTopology(Shape):
    """A topology that a plan moves.

    Parameters
    ----------
    topology, name
        Its id and name.
    executors, workers_started, workers_stopped, workers_unchanged
        Executors that end in another slot; slots in which a worker starts or stops, detours included; workers that keep
        running.
    pause_s
        Expected silence of its spouts.
    pause_from
        Source of that expectation.
    kind
        How it is moved; None in plans of older versions.
    before, after
        Its predictions; None if it was not measured.
    heaps
        Heaps of workers that start, where the size changes or is scarce; the scarcest first.
    """

    topology: str
    name: str
    executors: int
    workers_started: int
    workers_stopped: int
    workers_unchanged: int
    pause_s: Range
    pause_from: str
    kind: MoveKindReport | None = None
    before: TopologySide | None = None
    after: TopologySide | None = None
    heaps: tuple[HeapChange, ...] = ()


class PlannedMove(Shape):
    """One topology in one step: workers (``node:port``) that stop and start; `arrives` is False on a detour."""

    topology: str
    executors: int
    stops: tuple[str, ...]
    starts: tuple[str, ...]
    arrives: bool


class PlannedStep(Shape):
    """Topologies that move together; steps of one `stage`, numbered from 0, are evaluated together."""

    number: int
    stage: int
    state: StepState
    moves: tuple[PlannedMove, ...]


#: Verdicts for people; these two are about the change, whether that is a rise or a fall.
_VERDICTS = {"less": "changed less than promised", "more": "changed more than promised"}


class StageEvaluation(Shape):
    """Outcome for a topology: a quantity relative to its value before."""

    topology: str
    quantity: str
    predicted: float
    measured: float | None
    low: float | None
    high: float | None
    verdict: str

    @property
    def verdict_text(self) -> str:
        """The verdict for people."""
        return _VERDICTS.get(self.verdict, self.verdict)


class PlanSummary(Shape):
    """A plan as lists show it.

    Parameters
    ----------
    id
        Identifier.
    state, why
        Its state, and the reason for it.
    origin
        Where it comes from.
    goal, by, reason, created_ms, age_s
        Its objectives, author, reason, creation time in ms since 1970, and age.
    topologies, step_count, steps_completed, stage, stages
        Numbers of topologies that move, of steps, of completed ones; current stage, and number of stages.
    score_before, score_after
        As in `Side`; None until it is made.
    gain
        Description of its predicted gain.
    decision
        Its entry of the history, once it is applied.
    approved_by
        Who approved it; ``stormwright`` for a plan that the mode ``auto`` approves.
    auto_apply
        Whether it is applied as soon as it is made.
    outdated
        Why it cannot be applied any more, as the cluster has changed since it was made; empty if it can.
    """

    id: str
    state: PlanState
    why: str
    origin: Origin
    goal: str
    by: str
    reason: str
    created_ms: int
    age_s: float
    topologies: int = 0
    step_count: int = 0
    steps_completed: int = 0
    stage: int = 0
    stages: int = 0
    score_before: float | None = None
    score_after: float | None = None
    gain: str = ""
    decision: int | None = None
    approved_by: str = ""
    auto_apply: bool = False
    outdated: str = ""


class Plan(PlanSummary):
    """A plan with its prediction, steps and evaluation.

    Parameters
    ----------
    before, after
        Predictions for all topologies together; None until it is made.
    moved, steps
        Topologies that move, and the steps in order.
    moving, moving_s
        Topologies (names) that are paused to be moved now, and for how many seconds; None if unknown.
    left_s
        Expected seconds until the plan is complete, while it is applied.
    worse
        What gets worse by the plan: limits newly exceeded, and figures, as texts.
    blocked
        Topologies (names) that stay although they should move, each with the reason.
    duration_s
        Expected duration, including the evaluation of stages.
    gap_percent, proof
        Proven maximum improvement of any placement over the planned one, in the first objective; None if nothing is
        proven. And its description.
    evaluations
        Outcomes of topologies.
    """

    before: Side | None = None
    after: Side | None = None
    moved: tuple[PlannedTopology, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    moving: tuple[str, ...] = ()
    moving_s: float | None = None
    left_s: float | None = None
    worse: tuple[str, ...] = ()
    blocked: dict[str, str] = Field(default_factory=dict)
    duration_s: float = 0.0
    gap_percent: float | None = None
    proof: str = ""
    evaluations: tuple[StageEvaluation, ...] = ()

    @property
    def pauses_s(self) -> list[float]:
        """Expected pauses of all topologies in seconds, with the ends of their intervals."""
        ranges = [each.pause_s for each in self.moved]
        return [end for each in ranges for end in (each.low, each.value, each.high) if end is not None]
