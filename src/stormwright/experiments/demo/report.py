"""The demonstration's result as a table, as JSON and as an HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stormwright.defaults import STORMS_OWN
from stormwright.experiments.demo.measure import TopologyRun, acked_series
from stormwright.experiments.demo.run import DemoResult, DemoSettings
from stormwright.experiments.report import ThroughputCurve, draw_placement, draw_throughput, write_report
from stormwright.link_speed import link_bits_per_s


@dataclass(frozen=True)
class Row:
    """A line of the before/after table."""

    label: str
    before: str
    after: str
    ratio: str
    better: bool


def table(result: DemoResult) -> list[Row]:
    """The before/after table: sums over the topologies first, then each topology, then what each node used."""
    before = [topology.before for topology in result.topologies]
    after = [topology.after for topology in result.topologies]
    rows = [
        _row("tuple trees acked / s", _sum(before, "acked_tps"), _sum(after, "acked_tps"), more_is_better=True),
        _row("inter-node tuples / s", _sum(before, "inter_node_tps"), _sum(after, "inter_node_tps")),
        _row("inter-node tuples per acked tree", crossing_per_tree(before), crossing_per_tree(after), digits=2),
    ]
    for topology in result.topologies:
        early, late = topology.before, topology.after
        rows += [
            _row(f"{topology.name}: acked / s", early.acked_tps, late.acked_tps, more_is_better=True),
            _row(f"{topology.name}: mean complete latency, ms", early.mean_latency_ms, late.mean_latency_ms, digits=1),
            _row(f"{topology.name}: p99 complete latency, ms", early.p99_latency_ms, late.p99_latency_ms, digits=1),
            _row(f"{topology.name}: nodes used", early.nodes, late.nodes),
        ]
    return rows + _node_rows(result)


def _node_rows(result: DemoResult) -> list[Row]:
    rows = []
    for node, before in result.nodes_before.items():
        after = result.nodes_after[node]
        if before.cores is not None:
            rows.append(_row(f"{node}: cores used", before.cores, after.cores, digits=2))
        if before.sent_mbit_s is not None:
            rows.append(_row(f"{node}: Mbit/s sent", before.sent_mbit_s, after.sent_mbit_s, digits=1))
            rows.append(_row(f"{node}: Mbit/s received", before.received_mbit_s, after.received_mbit_s, digits=1))
    # What a node uses is neither good nor bad by itself.
    return [replace(row, better=False) for row in rows]


def counts(result: DemoResult) -> list[str]:
    """What became of every tuple tree, and how long the move took, a line a topology."""
    return [
        f"{t.name}: {t.begun} tuple trees begun, {t.acked} acked, {t.failed} failed, {t.lost} lost; "
        f"longest time without an ack during the move {t.silence_s:.1f} s"
        for t in result.topologies
    ]


def network_line(settings: DemoSettings) -> str:
    """How network stands to CPU here, beside a usual cluster."""
    link = settings.cluster.link
    if link is None:
        return "links are not limited: expect little gain"
    ratio = link_bits_per_s(link) / 1e6 / settings.cluster.declared_cores
    core = "declared core" if settings.cluster.cores_per_node is None else "core"
    return f"{link} a node, {ratio:.0f} Mbit/s a {core} (a usual node, 1 Gbit/s for 16 cores: 62)"


def as_dict(result: DemoResult) -> dict[str, Any]:
    """The same for programs."""
    return {
        "scheduler_reason": result.decision.reason,
        "network": result.network,
        "throughput_ratio": result.throughput_ratio,
        "improved": result.improved,
        "lost": result.lost,
        "topologies": [
            {
                "name": t.name,
                "before": t.before.as_dict(),
                "after": t.after.as_dict(),
                "begun": t.begun,
                "acked": t.acked,
                "failed": t.failed,
                "lost": t.lost,
                "longest_time_without_ack_s": t.silence_s,
            }
            for t in result.topologies
        ],
        "nodes": {
            node: {"before": before.as_dict(), "after": result.nodes_after[node].as_dict()}
            for node, before in result.nodes_before.items()
        },
        "moves": [move.as_dict() for move in result.moves],
        "pipeline": result.pipeline,
    }


def write_html(result: DemoResult, settings: DemoSettings, path: Path) -> None:
    """Write the report."""
    curves = [
        ThroughputCurve(t.name, *acked_series(result.records, t.id, result.start_ms, result.end_ms, 1000))
        for t in result.topologies
    ]
    spans = [((a - result.start_ms) / 1000, (b - result.start_ms) / 1000, label) for a, b, label in result.spans_ms]
    spans += [
        ((move.started_ms - result.start_ms) / 1000, (move.ended_ms - result.start_ms) / 1000, "")
        for move in result.moves
    ]
    silences = {t.id: (t.name, t.silence_s) for t in result.topologies}
    moves = [
        {**move.as_dict(), "name": silences[move.topology][0], "silence_s": silences[move.topology][1]}
        for move in result.moves
    ]
    problem = result.problem_before
    write_report(
        path,
        "demo.html.j2",
        title="Placement before and after",
        lead=f"{result.decision.reason}. {network_line(settings)}.",
        before_name=STORMS_OWN,
        after_name=settings.scheduler_name,
        rows=table(result),
        throughput=draw_throughput(curves, spans),
        placements=[
            (f"under {STORMS_OWN}", draw_placement(problem, problem.current)),
            (f"under {settings.scheduler_name}", draw_placement(problem, result.placement_after)),
        ],
        moves=moves,
        footer=" · ".join(counts(result)),
    )


def _row(
    label: str, before: float | None, after: float | None, *, digits: int = 0, more_is_better: bool = False
) -> Row:
    early, late = ("–" if value is None else f"{value:,.{digits}f}" for value in (before, after))
    if not before or after is None:
        return Row(label, early, late, "–", better=False)
    ratio = after / before
    return Row(label, early, late, f"{ratio:.2f}", better=ratio > 1.05 if more_is_better else ratio < 0.95)


def _sum(measurements: Sequence[TopologyRun], what: str) -> float:
    return float(sum(getattr(measurement, what) for measurement in measurements))


def crossing_per_tree(measurements: Sequence[TopologyRun]) -> float:
    """Inter-node tuples per completed tree, over several topologies."""
    acked = _sum(measurements, "acked_tps")
    return _sum(measurements, "inter_node_tps") / acked if acked else 0.0
