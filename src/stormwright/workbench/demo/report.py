"""Report of the demonstration: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from pathlib import Path

from stormwright.explain.drawing import COLOURS
from stormwright.model import Problem, TopologyAssignment
from stormwright.predict.prediction import Interval
from stormwright.workbench.demo.measure import acked_series, fullest
from stormwright.workbench.demo.promise import PlacementPromise
from stormwright.workbench.demo.result import (
    DemoResult,
    Phase,
    counts,
    network_line,
    outcomes,
    parts_of,
    placement_name,
    promised_parts,
    ratio_name,
    start_rows,
    sums,
    table,
    verdicts,
)
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.report import write_report

# Chart --------------------------------------------------------------------------------------------
# Layout of the chart of throughput over time.

#: Size of the chart, and margins for its axes.
WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 44, 26, 40

#: Approximate number of labels of an axis.
_TICKS = 6


@dataclass(frozen=True)
class Curve:
    """Completed tuple trees per second of one topology over time.

    Parameters
    ----------
    name, colour
        Name and colour of the line.
    seconds, acked_tps
        Time and acked tuples/s of each point.
    promised
        Start and end in seconds, and the rate predicted for that period.
    """

    name: str
    colour: str
    seconds: Sequence[float]
    acked_tps: Sequence[float]
    promised: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class _Line:
    """A curve of a chart: its points, and dashes (from x, to x, y) for predictions."""

    name: str
    colour: str
    points: str
    dashes: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Span:
    """A stretch of time in a chart."""

    x: float
    width: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A chart; ticks are a position and a label."""

    lines: Sequence[_Line]
    spans: Sequence[Span]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def chart_of(curves: Sequence[Curve], spans: Sequence[tuple[float, float, str]]) -> Chart:
    """Return the chart of curves over stretches of time (from second, to second, label)."""
    longest = max((max(curve.seconds, default=0.0) for curve in curves), default=0.0) or 1.0
    rates = [rate for curve in curves for rate in (*curve.acked_tps, *(rate for *_, rate in curve.promised))]
    most = max(rates, default=0.0) * 1.05 or 1.0

    def x(second: float) -> float:
        return round(LEFT + min(max(second / longest, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def y(rate: float) -> float:
        return round(HEIGHT - BOTTOM - rate / most * (HEIGHT - TOP - BOTTOM), 1)

    return Chart(
        lines=[
            _Line(
                curve.name,
                curve.colour,
                " ".join(f"{x(s)},{y(rate)}" for s, rate in zip(curve.seconds, curve.acked_tps, strict=True)),
                [(x(start), x(end), y(rate)) for start, end, rate in curve.promised],
            )
            for curve in curves
        ],
        spans=[Span(x(start), round(x(end) - x(start), 1), label) for start, end, label in spans],
        x_ticks=[(x(second), f"{second:,.0f}") for second in _ticks(longest)],
        y_ticks=[(y(rate), f"{rate:,.0f}") for rate in _ticks(most)],
    )


def _ticks(most: float) -> Iterator[float]:
    """Yield round numbers from 0 to `most`."""
    rough = most / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    yield from (number * step for number in range(int(most / step) + 1))


# Report -------------------------------------------------------------------------------------------

#: Measurements whose names have room beside each other in the chart.
_LABELLED = 6


@dataclass(frozen=True)
class PlacedWorker:
    """A worker in the picture: its topology, its port, and its executors with their number."""

    topology: str
    colour: str
    port: int
    executors: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class PlacedNode:
    """A node in the picture; free slots are only counted."""

    host: str
    supervisor: str
    workers: Sequence[PlacedWorker]
    free_slots: int


@dataclass(frozen=True)
class _Bar:
    """A bar of a node's resource: measured, and predicted if known; in percent."""

    phase: str
    percent: float
    promised: float | None


@dataclass(frozen=True)
class _ComparedFigure:
    """A figure of one topology, measured and predicted; `off` is the deviation of the first from the second."""

    topology: str
    figure: str
    phase: str
    measured: str
    promised: str
    off: str


def write_html(result: DemoResult, settings: DemoSettings, path: Path) -> None:
    """Write the report."""
    silences = {t.id: (t.name, t.silence_s) for t in result.topologies}
    moves = [
        {**move.as_dict(), "name": silences[move.topology][0], "silence_s": silences[move.topology][1]}
        for move in result.moves
    ]
    write_report(
        path,
        "demo.html.j2",
        title="Placement before and after" + (", simulated" if result.simulated else ""),
        lead=f"{result.decision.reason}. {network_line(settings)}. Nodes are {result.network}."
        + (f" {result.simulated}." if result.simulated else ""),
        tiles=sums(result),
        ratio=ratio_name(result),
        verdicts=[*verdicts(result), *outcomes(result)],
        names=[topology.name for topology in result.topologies],
        starts=start_rows(result),
        phases=[
            {"name": phase.scheduler, "fullest": fullest(phase.stretch.nodes), "limits": _limits(result, phase)}
            for phase in (result.before, result.after)
        ],
        bars=_bars(result),
        held=_held(result),
        rows=table(result),
        chart=_chart(result),
        placements=[
            (f"under {phase.scheduler}", draw_placement(result.problem_before, phase.placement))
            for phase in (result.before, result.after)
        ],
        moves=moves,
        counts=counts(result),
    )


def draw_placement(problem: Problem, placement: Mapping[str, TopologyAssignment]) -> list[PlacedNode]:
    """Arrange a placement for drawing: nodes in the problem's order, workers by port."""
    workers: dict[str, list[PlacedWorker]] = {node.id: [] for node in problem.supervisors}
    for index, topology in enumerate(problem.topologies):
        assignment = placement.get(topology.id)
        if assignment is None:
            continue
        for number, slot in enumerate(assignment.slots):
            components: dict[str, int] = {}
            for executor, chosen in enumerate(assignment.slot_of_executor):
                if chosen == number:
                    name = topology.components[topology.executor_component[executor]].id
                    components[name] = components.get(name, 0) + 1
            box = PlacedWorker(topology.name, COLOURS[index % len(COLOURS)], slot.port, sorted(components.items()))
            workers.setdefault(slot.supervisor, []).append(box)
    return [
        PlacedNode(
            node.host,
            node.id,
            sorted(workers[node.id], key=lambda worker: worker.port),
            len(node.ports) - len(workers[node.id]),
        )
        for node in problem.supervisors
    ]


def _limits(result: DemoResult, phase: Phase) -> list[tuple[str, str]]:
    """Return the name of every topology with its predicted bottleneck."""
    promised = phase.promise.topologies
    return [(t.name, promised[t.id].bottleneck) for t in result.topologies if t.id in promised]


def _bars(result: DemoResult) -> dict[str, list[tuple[str, list[_Bar]]]]:
    """Return the resources of each node with their bars."""
    found: dict[str, list[tuple[str, list[_Bar]]]] = {}
    for node, used in result.before.stretch.nodes.items():
        parts: list[tuple[str, list[_Bar]]] = [(label, []) for label, _ in parts_of(used)]
        for phase in (result.before, result.after):
            shares = parts_of(phase.stretch.nodes[node])
            promised = promised_parts(phase.promise.nodes.get(node))
            for (_, bars), (_, share), forecast in zip(parts, shares, promised, strict=True):
                if share is not None:
                    bars.append(_Bar(phase.scheduler, 100 * share, None if forecast is None else 100 * forecast))
        found[node] = [(label, bars) for label, bars in parts if bars]
    return {node: parts for node, parts in found.items() if parts}


def _held(result: DemoResult) -> list[_ComparedFigure]:
    rows = []
    for t in result.topologies:
        for phase, run in ((result.before, t.before), (result.after, t.after)):
            promised = phase.promise.topologies.get(t.id)
            if promised is None:
                continue
            rows.append(_against(t.name, "trees acked / s", phase, run.acked_tps, promised.rate_tps, 0))
            if run.mean_latency_ms is not None and promised.latency_ms is not None:
                forecast = promised.latency_ms
                rows.append(_against(t.name, "mean complete latency, ms", phase, run.mean_latency_ms, forecast, 1))
    return rows


def _against(
    topology: str, figure: str, phase: Phase, measured: float, promised: Interval, digits: int
) -> _ComparedFigure:
    value, low, high = (f"{each:,.{digits}f}" for each in (promised.value, promised.low, promised.high))
    off = f"{measured / promised.value - 1:+.0%}" if 0 < promised.value < float("inf") else "–"
    return _ComparedFigure(
        topology, figure, phase.scheduler, f"{measured:,.{digits}f}", f"{value} ({low} to {high})", off
    )


def _chart(result: DemoResult) -> Chart:
    def second(moment_ms: float) -> float:
        return (moment_ms - result.start_ms) / 1000

    # Labels of many measurements would cover each other: then a placement has the number of its decision.
    few = len(result.starts) <= _LABELLED
    names = [
        placement_name(result, start.trial) if few or not start.trial else str(start.trial) for start in result.starts
    ]
    phases = [
        (start.stretch, name, _promise_of(result, start.trial))
        for start, name in zip(result.starts, names, strict=True)
    ] or [(phase.stretch, phase.scheduler, phase.promise) for phase in (result.before, result.after)]
    curves = []
    for number, t in enumerate(result.topologies):
        series = acked_series(result.records, t.id, result.start_ms, result.end_ms, 1000)
        rates = [(stretch, promise.topologies.get(t.id)) for stretch, _, promise in phases]
        promised = [
            (second(overload.start_ms), second(overload.end_ms), forecast.rate_tps.value)
            for overload, forecast in rates
            if forecast
        ]
        known = [forecast for forecast in promised if isfinite(forecast[-1])]
        curves.append(Curve(t.name, COLOURS[number % len(COLOURS)], *series, known))
    moved = [(second(move.started_ms), second(move.ended_ms)) for move in result.moves]
    long = len(phases) <= 2
    spans = [(*span, "moves" if number == 0 and long else "") for number, span in enumerate(moved)]
    for stretch, name, _ in phases:
        spans.append((second(stretch.start_ms), second(stretch.end_ms), f"measured: {name}" if long else name))
    return chart_of(curves, spans)


def _promise_of(result: DemoResult, trial: int) -> PlacementPromise:
    """Return the prediction for the placement of a trial."""
    promise = result.trials[trial - 1].promise if trial else None
    return promise or result.before.promise
