"""Schemas of the service's API, shared by service, client and dashboard.

It is longer than other modules, as all shapes are in one place.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

# Shapes -------------------------------------------------------------------------------------------

#: Where a plan stands.
#:
#: ``planning`` (being made), ``planned`` (may be applied), ``proposed`` (made by the service itself, waits for a
#: person), ``applying``, ``judging`` (a stage has moved and is compared with what was promised), ``waiting`` (that is
#: unclear: for a person), ``stopped``, ``taking back``; then ``done``, ``taken back``, ``failed`` and ``discarded``,
#: which are final.
PlanState = Literal[
    "planning",
    "planned",
    "proposed",
    "applying",
    "judging",
    "waiting",
    "stopped",
    "taking back",
    "done",
    "taken back",
    "failed",
    "discarded",
]

StepState = Literal["planned", "moving", "moved", "back"]
Goal = Literal["throughput", "latency", "nodes", "balanced", "traffic"]
Mode = Literal["observe", "suggest", "auto"]

#: What is not as it should be, and what the service does about it: acts, as far as its mode lets it; tells; or nothing.
AnomalyKind = Literal["slow-node", "node-lost", "overload", "drift"]
Response = Literal["fix", "check", "ignore"]

#: Why a change is made, and by whom: both stay in the history.
Reason = Annotated[str, Field(min_length=1, max_length=1000)]
Who = Annotated[str, Field(min_length=1, max_length=200)]
Patterns = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=500)], ...], Field(max_length=1000)]


class Shape(BaseModel):
    """Base of responses; those of a later service may have further fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Asked(BaseModel):
    """Base of requests: unknown keys are faults, and no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Range(Shape):
    """A value with its interval; null where an end is infinite."""

    value: float | None
    low: float | None
    high: float | None


#: What is predicted; a service that is upgraded finds plans in its state that call it `throughput_tps`.
_REACHABLE = Field(validation_alias=AliasChoices("reachable_tps", "throughput_tps"))


class Side(Shape):
    """Prediction for all topologies together, before or after a plan.

    Parameters
    ----------
    reachable_tps
        Tuple trees a second that all topologies can come to; of plans that an earlier version kept, `throughput_tps`.
    latency_ms
        Mean complete latency, over topologies; None where none is known.
    traffic_tps
        Tuples a second between nodes.
    nodes, workers
        In use.
    bottleneck
        What limits the topology with the least headroom.
    violations
        Limits that are broken, a sentence each.
    score
        0 to 100, as `stormwright.controller.plans.description` defines it.
    """

    reachable_tps: Range = _REACHABLE
    latency_ms: Range | None
    traffic_tps: float
    nodes: int
    workers: int
    bottleneck: str
    violations: tuple[str, ...]
    score: float


class TopologySide(Shape):
    """Prediction for one topology, as in `Side`."""

    reachable_tps: Range = _REACHABLE
    latency_ms: Range | None
    bottleneck: str


class PlannedTopology(Shape):
    """A topology that a plan moves.

    Parameters
    ----------
    topology, name
        Its id and name.
    executors, workers_started, workers_stopped, workers_kept
        That move, start, stop and run on, trips to spare slots included.
    pause_s
        How long its spouts will be silent.
    pause_from
        What that is known from.
    before, after
        What is predicted of it; None where it was not measured.
    """

    topology: str
    name: str
    executors: int
    workers_started: int
    workers_stopped: int
    workers_kept: int
    pause_s: Range
    pause_from: str
    before: TopologySide | None = None
    after: TopologySide | None = None


class PlannedMove(Shape):
    """One topology in one step: workers (``node:port``) that stop and start; `arrives` is False on a detour."""

    topology: str
    executors: int
    stops: tuple[str, ...]
    starts: tuple[str, ...]
    arrives: bool


class PlannedStep(Shape):
    """Topologies that move together; `stage` numbers what is evaluated together, from 0."""

    number: int
    stage: int
    state: StepState
    moves: tuple[PlannedMove, ...]


class StageEvaluation(Shape):
    """Outcome for a topology: a quantity relative to its value before."""

    topology: str
    quantity: str
    predicted: float
    measured: float | None
    low: float | None
    high: float | None
    verdict: str


class PlanLine(Shape):
    """Summary of a plan.

    Parameters
    ----------
    id
        Names it.
    state, why
        Where it stands, and what there is to say of that.
    kind
        ``plan``, or ``revert`` of what the history has.
    goal, by, reason, created_ms, age_s
        What it is for, who asked and why, when, and how long ago.
    topologies, steps, steps_made, stage, stages
        How many move, in how many steps, how many of these are made; which stage is under way, of how many.
    score_before, score_after
        As in `Side`; None while it is made.
    gain
        What it gains, in words.
    decision
        Its number in the history once it is applied.
    approved_by
        Who applied it.
    begins
        Whether it begins by itself once it is made.
    """

    id: str
    state: PlanState
    why: str
    kind: Literal["plan", "revert"]
    goal: str
    by: str
    reason: str
    created_ms: int
    age_s: float
    topologies: int = 0
    steps: int = 0
    steps_made: int = 0
    stage: int = 0
    stages: int = 0
    score_before: float | None = None
    score_after: float | None = None
    gain: str = ""
    decision: int | None = None
    approved_by: str = ""
    begins: bool = False


class Plan(PlanLine):
    """A plan with all details.

    Parameters
    ----------
    before, after
        What is predicted of all topologies together; None while it is made.
    moved, made
        Topologies that move, and the steps in their order.
    left
        Topologies (names) that stay although they were to move, each with the reason.
    lasts_s
        How long all of it takes, with what is measured between stages.
    gap_percent, proof
        By how much, at most, any placement is better in the first goal than what runs then; None where that is not
        proven. And what is, in words.
    judged
        What came of topologies.
    """

    before: Side | None = None
    after: Side | None = None
    moved: tuple[PlannedTopology, ...] = ()
    made: tuple[PlannedStep, ...] = ()
    left: dict[str, str] = Field(default_factory=dict)
    lasts_s: float = 0.0
    gap_percent: float | None = None
    proof: str = ""
    judged: tuple[StageEvaluation, ...] = ()


class MoveEntry(Shape):
    """A topology in the history: its move and the outcome; `failure` says why it did not move."""

    topology: str
    name: str
    pause_s: float | None
    promised: dict[str, float | None]
    judged: tuple[StageEvaluation, ...]
    failure: str


class HistoryEntry(Shape):
    """An entry of the history: a change, its author and reason.

    Parameters
    ----------
    n
        Its number, for `revert`.
    kind
        ``plan``, ``revert``, ``auto`` (the service by itself), ``taken back``, ``modes``,
        ``drain``, ``uncordon``.
    plan
        The plan that was applied; empty where there was none.
    """

    n: int
    at_ms: int
    kind: str
    who: str
    reason: str
    text: str
    plan: str
    moves: tuple[MoveEntry, ...]


class Modes(_Asked):
    """What the service may do automatically.

    Parameters
    ----------
    default
        ``observe``: it tells what would move. ``suggest``: it makes plans that a person applies. ``auto``: it moves.
    topologies
        Name of a topology, or a pattern with ``*``, → its mode; the first that fits counts.
    frozen
        Why nothing moves at all, whoever asks; empty where things may.
    frozen_until_ms
        When that ends by itself, in ms since 1970; None where somebody has to end it.
    windows, time_zone
        When the service moves things by itself, as ``Mon-Fri 22:00-04:00`` of a time zone as in ``Europe/Berlin``; at
        any time where there are no windows.
    two_people
        Whether a plan is applied by somebody else than who asked for it only.
    responses
        Kind of an anomaly → what is done about it, where that is not the default.
    version
        Grows with each change. A change that names one is refused where it is no longer the newest; one that names none
        holds whatever others have said meanwhile.
    warnings
        What may not be meant so, in the service's answers: names and patterns that fit no topology which is there. In a
        change it counts for nothing, so that what the service told may be sent back.
    """

    default: Mode = "observe"
    topologies: dict[str, Mode] = Field(default_factory=dict)
    frozen: str = ""
    frozen_until_ms: Annotated[int, Field(ge=0, le=253_402_300_799_999)] | None = None
    windows: tuple[str, ...] = ()
    time_zone: Annotated[str, Field(max_length=100)] = "UTC"
    two_people: bool = False
    responses: dict[AnomalyKind, Response] = Field(default_factory=dict)
    version: int = 0
    warnings: tuple[str, ...] = ()


class ModesChange(Modes):
    """Modes that are to hold from now on."""

    reason: Reason
    by: Who


class PlanRequest(_Asked):
    """Request to make a plan.

    Parameters
    ----------
    goals
        What it is to be better in, the most important first; what the service goes by where there are none.
    only
        ``overloaded``: the fewest moves that end all broken limits.
    topologies, nodes
        Patterns with ``*``: only such topologies move, and only such that run on such a node; all where empty.
    least_gain_percent
        What it has to gain; None for what the service asks for by itself.
    """

    reason: Reason
    by: Who
    goals: Annotated[tuple[Goal, ...], Field(max_length=4)] = ()
    only: Literal["overloaded"] | None = None
    topologies: Patterns = ()
    nodes: Patterns = ()
    least_gain_percent: Annotated[float, Field(ge=0, le=100)] | None = None


class ChangeRequest(_Asked):
    """Base of changes: author and reason."""

    reason: Reason
    by: Who


class Plans(Shape):
    """Plans, the newest first."""

    plans: tuple[PlanLine, ...]


class OtherNode(Shape):
    """An alternative node for an executor.

    Parameters
    ----------
    node, supervisor, host
        Its name, the id of its supervisor, and its host.
    cost_change
        Weighted tuples/s that the cost would rise by.
    joins
        The worker that it would join there; None for a new one.
    """

    node: str
    supervisor: str
    host: str
    cost_change: float
    joins: str | None


class RuledOut(Shape):
    """Nodes that could not take an executor, and the reason."""

    nodes: int
    kind: str
    text: str


class Explanation(Shape):
    """Why executors of one component, which differ in nothing, are where they are.

    Parameters
    ----------
    executors
        Numbered within the topology.
    slot
        Where it runs; None where it has none.
    text
        How many nodes are ruled out by what; of one without a slot as Storm's UI has it.
    shortages
        What those without a slot lack together.
    ruled_out, best
        All that are ruled out, and some of the others, the cheapest first.
    """

    topology: str
    component: str
    executors: tuple[int, ...]
    slot: str | None
    text: str
    shortages: tuple[str, ...]
    ruled_out: tuple[RuledOut, ...]
    best: tuple[OtherNode, ...]


class Explained(Shape):
    """Explanations of executors' places; `more` is whether some were left out."""

    explanations: tuple[Explanation, ...]
    more: bool


class History(Shape):
    """Entries of the history, newest first; `more` is whether there are older ones."""

    done: tuple[HistoryEntry, ...]
    more: bool


class FieldError(Shape):
    """One fault of a request, with its JSON path."""

    path: str
    message: str


class ErrorResponse(Shape):
    """Response of every endpoint that fails or refuses."""

    error: str
    faults: tuple[FieldError, ...] = ()


# Nodes and holds ----------------------------------------------------------------------------------
# What goes over the service's API of nodes that take nothing new, and of what keeps things from moving.


class Drained(Shape):
    """A drained host.

    Parameters
    ----------
    host, nodes
        Its name, and the ids of its supervisors.
    since_ms, by, reason
        Since when, who wanted it, and why.
    plan
        The plan that empties it; empty where there is none.
    workers
        That are still on it; None where that is not known.
    """

    host: str
    nodes: tuple[str, ...]
    since_ms: int
    by: str
    reason: str
    plan: str = ""
    workers: int | None = None


class Drains(Shape):
    """All drained hosts, in the order in which they were drained."""

    drained: tuple[Drained, ...]


class DrainRequest(ChangeRequest):
    """Request to drain a node; `only_cordon` keeps its workers there, `wait` only makes the plan."""

    only_cordon: bool = False
    wait: bool = False


class DrainResponse(Shape):
    """A drained host, and the plan that empties it; None if it is empty, or its workers stay."""

    drained: Drained
    plan: Plan | None = None


class Anomaly(Shape):
    """A detected anomaly.

    Parameters
    ----------
    kind, node, supervisor, text
        What it is, the node's name and the id of its supervisor, and a sentence.
    since_ms
        Since when it is known.
    response
        What the modes say of its kind.
    done, waits
        What was done about it, and why nothing was yet.
    """

    kind: AnomalyKind
    node: str
    supervisor: str = ""
    text: str
    since_ms: int
    response: Response
    done: str = ""
    waits: str = ""


class Anomalies(Shape):
    """All open anomalies, oldest first."""

    anomalies: tuple[Anomaly, ...]


# Health -------------------------------------------------------------------------------------------
# What goes over the service's API of whether all is well: the first page and ``stormwright status`` read it.

#: ``bad``: something does not work. ``warn``: something is short. ``note``: good to know.
Level = Literal["bad", "warn", "note"]


class Concern(Shape):
    """Something that needs attention: its level, a sentence, and the page with details."""

    level: Level
    text: str
    page: str


class Overview(Shape):
    """Health of the service, its next and last changes, and pending approvals.

    Parameters
    ----------
    service
        Name and version.
    well, verdict
        Whether nothing needs a look, which it does where nothing is known yet; and that in words.
    findings
        What needs a look, alarms and anomalies among it, the worst first. Notes alone leave all well.
    mode, frozen, scheduler
        What it does by itself, why nothing moves (empty where things may), and who decides.
    nimbus_age_s, load_age_s
        How long ago Nimbus has asked and the newest load was measured; None where that never was.
    topologies, executors, nodes
        That there are; None while that is not known.
    rate_tps
        Measured tuple trees a second of all topologies; None while that is not known.
    decision
        Why something was to move at the last look, or why nothing was; empty before the first.
    waits
        Why topologies stay because too little of them was measured.
    under_way
        Plans that are being made, move something, or were stopped, and those of which a person has to judge a stage.
    waiting
        Plans that would move something, and wait for a person to apply them.
    done
        What was done last, changes of mode left out, the newest first.
    """

    service: str
    well: bool
    verdict: str
    findings: tuple[Concern, ...]
    mode: Mode = "observe"
    frozen: str = ""
    scheduler: str = ""
    nimbus_age_s: float | None = None
    load_age_s: float | None = None
    topologies: int | None = None
    executors: int | None = None
    nodes: int | None = None
    rate_tps: float | None = None
    decision: str = ""
    waits: tuple[str, ...] = ()
    under_way: tuple[PlanLine, ...] = ()
    waiting: tuple[PlanLine, ...] = ()
    done: tuple[HistoryEntry, ...] = ()
