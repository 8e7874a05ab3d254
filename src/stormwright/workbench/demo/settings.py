"""Size and length of a demonstration, and its requirements on a cluster, real or virtual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from stormwright.controller.objectives.outlook import LATENCY, NODES, OBJECTIVES, THROUGHPUT, TRAFFIC
from stormwright.history.evaluation.comparison import (
    LATENCY_DEVIATION,
    START_DEVIATION,
    StartComparison,
    compare_starts,
)
from stormwright.model import TopologyAssignment
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation
from stormwright.storm.local_cluster import LocalClusterConfig
from stormwright.workbench.demo.measure import TopologyRun
from stormwright.workbench.demo.promise import PlacementPromise
from stormwright.workbench.demo.submissions import Submission

if TYPE_CHECKING:
    from stormwright.workbench.demo.node_use import NodeUse

#: Part of the earlier throughput that counts as held under other objectives.
HELD = 0.97

#: Mean cores of a node of the demonstration: as few as leave JVMs room to start within a minute, so that the service
#: and Spark have the rest of a small machine, and figures are alike on larger ones.
CORES = 0.4

#: Cores of its three nodes, relative to the mean: real clusters have nodes of several generations.
UNLIKE = (1.5, 0.875, 0.625)

#: Speed of each node's link: 62 Mbit/s for a core, as a node of 16 cores with 1 Gbit/s has; and where nodes share the
#: machine's cores, so little that links are the limit.
LINK, LINK_OF_SHARED_CORES = "25mbit", "40mbit"


@dataclass(frozen=True)
class MeasuredStretch:
    """A measured stretch of time.

    Parameters
    ----------
    start_ms, end_ms
        Period of the measurement, in ms since 1970.
    ran_s
        Running time of the youngest worker at its begin, in seconds.
    nodes
        Use of each node by name.
    """

    start_ms: float
    end_ms: float
    ran_s: float
    nodes: Mapping[str, NodeUse]

    @property
    def span_ms(self) -> tuple[float, float]:
        """Begin and end."""
        return self.start_ms, self.end_ms


@dataclass(frozen=True)
class MeasuredStart:
    """One start of everything in one placement, measured once it was warm.

    Parameters
    ----------
    trial
        Number of the trial, from 1; 0 for the placement by Storm's own scheduler.
    placement
        Placement that was measured, by topology id.
    stretch
        When it was measured.
    runs
        Measurements of topologies by id.
    comparison
        Comparison with the starts of placement 0 so far; None for those.
    """

    trial: int
    placement: Mapping[str, TopologyAssignment]
    stretch: MeasuredStretch
    runs: Mapping[str, TopologyRun]
    comparison: StartComparison | None = None

    @property
    def acked_tps(self) -> float:
        """Tuple trees completed per second, over all topologies."""
        return sum(run.acked_tps for run in self.runs.values())

    @property
    def latency_ms(self) -> float | None:
        """Mean complete latency over the topologies; None if one has none."""
        known = [run.mean_latency_ms for run in self.runs.values() if run.mean_latency_ms]
        return fmean(known) if known and len(known) == len(self.runs) else None

    @property
    def nodes(self) -> int:
        """Number of nodes used, summed over topologies."""
        return sum(run.nodes for run in self.runs.values())


@dataclass(frozen=True)
class Criterion:
    """Comparison of placements by an objective.

    Parameters
    ----------
    objective
        Quantity to compare, one of `stormwright.controller.objectives.outlook.OBJECTIVES`; throughput by default.
    """

    objective: str = THROUGHPUT

    @property
    def figure(self) -> str:
        """The compared quantity."""
        return "mean latency" if self.objective == LATENCY else "throughput"

    def compare(self, before: Sequence[MeasuredStart], after: Sequence[MeasuredStart]) -> StartComparison:
        """Compare starts of two placements by a figure of which more is better (latency: its inverse).

        With another objective than throughput, a placement that lowers throughput counts as worse.
        """
        wanted = 1.0 if self.objective == THROUGHPUT else HELD
        now, then = ([start.acked_tps for start in starts] for starts in (before, after))
        held = compare_starts(now, then, wanted, START_DEVIATION)
        times = [start.latency_ms for start in (*before, *after)]
        if self.objective != LATENCY or held.verdict == "worse" or None in times:
            return held
        speeds = [1 / ms for ms in times if ms]
        return compare_starts(speeds[: len(before)], speeds[len(before) :], deviation=LATENCY_DEVIATION)

    def keeps(self, found: StartComparison, before: Sequence[MeasuredStart], after: Sequence[MeasuredStart]) -> bool:
        """Return whether a placement stays after all rounds: not worse, and on average as good as required.

        With the objective nodes it has to use fewer.
        """
        saves = self.objective != NODES or after[-1].nodes < before[-1].nodes
        return found.verdict != "worse" and found.holds and saves

    def promised(self, before: PlacementPromise, after: PlacementPromise) -> float | None:
        """Return the predicted ratio for `compare`; None if unknown."""
        if self.objective == LATENCY:
            times = [
                [each.latency_ms.value for each in prediction.topologies.values() if each.latency_ms]
                for prediction in (before, after)
            ]
            return fmean(times[0]) / fmean(times[1]) if all(times) and fmean(times[1]) else None
        now, new = (
            sum(each.rate_tps.value for each in prediction.topologies.values()) for prediction in (before, after)
        )
        return new / now if 0 < now < float("inf") and new < float("inf") else None

    def change(self, ratio: float) -> str:
        """Return a ratio of `compare` as text: the change of the figure."""
        percent = 100 * ((1 / ratio if self.objective == LATENCY and ratio else ratio) - 1)
        return f"{percent:+.0f} %".replace("-", "−")


@dataclass(frozen=True)
class TrialPlan:
    """Settings of trials of placements.

    Parameters
    ----------
    criterion
        Criterion of the comparison.
    look_back
        Whether placements that are not better are rolled back; otherwise one decision is made, measured once, and left.
    rounds
        Maximum number of starts of each placement while it is undecided.
    decisions
        Decisions at most, as long as they are rolled back.
    """

    criterion: Criterion
    look_back: bool = False
    rounds: int = 2
    decisions: int = 2


@dataclass(frozen=True)
class DemoSettings:
    """Size and length of a demonstration; times in seconds.

    Parameters
    ----------
    cluster, submissions
        Size of the cluster, and topologies to submit to it.
    scheduler, scheduler_name
        Scheduler and its name.
    warm_up_s, measure_s
        Time before the first measurement, and length of each.
    probe_interval_ms
        Interval between records of a worker.
    look_back
        Whether a placement that is not better than Storm's own is rolled back.
    rounds, decisions
        Most starts per placement while it is undecided, and most decisions, as in `TrialPlan`.
    """

    cluster: LocalClusterConfig
    submissions: Sequence[Submission]
    scheduler: Scheduler
    scheduler_name: str
    warm_up_s: float = 30.0
    measure_s: float = 30.0
    probe_interval_ms: int = 250
    look_back: bool = False
    rounds: int = 2
    decisions: int = 2

    @property
    def trial_plan(self) -> TrialPlan:
        """Settings of the trials."""
        return TrialPlan(Criterion(self.objective), self.look_back, self.rounds, self.decisions)

    @property
    def adapts(self) -> Adaptation:
        """Required gain of a move; a placement from scratch is shown whatever it gains."""
        return Adaptation(on_period=True, gains=()) if isinstance(self.scheduler, FromScratchScheduler) else ONLINE

    @property
    def objective(self) -> str:
        """Objective of moves: that of the scheduler if it has one, else less traffic."""
        chosen = getattr(getattr(self.scheduler, "params", None), "objective", TRAFFIC)
        if chosen == "auto":
            return THROUGHPUT
        return chosen if chosen in OBJECTIVES else TRAFFIC
