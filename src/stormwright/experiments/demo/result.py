"""What came of a demonstration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stormwright.controller.policy import Decision
from stormwright.controller.reports import MoveReport
from stormwright.experiments.demo.measure import TopologyRun
from stormwright.experiments.demo.promise import PlacementPromise
from stormwright.experiments.demo.trials import (
    DemoVerdict,
    MeasuredStart,
    MeasuredStretch,
    PlacementTrial,
    verdict_of,
)
from stormwright.model import Problem, TopologyAssignment
from stormwright.pipeline.streaming.progress import Progress

#: Parts of a figure before from which it counts as kept, and beyond which as more.
_AS_MUCH, _MORE = 0.95, 1.05


@dataclass(frozen=True)
class TopologyResult:
    """One topology before and after."""

    id: str
    name: str
    before: TopologyRun
    after: TopologyRun
    silence_s: float
    begun: int
    acked: int
    failed: int
    lost: int


@dataclass(frozen=True)
class Phase:
    """Everything before the first move, or at the end.

    Parameters
    ----------
    scheduler
        By whom everything is placed.
    stretch
        When it was measured.
    placement
        Where it runs.
    promise
        What is predicted of that, by the load that was measured before the move.
    """

    scheduler: str
    stretch: MeasuredStretch
    placement: Mapping[str, TopologyAssignment]
    promise: PlacementPromise


@dataclass(frozen=True)
class DemoResult:
    """Everything the table and the report show; `problem_before` has the load that was measured before the move.

    `before` is where Storm's own scheduler put everything, and `after` where it runs at the end: after a rollback that
    is the same placement, measured again. `starts` are all that was measured in between, and `trials` what came of each
    decision of `scheduler_name`. `simulated` says how figures came about where nothing ran; it is empty where it did.
    """

    topologies: Sequence[TopologyResult]
    decision: Decision
    moves: Sequence[MoveReport]
    problem_before: Problem
    before: Phase
    after: Phase
    records: Sequence[Any]
    start_ms: float
    end_ms: float
    network: str
    pipeline: Progress | None = None
    simulated: str = ""
    scheduler_name: str = ""
    starts: Sequence[MeasuredStart] = ()
    trials: Sequence[PlacementTrial] = ()

    @property
    def verdict(self) -> DemoVerdict:
        """What came of the last decision that moved anything."""
        return verdict_of(self.trials)

    @property
    def succeeded(self) -> bool:
        """Whether nothing was lost, and something improved, stayed where it was or was rolled back."""
        return not self.lost and (not self.moves or self.improved or self.verdict in ("better", "rolled back"))

    @property
    def lost(self) -> int:
        """Tuple trees begun that were neither acked nor failed at the end, and failed ones."""
        return sum(abs(topology.lost) + topology.failed for topology in self.topologies)

    @property
    def throughput_ratio(self) -> float:
        """Summed throughput after / before."""
        before = sum(topology.before.acked_tps for topology in self.topologies)
        return sum(topology.after.acked_tps for topology in self.topologies) / before if before else 0.0

    @property
    def improved(self) -> bool:
        """Whether throughput rose; or latencies, nodes or traffic between nodes of a tree fell and it did not.

        Where nothing moved, or everything was rolled back, nothing did: what differs is chance.
        """
        if not self.moves or self.verdict == "rolled back":
            return False
        latencies = [(t.before.mean_latency_ms, t.after.mean_latency_ms) for t in self.topologies]
        faster = [late < early for early, late in latencies if early is not None and late is not None]
        fewer = (self._sum("nodes"), self._sum("inter_node_per_acked"))
        if self.throughput_ratio < _AS_MUCH:
            return False
        return (
            self.throughput_ratio > _MORE
            or (bool(faster) and all(faster))
            or any(after < _AS_MUCH * before for before, after in fewer)
        )

    def _sum(self, figure: str) -> tuple[float, float]:
        """Of a figure over all topologies, before and after."""
        before, after = (sum(getattr(getattr(t, p), figure) for t in self.topologies) for p in ("before", "after"))
        return before, after
