"""Requests and responses of the service's API, shared by service, client and dashboard."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stormwright.model.assignment import TopologyAssignment
from stormwright.plans.figures import MoveKindReport, Shape, StageEvaluation
from stormwright.plans.modes import AnomalyKind, Mode, Modes, MoveKind, RequestShape, Response
from stormwright.plans.plan import Goal, Plan, PlanSummary
from stormwright.plans.tuning import FASTER, Tuning, TuningAim

#: Reason and author of a change; both stay in the history.
Reason = Annotated[str, Field(min_length=1, max_length=1000)]
Who = Annotated[str, Field(min_length=1, max_length=200)]
Patterns = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=500)], ...], Field(max_length=1000)]

#: ``bad``: something does not work. ``warn``: something is short. ``note``: good to know.
Level = Literal["bad", "warn", "note"]


class MoveEntry(Shape):
    """A topology in the history: its move and the outcome; `failure` says why it did not move."""

    topology: str
    name: str
    pause_s: float | None
    promised: dict[str, float | None]
    evaluations: tuple[StageEvaluation, ...]
    failure: str


class HistoryEntry(Shape):
    """An entry of the history: a change, its author and reason.

    Parameters
    ----------
    n
        Its number, for `revert`.
    kind
        Origin of an applied plan (``person``, ``service``, ``drain``, ``rollback``), or a change: ``modes``, ``cordon``
        or ``uncordon``.
    plan
        The plan that was applied; empty if there was none.
    """

    n: int
    at_ms: int
    kind: str
    who: str
    reason: str
    text: str
    plan: str
    moves: tuple[MoveEntry, ...]


class ModesChange(Modes):
    """Request to replace the modes."""

    reason: Reason
    by: Who


class PlanRequest(RequestShape):
    """Request to create a plan.

    Parameters
    ----------
    goals
        Objectives, most important first; those of the service if empty.
    only
        ``overloaded``: the fewest moves that end all violations.
    topologies, nodes
        Patterns with ``*``: only matching topologies with a worker on a matching node move; all if empty.
    least_gain_percent
        Minimum gain; None for that of the service.
    allow
        Kinds of moves that are allowed although they are forbidden by default; modes of topologies take precedence.
    placements
        Placement by topology (id) that these get, whatever the gain, instead of a search.
    executors
        Topology (id) → component (id) → number of executors in its placement, where it changes.
    conf
        Topology (id) → key → value of its configuration, where it changes.
    """

    reason: Reason
    by: Who
    goals: Annotated[tuple[Goal, ...], Field(max_length=4)] = ()
    only: Literal["overloaded"] | None = None
    topologies: Patterns = ()
    nodes: Patterns = ()
    least_gain_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    allow: Annotated[tuple[MoveKind, ...], Field(max_length=6)] = ()
    placements: dict[str, TopologyAssignment] = Field(default_factory=dict, max_length=10_000)
    executors: dict[str, dict[str, Annotated[int, Field(ge=1)]]] = Field(default_factory=dict, max_length=10_000)
    conf: dict[str, dict[str, Any]] = Field(default_factory=dict, max_length=10_000)


class TuningRequest(RequestShape):
    """Request to tune a topology.

    Parameters
    ----------
    reason, by
        Reason and author, for the history.
    topology
        Name or id of the topology.
    aim
        Aim of its configuration.
    any_latency
        Whether, for throughput without a limit of latency, latency may rise; else it stays at most as it is.
    trials, pauses_s
        Budget: number of trials, and seconds of all their pauses together.
    dry_run
        Whether only the first trial is planned, and nothing is applied.
    """

    reason: Reason
    by: Who
    topology: Annotated[str, Field(min_length=1, max_length=500)]
    aim: TuningAim = FASTER
    any_latency: bool = False
    trials: Annotated[int, Field(ge=1, le=100)] = 6
    pauses_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    dry_run: bool = False


class Tunings(Shape):
    """Tunings, newest first."""

    tunings: tuple[Tuning, ...]


class ChangeRequest(RequestShape):
    """Base of changes: author and reason."""

    reason: Reason
    by: Who


class Plans(Shape):
    """Plans, newest first."""

    plans: tuple[PlanSummary, ...]


class OtherNode(Shape):
    """An alternative node for an executor.

    Parameters
    ----------
    node, supervisor, host
        Its name, the id of its supervisor, and its host.
    cost_change
        Increase of the cost, in weighted tuples/s.
    joins
        Worker that it would join there; None for a new one.
    """

    node: str
    supervisor: str
    host: str
    cost_change: float
    joins: str | None


class ExcludedNodes(Shape):
    """Nodes that cannot take an executor, and the reason."""

    nodes: int
    kind: str
    text: str


class Explanation(Shape):
    """The slot of identical executors of one component, or the reason why they have none.

    Parameters
    ----------
    executors
        Numbered within the topology.
    slot
        Their slot; None if they have none.
    text
        Counts of excluded nodes by reason; for unplaced executors the text in Storm's UI.
    shortages
        Resources that unplaced executors lack in total.
    ruled_out, best
        Excluded nodes, and some of the others, cheapest first.
    """

    topology: str
    component: str
    executors: tuple[int, ...]
    slot: str | None
    text: str
    shortages: tuple[str, ...]
    ruled_out: tuple[ExcludedNodes, ...]
    best: tuple[OtherNode, ...]


class Explanations(Shape):
    """Explanations of executors' slots; `more` is whether some were left out.

    `kinds` gives, by id, how topologies of the explanations can be moved.
    """

    explanations: tuple[Explanation, ...]
    more: bool
    kinds: dict[str, MoveKindReport] = Field(default_factory=dict)


class History(Shape):
    """Entries of the history, newest first; `more` is whether there are older ones."""

    entries: tuple[HistoryEntry, ...]
    more: bool


class FieldError(Shape):
    """One fault of a request, with its JSON path."""

    path: str
    message: str


class ErrorResponse(Shape):
    """Response of every endpoint that fails or refuses."""

    error: str
    faults: tuple[FieldError, ...] = ()


class DrainedHost(Shape):
    """A drained host.

    Parameters
    ----------
    host, nodes
        Its name, and the ids of its supervisors.
    since_ms, by, reason
        Start in ms since 1970, author and reason.
    plan
        Plan that empties it; empty if there is none.
    workers
        Number of workers still on it; None if unknown.
    """

    host: str
    nodes: tuple[str, ...]
    since_ms: int
    by: str
    reason: str
    plan: str = ""
    workers: int | None = None


class DrainedHosts(Shape):
    """All drained hosts, in the order in which they were drained."""

    drained: tuple[DrainedHost, ...]


class DrainRequest(ChangeRequest):
    """Request to drain a node; `only_cordon` keeps its workers there, `wait` only makes the plan."""

    only_cordon: bool = False
    wait: bool = False


class DrainResponse(Shape):
    """A drained host, and the plan that empties it; None if it is empty, or its workers stay."""

    drained: DrainedHost
    plan: Plan | None = None


class Anomaly(Shape):
    """A detected anomaly.

    Parameters
    ----------
    kind, node, supervisor, text
        Its kind, the node's name, the id of its supervisor, and a description.
    since_ms
        Time of its detection, in ms since 1970.
    response
        Configured response to its kind.
    action, waits
        Action taken, and the reason why none was taken yet.
    """

    kind: AnomalyKind
    node: str
    supervisor: str = ""
    text: str
    since_ms: int
    response: Response
    action: str = ""
    waits: str = ""


class Anomalies(Shape):
    """All open anomalies, oldest first."""

    anomalies: tuple[Anomaly, ...]


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
        Name and version of the service, separated by a blank.
    healthy, verdict
        Whether nothing is wrong (false while nothing is known yet), and the same as a text.
    findings
        Problems, with alarms and anomalies, worst first. Notes alone do not count as a problem.
    mode, frozen, scheduler
        Default mode, reason of a freeze (or empty), and scheduler.
    nimbus_age_s, load_age_s
        Seconds since the last poll of Nimbus and since the newest measured load; None if there was none.
    topologies, executors, nodes
        Their numbers; None while unknown.
    rate_tps
        Measured tuple trees per second of all topologies; None while unknown.
    standbys, standby_mb
        Number of idle standby workers on nodes that report them, and the mean memory of one; None while unknown.
    decision
        Reason of the last decision; empty before the first.
    waits
        Topologies that stay because too little was measured, with reasons.
    active
        Plans in progress or stopped, and those whose stage waits for a decision of a person.
    pending
        Plans with moves that wait to be applied.
    changes
        Latest entries of the journal without mode changes, newest first.
    """

    service: str
    healthy: bool
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
    standbys: int | None = None
    standby_mb: float | None = None
    decision: str = ""
    waits: tuple[str, ...] = ()
    active: tuple[PlanSummary, ...] = ()
    pending: tuple[PlanSummary, ...] = ()
    changes: tuple[HistoryEntry, ...] = ()
