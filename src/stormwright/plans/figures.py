"""Figures of a plan: predictions before and after it, pauses, kinds of moves, and outcomes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from stormwright.plans.modes import MoveKind


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
        Traffic between nodes, in tuples/s of all topologies.
    nodes, workers
        Numbers of nodes and of workers with an executor.
    bottleneck
        Limit of the topology with the least headroom.
    violations
        Violated constraints, a sentence each.
    score
        0 to 100, as defined in `stormwright.controller.placement_figures`.
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
        Slot of the worker, as ``node:port`` with the name of the node.
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
