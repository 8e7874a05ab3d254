"""Predictions as tables and sentences, for several verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isinf
from pathlib import Path

from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, numbers_table, print_table
from stormwright.model import Problem
from stormwright.model.humanize import counted
from stormwright.model.problem import assumed_text, size_of
from stormwright.predict.answer import Assumptions
from stormwright.predict.calibration.document import read_costs
from stormwright.predict.prediction import (
    NONE_THERE,
    NOT_SUSTAINED,
    Interval,
    NodePrediction,
    Prediction,
    TopologyPrediction,
)

_MAX_TOPOLOGIES, _MAX_NODES = 10, 20


def _highest(one: TopologyPrediction) -> str:
    if not one.measured_tps:
        return "unknown"
    return "no limit is known" if isinf(one.highest_tps.value) else _rate(one.highest_tps)


#: A row of a table: its label, and its text for a topology; empty if unknown.
_Row = tuple[str, Callable[[TopologyPrediction], str]]

_HIGHEST: Sequence[_Row] = (
    ("trees/s at most, spouts not limited", _highest),
    ("trees/s with all trees pending that may be", lambda one: _rate(one.pending_tps)),
    ("… and mean complete latency then", lambda one: _ms(one.pending_latency_ms)),
)

_GIVEN: Sequence[_Row] = (
    ("trees/s as measured", lambda one: "" if one.assumed else f"{one.measured_tps:,.0f}"),
    ("trees/s as assumed", lambda one: f"{one.measured_tps:,.0f}" if one.assumed else ""),
    ("trees/s requested", lambda one: f"{one.rate_tps:,.0f}"),
    ("… which is", lambda one: NOT_SUSTAINED.get(one.sustained, "sustained") if one.sustained else ""),
    ("… mean complete latency", lambda one: _ms(one.latency_ms)),
    ("… 99 % of trees within", lambda one: _ms(one.p99_ms)),
)


def say_problem(problem: Problem, more: str = "") -> None:
    """Print the problem and the origin of its load; `more` ends the first line."""
    say(f"{problem.name or 'problem'}: {size_of(problem)}{more}")
    if assumed := assumed_text(problem):
        say(assumed)


def assumptions_of(problem: Problem, costs_file: Path | None) -> Assumptions:
    """Return assumptions with the costs of a file, or by default those of the problem."""
    return Assumptions.of(problem) if costs_file is None else Assumptions(*read_costs(costs_file))


def print_predictions(predictions: Mapping[str, Prediction]) -> None:
    """Print predictions side by side, and the utilisation of nodes and threads for the last one.

    Parameters
    ----------
    predictions
        Title of each column → prediction; all with the same topologies.
    """
    name, last = list(predictions.items())[-1]
    for number, topology in enumerate(last.topologies[:_MAX_TOPOLOGIES]):
        _print_topology({name: each.topologies[number] for name, each in predictions.items()}, topology.topology)
    left = len(last.topologies) - _MAX_TOPOLOGIES
    if left > 0:
        say(f"and {counted(left, 'topology')} more; --json has all")
    _print_nodes(last, f"{name}, at the requested rates")
    for thread in last.busiest:
        say(f"{thread.use:.0%} of a core: {thread.thread}, {thread.topology}")
    if last.fullest_use > 0:
        say(last.fullest_text)
    for line in cut_short(list(_notes(predictions)), 2 * _MAX_TOPOLOGIES, " notes; --json has all"):
        say(line)


def _print_topology(columns: Mapping[str, TopologyPrediction], name: str) -> None:
    _print_rows(f"{name}: highest rates", columns, _HIGHEST)
    for column, one in columns.items():
        limit = f"at its highest rate limited by {one.bottleneck}"
        if one.highest_tps.value > 0:
            say(f"{column}: {'no known limit' if one.bottleneck.kind == 'nothing' else limit}")
    _print_rows(f"{name}: at given rates", columns, _GIVEN)
    for column, one in columns.items():
        if one.no_latency:
            say(f"{column}: no latency, as {one.no_latency}")


def _print_rows(title: str, columns: Mapping[str, TopologyPrediction], rows: Sequence[_Row]) -> None:
    table = numbers_table(title, *columns)
    for label, text_of in rows:
        values = [text_of(one) for one in columns.values()]
        if any(values):
            table.add_row(label, *values)
    print_table(table)


def _print_nodes(prediction: Prediction, when: str) -> None:
    table = numbers_table(f"node: {when}", "CPU", "link out", "link in", "idle threads", "workers")
    busy = sorted((node for node in prediction.nodes if node.workers), key=lambda node: -node.cpu.value)
    for node in busy[:_MAX_NODES]:
        table.add_row(node.node, *_of_node(node))
    print_table(table)
    if len(busy) > _MAX_NODES:
        say(f"and {counted(len(busy) - _MAX_NODES, 'node')} more that are less full; --json has all")


def _of_node(node: NodePrediction) -> Sequence[str]:
    parts = (node.cpu, node.link_out, node.link_in)
    return (
        *("unknown" if p is None else "has none" if p.value >= NONE_THERE else _between(p, ".0%") for p in parts),
        f"{node.spinning:.0%}",
        f"{node.workers}",
    )


def _rate(rate: Interval | None) -> str:
    return "" if rate is None else _between(rate, ",.0f")


def _ms(time: Interval | None) -> str:
    return "" if time is None else _between(time, ",.1f", " ms")


def _between(text: Interval, form: str, unit: str = "") -> str:
    value, low, high = (f"{each:{form}}{unit}" for each in (text.value, text.low, text.high))
    if low == high:
        return value
    return f"{value} ({low} and more)" if isinf(text.high) else f"{value} ({low} to {high})"


def _notes(predictions: Mapping[str, Prediction]) -> Iterator[str]:
    """Yield the notes of all predictions, each once, with the columns that it applies to."""
    columns: dict[str, list[str]] = {}
    for column, each in predictions.items():
        of_topologies = [f"{one.topology}: {note}" for one in each.topologies for note in one.further_notes]
        for note in dict.fromkeys([*each.notes, *of_topologies]):
            columns.setdefault(note, []).append(column)
    for note, names in columns.items():
        yield f"note: {note}" if len(predictions) == 1 else f"note on {' and '.join(names)}: {note}"
