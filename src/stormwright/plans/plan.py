"""A plan: one change of a cluster, from its proposal through storage to the API.

Whether the service decided it, a person requested it, a node is drained or moves are rolled back: it is a `Plan`. It is
proposed (`stormwright.controller.propose`), stored (`stormwright.service.plans.store`), executed, evaluated and rolled
back (`stormwright.service.plans.executor`), and answered by the API as it is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from stormwright.model.assignment import TopologyAssignment
from stormwright.model.cluster import WorkerSlot
from stormwright.model.cost import Cost
from stormwright.plans.figures import PlannedTopology, Shape, Side, StageEvaluation
from stormwright.plans.states import PlanState, StepState
from stormwright.plans.tuning import FASTER, TuningAim

#: Origin of a plan: the service decided it, a person asked for it, a node is drained, or moves are rolled back.
Origin = Literal["service", "person", "drain", "rollback"]

#: Author of plans that the service makes, and who approves them in mode ``auto``.
SERVICE = "stormwright"

#: Why a plan that was stopped on request is stopped; more may follow.
STOPPED = "stopped on request"

#: Objective of a plan.
Goal = Literal["throughput", "latency", "nodes", "balanced", "traffic"]

#: Anomaly without which a plan would not have been proposed; empty if it would have been.
Because = Literal["overload", "drift", ""]

_Slots = tuple[WorkerSlot, ...]


def _field(name: str, before: str) -> Any:
    """Return the annotation of a field that stored plans of older versions have under another name."""
    return Field(validation_alias=AliasChoices(name, before))


@dataclass(frozen=True)
class Leg:
    """Workers of one topology that are exchanged together; `vacated` are the nodes (ids) that it leaves entirely."""

    after: TopologyAssignment
    stopped_workers: Annotated[_Slots, _field("stopped_workers", "stopped")]
    started_workers: Annotated[_Slots, _field("started_workers", "started")]
    unchanged_workers: Annotated[_Slots, _field("unchanged_workers", "unchanged")]
    vacated: tuple[str, ...]


@dataclass(frozen=True)
class TopologyMove:
    """A move of one topology (id and name), in one leg or in two: by way of free slots, or of none.

    `arrives` is False where it only makes room for others, in a place of which it goes on to its own later.
    `num_workers` is the new number of workers for Nimbus; None if it is unchanged. `executors` and `executors_before`
    are the numbers of executors by component (id), after and before it, of components where they change; `conf` and
    `conf_before` the same of the values by key of its configuration. Where that changes, no worker runs after the first
    leg: a supervisor that has the topology starts workers with the configuration of before.
    """

    topology: str
    name: str
    before: TopologyAssignment
    after: TopologyAssignment
    moved_executors: Annotated[int, _field("moved_executors", "moved")]
    stopped_workers: Annotated[_Slots, _field("stopped_workers", "stopped")]
    started_workers: Annotated[_Slots, _field("started_workers", "started")]
    unchanged_workers: Annotated[_Slots, _field("unchanged_workers", "unchanged")]
    legs: tuple[Leg, ...]
    arrives: bool = True
    num_workers: int | None = None
    executors: dict[str, int] = field(default_factory=dict)
    executors_before: dict[str, int] = field(default_factory=dict)
    conf: dict[str, Any] = field(default_factory=dict)
    conf_before: dict[str, Any] = field(default_factory=dict)

    @property
    def changes_topology(self) -> bool:
        """Whether Nimbus has to change its number of workers or of executors, or its configuration."""
        return self.num_workers is not None or bool(self.executors) or bool(self.conf)

    def before_leg(self, number: int) -> TopologyAssignment:
        """Return the placement of the topology before one of its legs, and the whole move if it has none there."""
        before = self.legs[number - 1].after if number else self.before
        return before if before.slots else self.before


@dataclass(frozen=True)
class Move:
    """A step: topologies that move together, a single one or several that exchange slots.

    Parameters
    ----------
    moves
        Move of each topology; several that exchange slots move at once.
    depends_on
        Topologies (ids) that must have moved before, because they make room for it.
    starts_per_core
        For each leg, the workers that start on a node per core of it, of the node with the most.
    number, stage, state
        Its place in the plan, and how far it has come; steps of one stage are evaluated together.
    returns
        Whether topologies go back to where they were: then those whose workers crash or hang are not drained first.
    wait_s
        Seconds for which no worker of a topology runs, until every supervisor has its new configuration.
    """

    moves: tuple[TopologyMove, ...]
    depends_on: Annotated[frozenset[str], _field("depends_on", "after")] = frozenset()
    starts_per_core: tuple[float, ...] = ()
    number: int = 0
    stage: int = 0
    state: StepState = "planned"
    returns: bool = False
    wait_s: float = 0.0

    def with_workers(self, chosen: Mapping[str, int]) -> Move:
        """Return the step with the given numbers of workers (by id) for topologies that arrive."""
        moves = (replace(m, num_workers=chosen.get(m.topology)) if m.arrives else m for m in self.moves)
        return replace(self, moves=tuple(moves)) if chosen else self

    @property
    def names(self) -> str:
        """The topologies as text."""
        return ", ".join(move.name for move in self.moves)


#: A step of a plan.
Step = Move


@dataclass(frozen=True)
class Promise:
    """Predictions for a topology after a move, relative to those before it.

    Parameters
    ----------
    inter_node
        Its traffic between nodes; None where there is none to be a multiple of.
    sustained
        Highest rate reached, as a multiple of that before; None if unpredicted.
    latency, full_latency
        Mean complete latency at the rate that was measured, and at the highest one; None where there is none.
    pending_limit
        Tuple trees that may be pending; None for no limit.
    sustained_tps, wanted_tps
        Trees/s that it is predicted to come to where it is and in its new place; None where nothing was predicted.
    worth
        What the new place is worth to it by what is wanted, the more the better; None where that is not predicted.
    rate_tps
        Trees/s as measured when it was predicted.
    cpu
        CPU of a tree, as a multiple of that before; None if unpredicted.
    """

    inter_node: float | None = None
    sustained: float | None = None
    latency: float | None = None
    full_latency: float | None = None
    pending_limit: float | None = None
    sustained_tps: float | None = None
    wanted_tps: float | None = None
    worth: float | None = None
    rate_tps: float = 0.0
    cpu: float | None = None


@dataclass(frozen=True)
class RequiredTopology:
    """A topology that moves: first task and component of its executors, its placement, and its trees/s if measured."""

    executors: tuple[tuple[int, ...], tuple[int, ...]]
    where: TopologyAssignment
    rate_tps: float | None


@dataclass(frozen=True)
class RequiredNode:
    """A node that topologies leave or enter, and whether workers may be started on it."""

    host: str
    ports: tuple[int, ...]
    resources: Mapping[str, float]
    usable: bool


@dataclass(frozen=True)
class Preconditions:
    """The state of the cluster for which a plan was made: it is applied only as long as this is unchanged.

    Parameters
    ----------
    topologies, nodes
        Topologies that move, and nodes concerned, by id.
    others
        Topology per slot (``node:port``) of workers on these nodes that do not move.
    """

    topologies: Mapping[str, RequiredTopology] = field(default_factory=dict)
    nodes: Mapping[str, RequiredNode] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Search:
    """A scheduler's answer that a plan rests on: costs of the current and of the target placement, and parameters."""

    before: Cost
    wanted: Cost
    parameters: Mapping[str, Any]


class PlanSummary(Shape):
    """A plan as lists show it.

    Parameters
    ----------
    id
        Identifier; empty for one that is not stored.
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
    rolls_back
        The plan (id) of which it rolls a stage back; empty if there is none.
    outdated
        Why it cannot be applied any more, as the cluster has changed since it was made; empty if it can.
    """

    id: str = ""
    state: PlanState = "planned"
    why: str = ""
    origin: Origin = "person"
    goal: str = ""
    by: str = ""
    reason: str = ""
    created_ms: int = 0
    age_s: float = 0.0
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
    rolls_back: str = ""
    outdated: str = ""

    @property
    def cause(self) -> str:
        """Why it moves anything, for the history and Storm's UI."""
        return self.reason if self.is_unattended else f"plan {self.id} of {self.by}: {self.reason}"

    @property
    def is_by_service(self) -> bool:
        """Whether the service proposed it."""
        return self.by == SERVICE

    @property
    def is_unattended(self) -> bool:
        """Whether the service itself approved it."""
        return self.approved_by == SERVICE


class Plan(PlanSummary):
    """A plan with its prediction, steps and evaluation.

    Parameters
    ----------
    steps
        The steps in order.
    node_names
        Name of each node (id) that they concern.
    before, after
        Predictions for all topologies together; None until it is made.
    predictions
        Figures of each topology that moves, before and after it, as predicted.
    promises
        Promise by topology id.
    because
        Anomaly without which it would not have been proposed.
    trial
        Whether the prediction is too uncertain for a promise: the topology goes back unless it is measurably better.
    aim
        By which a trial is better; of a plan for fewer cores that is none, the latency within which it stays.
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
        Outcome of each moved topology by quantity, once its stage is evaluated.
    preconditions
        What it was made for.
    request
        The request of a person.
    stop_requested
        Whether it stops as soon as no topology is on a detour.
    rollback_tries
        Number of attempts to roll its stage back that failed.
    search
        The scheduler's answer that it rests on; only until it is stored.
    """

    steps: tuple[Step, ...] = ()
    node_names: dict[str, str] = Field(default_factory=dict)
    before: Side | None = None
    after: Side | None = None
    predictions: Annotated[tuple[PlannedTopology, ...], _field("predictions", "moved")] = ()
    promises: dict[str, Promise] = Field(default_factory=dict)
    because: Because = ""
    trial: bool = False
    aim: TuningAim = FASTER
    moving: tuple[str, ...] = ()
    moving_s: float | None = None
    left_s: float | None = None
    worse: tuple[str, ...] = ()
    blocked: dict[str, str] = Field(default_factory=dict)
    duration_s: float = 0.0
    gap_percent: float | None = None
    proof: str = ""
    evaluations: tuple[StageEvaluation, ...] = ()
    preconditions: Preconditions = Field(default_factory=Preconditions)
    request: dict[str, Any] = Field(default_factory=dict)
    stop_requested: bool = False
    rollback_tries: int = 0
    search: Search | None = Field(default=None, exclude=True)

    @property
    def pauses_s(self) -> list[float]:
        """Expected pauses of all topologies in seconds, with the ends of their intervals."""
        ranges = [each.pause_s for each in self.predictions]
        return [end for each in ranges for end in (each.low, each.value, each.high) if end is not None]

    @property
    def moves(self) -> tuple[TopologyMove, ...]:
        """The moves of all steps; a topology that takes a detour has two."""
        return tuple(move for step in self.steps for move in step.moves)

    @property
    def targets(self) -> dict[str, TopologyAssignment]:
        """The placement that topologies (ids) end in."""
        return {move.topology: move.after for move in self.moves}

    def steps_of(self, stage: int) -> list[Step]:
        """Return the steps of a stage."""
        return [step for step in self.steps if step.stage == stage]

    def slot_name(self, slot: WorkerSlot) -> str:
        """Return the name of a slot for people, as ``node:port``."""
        return f"{self.node_names.get(slot.supervisor, slot.supervisor)}:{slot.port}"

    def blocked_lines(self, most: int = 10) -> Iterator[str]:
        """Yield lines about topologies that stay although they should move, at most `most` and a last one."""
        for number, (name, why) in enumerate(self.blocked.items()):
            if number == most:
                yield f"{len(self.blocked) - most:,} more stay"
                return
            yield f"{name} stays: {why}"
