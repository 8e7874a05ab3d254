"""Result of a demonstration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.model import Problem, TopologyAssignment
from stormwright.model.link_speed import link_bits_per_s
from stormwright.pipeline.streaming.progress import StreamProgress
from stormwright.plans.plan import Plan
from stormwright.predict.prediction import NodePrediction
from stormwright.workbench.demo.measure import NodeUse, TopologyRun, fullest
from stormwright.workbench.demo.promise import PlacementPromise, TopologyPromise
from stormwright.workbench.demo.settings import DemoSettings, MeasuredStart, MeasuredStretch
from stormwright.workbench.demo.trials import DemoVerdict, PlacementTrial, verdict_of

# Table --------------------------------------------------------------------------------------------
# The demonstration's result as a table, as sentences and as JSON.


@dataclass(frozen=True)
class _Row:
    """A line of the before/after table."""

    label: str
    before: str
    after: str
    ratio: str
    better: bool


@dataclass(frozen=True)
class StartRow:
    """A row of the table of measurements: time, placement, trees/s of each topology, and the verdict."""

    second: str
    placement: str
    rates: Sequence[str]
    latency: str
    verdict: str


def table(result: DemoResult) -> list[_Row]:
    """Return the before/after table: sums, each topology, use of each node, warmth of workers."""
    rows = sums(result)
    for topology in result.topologies:
        rows += _topology_rows(topology, *(phase.promise.topologies.get(topology.id) for phase in _phases(result)))
    # The use of a node is neither good nor bad.
    rows += [replace(row, better=False) for row in (*_node_rows(result), *_warmth_rows(result))]
    return rows if result.changed else [replace(row, better=False) for row in rows]


def sums(result: DemoResult) -> list[_Row]:
    """Return throughput and traffic over all topologies."""
    before, after = ([getattr(t, phase) for t in result.topologies] for phase in ("before", "after"))
    rows = [
        _row("tuple trees acked / s", _sum(before, "acked_tps"), _sum(after, "acked_tps"), more_is_better=True),
        _row("inter-node tuples / s", _sum(before, "inter_node_tps"), _sum(after, "inter_node_tps")),
        _row("inter-node tuples per acked tree", crossing_per_tree(before), crossing_per_tree(after), digits=2),
    ]
    return rows if result.changed else [replace(row, better=False) for row in rows]


def ratio_name(result: DemoResult) -> str:
    """Return the name of the ratio of both columns: where the placement is the same it is no gain."""
    return "after / before" if result.changed else "again / before"


def outcomes(result: DemoResult) -> list[str]:
    """Return promise, measurement and limit of every topology that was moved, a line each."""
    lines = []
    for t in result.topologies:
        now, then = (phase.promise.topologies.get(t.id) for phase in _phases(result))
        if not result.changed or t.id not in {move.topology for move in result.moves} or not t.before.acked_tps:
            continue
        came = t.after.acked_tps / t.before.acked_tps
        line = f"{t.name}: came to {came:.2f} times its rate"
        if now and then and 0 < now.rate_tps.value < float("inf") and then.rate_tps.value < float("inf"):
            promised = [
                each / now.rate_tps.value for each in (then.rate_tps.value, then.rate_tps.low, then.rate_tps.high)
            ]
            line += f", promised {promised[0]:.2f} ({promised[1]:.2f} to {promised[2]:.2f})"
        lines.append(f"{line}; then limited by {then.bottleneck}" if then else line)
    return lines


def _topology_rows(
    topology: TopologyResult, before: TopologyPromise | None, after: TopologyPromise | None
) -> Iterator[_Row]:
    name, early, late = topology.name, topology.before, topology.after
    yield _row(f"{name}: acked / s", early.acked_tps, late.acked_tps, more_is_better=True)
    if before and after:
        forecast = [each.rate_tps.value for each in (before, after)]
        yield replace(_row("… predicted", *forecast), better=False)
    yield _row(f"{name}: mean complete latency, ms", early.mean_latency_ms, late.mean_latency_ms, digits=1)
    if before and after and before.latency_ms and after.latency_ms:
        yield replace(_row("… predicted", before.latency_ms.value, after.latency_ms.value, digits=1), better=False)
    yield _row(f"{name}: p99 complete latency, ms", early.p99_latency_ms, late.p99_latency_ms, digits=1)
    yield _row(f"{name}: nodes used", early.nodes, late.nodes)


def _node_rows(result: DemoResult) -> Iterator[_Row]:
    for node, before in result.before.stretch.nodes.items():
        after = result.after.stretch.nodes[node]
        if before.limit_cores is None:
            yield _row(f"{node}: cores used by its workers", before.cores, after.cores, digits=2)
        early, late = parts_of(before), parts_of(after)
        for (label, share), (_, share_after) in zip(early, late, strict=True):
            if share is not None and share_after is not None:
                yield _row(f"{node}: {label}, %", 100 * share, 100 * share_after)


def parts_of(use: NodeUse) -> list[tuple[str, float | None]]:
    """Return the resources of a node by name with the share used; None without a limit."""
    cpu = "CPU" if use.limit_cores is None else f"CPU of {use.limit_cores:g} cores"
    speed = "" if use.link_mbit_s is None else f" of {use.link_mbit_s:g} Mbit/s"
    sent, received = use.link_shares
    return [(cpu, use.cpu_share), (f"link out{speed}", sent), (f"link in{speed}", received)]


def promised_parts(node: NodePrediction | None) -> list[float | None]:
    """Return the predicted shares of the same resources."""
    parts = (node.cpu, node.link_out, node.link_in) if node else (None, None, None)
    return [None if part is None else part.value for part in parts]


def _warmth_rows(result: DemoResult) -> Iterator[_Row]:
    yield _row("youngest worker had run, s", *(phase.stretch.ran_s for phase in _phases(result)))
    shares = [
        [t.compiler_share for t in (getattr(each, phase) for each in result.topologies) if t.compiler_share is not None]
        for phase in ("before", "after")
    ]
    if all(shares):
        yield _row("workers' CPU that compilers took, %", *(100 * sum(each) / len(each) for each in shares))


def limits(result: DemoResult) -> list[str]:
    """Return the full resources, measured and predicted, before and after."""
    lines = []
    for phase in _phases(result):
        found = fullest(phase.stretch.nodes)
        measured = f"fullest was {found}" if found else "no limit of a node's CPU or link to be held against"
        names = {topology.id: topology.name for topology in result.topologies}
        promised: dict[str, list[str]] = {}
        for topology, each in phase.promise.topologies.items():
            if topology in names:
                promised.setdefault(each.bottleneck, []).append(names[topology])
        forecast = "; ".join(f"{what} ({', '.join(topologies)})" for what, topologies in promised.items())
        lines.append(f"under {phase.scheduler}: {measured}; predicted limit: {forecast}")
    return lines


def counts(result: DemoResult) -> list[str]:
    """Return the fate of all tuple trees and the duration of the move, a line per topology."""
    return [
        f"{t.name}: {t.begun} tuple trees begun, {t.acked} acked, {t.failed} failed, {t.lost} lost; "
        f"longest time without an ack during the move {t.silence_s:.1f} s"
        for t in result.topologies
    ]


def verdicts(result: DemoResult) -> list[str]:
    """Return promise, measurement and outcome of each decision, and the costs corrected by it."""
    lines = []
    for trial in result.trials:
        lines.append(f"decision {trial.number}: {trial.text}")
        lines += [trial.correction.text] if trial.correction is not None and trial.correction.text else []
    return lines


def start_rows(result: DemoResult) -> list[StartRow]:
    """Return all measurements in order of time."""
    names = {topology.id: topology.name for topology in result.topologies}
    rows = []
    for start in result.starts:
        found, criterion = start.comparison, result.trials[start.trial - 1].criterion if start.trial else None
        verdict = "" if found is None or criterion is None else f"{criterion.change(found.ratio)}, {found.verdict}"
        latency = start.latency_ms
        rows.append(
            StartRow(
                second=f"{(start.stretch.start_ms - result.start_ms) / 1000:,.0f}",
                placement=placement_name(result, start.trial),
                rates=[f"{start.runs[topology].acked_tps:,.0f}" for topology in names],
                latency="–" if latency is None else f"{latency:,.1f}",
                verdict=verdict,
            )
        )
    return rows


def placement_name(result: DemoResult, trial: int) -> str:
    """Return the name of a trial's placement; number 0 is the original placement."""
    decided = [each for each in result.trials if each.comparison is not None]
    if not trial:
        return result.before.scheduler
    scheduler = result.scheduler_name
    return scheduler if len(decided) < 2 else f"{scheduler}, decision {trial}"


def network_line(settings: DemoSettings) -> str:
    """Return a line that relates network to CPU here, compared with a usual cluster."""
    link = settings.cluster.link
    if link is None:
        return "links are not limited: expect little gain"
    ratio = link_bits_per_s(link) / 1e6 / settings.cluster.declared_cores
    core = "declared core" if settings.cluster.cores_per_node is None else "core"
    return f"{link} a node, {ratio:.0f} Mbit/s a {core} (a usual node, 1 Gbit/s for 16 cores: 62)"


def as_dict(result: DemoResult) -> dict[str, Any]:
    """Return the result as JSON."""
    return {
        "scheduler_reason": result.decision.reason,
        "network": result.network,
        "simulated": result.simulated or None,
        "throughput_ratio": result.throughput_ratio,
        "improved": result.improved,
        "verdict": result.verdict,
        "lost": result.lost,
        "topologies": [
            {
                "name": t.name,
                "before": _run_dict(t.before, result.before.promise.topologies.get(t.id)),
                "after": _run_dict(t.after, result.after.promise.topologies.get(t.id)),
                "begun": t.begun,
                "acked": t.acked,
                "failed": t.failed,
                "lost": t.lost,
                "longest_time_without_ack_s": t.silence_s,
            }
            for t in result.topologies
        ],
        "nodes": {
            node: {"before": _node_dict(result.before, node), "after": _node_dict(result.after, node)}
            for node in result.before.stretch.nodes
        },
        "fullest": {"before": _fullest_dict(result.before), "after": _fullest_dict(result.after)},
        "youngest_worker_ran_s": {"before": result.before.stretch.ran_s, "after": result.after.stretch.ran_s},
        "moves": [move.as_dict() for move in result.moves],
        "decisions": [_trial_dict(trial) for trial in result.trials],
        "trials": [_start_dict(result, start) for start in result.starts],
        "pipeline": result.pipeline,
    }


def _trial_dict(trial: PlacementTrial) -> dict[str, Any]:
    return {
        "reason": trial.decision.reason,
        "outcome": trial.outcome,
        "verdict": trial.verdict,
        "figure": trial.criterion.figure,
        "promised_ratio": trial.promised,
        "measured": trial.comparison.as_dict() if trial.comparison else None,
        "cpu_us_per_tree": asdict(trial.correction) if trial.correction else None,
        "text": trial.text,
    }


def _start_dict(result: DemoResult, start: MeasuredStart) -> dict[str, Any]:
    names = {topology.id: topology.name for topology in result.topologies}
    return {
        "placement": placement_name(result, start.trial),
        "decision": start.trial or None,
        "start_ms": start.stretch.start_ms,
        "end_ms": start.stretch.end_ms,
        "acked_tps": {names[topology]: run.acked_tps for topology, run in start.runs.items()},
        "mean_latency_ms": {names[topology]: run.mean_latency_ms for topology, run in start.runs.items()},
        "nodes": {names[topology]: run.nodes for topology, run in start.runs.items()},
        "youngest_worker_ran_s": start.stretch.ran_s,
        "ratio": start.comparison.ratio if start.comparison else None,
        "verdict": start.comparison.verdict if start.comparison else None,
    }


def _run_dict(run: TopologyRun, promised: TopologyPromise | None) -> dict[str, Any]:
    return {**run.as_dict(), "predicted": promised.as_dict() if promised else None}


def _node_dict(phase: Phase, node: str) -> dict[str, Any]:
    use, promised = phase.stretch.nodes[node], phase.promise.nodes.get(node)
    shares = dict(zip(("cpu_share", "sent_share", "received_share"), (s for _, s in parts_of(use)), strict=True))
    return {**use.as_dict(), **shares, "predicted": promised.as_dict() if promised else None}


def _fullest_dict(phase: Phase) -> dict[str, Any] | None:
    found = fullest(phase.stretch.nodes)
    return None if found is None else {"what": found.what, "share": found.share, "is_full": found.is_full}


def _phases(result: DemoResult) -> tuple[Phase, Phase]:
    return result.before, result.after


def _row(
    label: str, before: float | None, after: float | None, *, digits: int = 0, more_is_better: bool = False
) -> _Row:
    early, late = ("–" if value is None else f"{value:,.{digits}f}" for value in (before, after))
    if not before or after is None:
        return _Row(label, early, late, "–", better=False)
    ratio = after / before
    return _Row(label, early, late, f"{ratio:.2f}", better=ratio > 1.05 if more_is_better else ratio < 0.95)


def _sum(measurements: Sequence[TopologyRun], what: str) -> float:
    return float(sum(getattr(measurement, what) for measurement in measurements))


def crossing_per_tree(measurements: Sequence[TopologyRun]) -> float:
    """Return inter-node tuples per completed tree, over several topologies."""
    acked = _sum(measurements, "acked_tps")
    return _sum(measurements, "inter_node_tps") / acked if acked else 0.0


# Result -------------------------------------------------------------------------------------------

#: Fractions of the previous figure from which it counts as unchanged, and beyond which as more.
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
    """State before the first move, or at the end.

    Parameters
    ----------
    scheduler
        Name of the scheduler of the placement.
    stretch
        Period of the measurement, and use of the nodes in it.
    placement
        Placement of all executors then.
    promise
        Prediction for the placement, by the load measured before the move.
    """

    scheduler: str
    stretch: MeasuredStretch
    placement: Mapping[str, TopologyAssignment]
    promise: PlacementPromise


@dataclass(frozen=True)
class DemoResult:
    """Data of the table and the report; `problem_before` has the load measured before the move.

    `before` is where Storm's own scheduler put everything, and `after` where it runs at the end: after a rollback that
    is the same placement, measured again. `starts` are all that was measured in between, and `trials` what came of each
    decision of `scheduler_name`. `simulated` describes the origin of simulated figures; it is empty for a real cluster.
    """

    topologies: Sequence[TopologyResult]
    decision: Plan | NoPlan
    moves: Sequence[MoveReport]
    problem_before: Problem
    before: Phase
    after: Phase
    records: Sequence[Any]
    start_ms: float
    end_ms: float
    network: str
    pipeline: StreamProgress | None = None
    simulated: str = ""
    scheduler_name: str = ""
    starts: Sequence[MeasuredStart] = ()
    trials: Sequence[PlacementTrial] = ()

    @property
    def verdict(self) -> DemoVerdict:
        """Verdict on the last decision that moved anything."""
        return verdict_of(self.trials)

    @property
    def changed(self) -> bool:
        """Whether the last measurement is of another placement than the first: else a ratio is no gain."""
        return bool(self.moves) and (not self.starts or self.starts[-1].trial > 0)

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
        """Whether throughput rose; or latencies, nodes or traffic per tree fell at equal throughput.

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
        """Return the sum of a figure over all topologies, before and after."""
        before, after = (sum(getattr(getattr(t, p), figure) for t in self.topologies) for p in ("before", "after"))
        return before, after
