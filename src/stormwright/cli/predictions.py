"""Predictions as tables and sentences, for several verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isinf
from pathlib import Path

from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import cut_short, numbers_table, print_table
from stormwright.model import Problem
from stormwright.model.humanize import counted, listed, readable
from stormwright.model.problem import assumed_text, size_of
from stormwright.predict.answer import Assumptions
from stormwright.predict.calibration.document import read_costs
from stormwright.predict.prediction import (
    NONE_THERE,
    Interval,
    NodePrediction,
    Prediction,
    TopologyPrediction,
)

#: Maximum number of topologies, nodes and notes without ``--all``.
_MAX_TOPOLOGIES, _MAX_NODES, _MAX_NOTES = 4, 3, 2


def _highest(one: TopologyPrediction) -> str:
    if not one.measured_tps:
        return "unknown"
    return "no limit is known" if isinf(one.highest_tps.value) else _rate(one.highest_tps)


#: A row of a table: its label, and its text for a topology; empty if unknown.
_Row = tuple[str, Callable[[TopologyPrediction], str]]

_HIGHEST: Sequence[_Row] = (
    ("trees/s if spouts were not limited", _highest),
    ("trees/s with the limit of pending trees", lambda one: _rate(one.pending_tps)),
    ("… mean complete latency at this rate", lambda one: _ms(one.pending_latency_ms)),
)

_GIVEN: Sequence[_Row] = (
    ("trees/s measured", lambda one: "" if one.assumed else readable(one.measured_tps)),
    ("trees/s assumed", lambda one: readable(one.measured_tps) if one.assumed else ""),
    ("trees/s requested", lambda one: readable(one.rate_tps)),
    ("… sustained", lambda one: one.sustained or ""),
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
    say(_verdict(last))
    order = sorted(range(len(last.topologies)), key=lambda number: last.topologies[number].headroom)
    if shows_all():
        for number in order:
            columns = {name: each.topologies[number] for name, each in predictions.items()}
            _print_topology(columns, last.topologies[number].topology)
    else:
        _print_tightest(predictions, order)
    _print_nodes(last, f"{name}, at the requested rates")
    for thread in last.busiest if shows_all() else ():
        say(f"{thread.use:.0%} of a core: {thread.thread}, {thread.topology}")
    if last.fullest_use > 0:
        say(last.fullest_text)
    for line in cut_short(list(_notes(predictions)), _MAX_NOTES):
        say(line)


def _verdict(prediction: Prediction) -> str:
    """Return whether the requested rates are sustained, as one sentence."""
    of: dict[str, list[str]] = {}
    for one in prediction.topologies:
        of.setdefault(one.sustained or "unknown", []).append(one.topology)
    number = len(prediction.topologies)
    if len(of.get("yes", ())) == number:
        every = "The topology sustains" if number == 1 else f"All {counted(number, 'topology')} sustain"
        return f"{every} the requested {'rate' if number == 1 else 'rates'}."
    (first, *others) = [(of[kind], text) for kind, text in _SUSTAINED.items() if kind in of]
    names, text = first
    more = [f"; {len(names):,} {'other ' if number > 1 else ''}{text}" for names, text in others]
    return f"{len(names):,} of {counted(number, 'topology')} {text}: {listed(names)}{''.join(more)}."


#: Whether a rate is sustained → its text in a sentence, where it is not.
_SUSTAINED = {
    "no": "cannot sustain the requested rate",
    "perhaps": "may not sustain the requested rate",
    "unknown": "cannot be predicted",
}


def _print_tightest(predictions: Mapping[str, Prediction], order: Sequence[int]) -> None:
    """Print a line for each topology, those with the least headroom first."""
    table = numbers_table("topology", "trees/s requested", "can reach", "mean latency", "limited by", texts=(0, -1))
    sides = [*predictions.values()]

    def both(text_of: Callable[[TopologyPrediction], str], number: int) -> str:
        texts = [text_of(each.topologies[number]) or "unknown" for each in sides]
        return " → ".join(dict.fromkeys(texts))

    for number in order:
        one = sides[-1].topologies[number]
        limit = "no known limit" if one.bottleneck.kind == "nothing" else str(one.bottleneck)
        limited = limit if one.highest_tps.value > 0 else "unknown"
        figures = (lambda each: readable(each.rate_tps), _reach_briefly, _latency_briefly)
        table.add_row(one.topology, *(both(text_of, number) for text_of in figures), limited)
    print_table(table, _MAX_TOPOLOGIES, "topology")
    of_all = [
        f"{one.topology}, {name}: no latency, as {one.no_latency}"
        for number in order
        for name, one in ((name, each.topologies[number]) for name, each in predictions.items())
        if one.no_latency
    ]
    for line in cut_short(of_all, 1):
        say(line)


def _reach_briefly(one: TopologyPrediction) -> str:
    if not one.measured_tps:
        return ""
    return "no known limit" if isinf(one.reachable_tps.value) else readable(one.reachable_tps.value)


def _latency_briefly(one: TopologyPrediction) -> str:
    return "none" if one.latency_ms is None else f"{readable(one.latency_ms.value)} ms"


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
    table = numbers_table(f"node: {when}", "CPU", "link out", "link in", "idle polling", "workers")
    busy = sorted((node for node in prediction.nodes if node.workers), key=lambda node: -node.cpu.value)
    for node in busy:
        table.add_row(node.node, *_of_node(node))
    print_table(table, _MAX_NODES, "node")


def _of_node(node: NodePrediction) -> Sequence[str]:
    parts = (node.cpu, node.link_out, node.link_in)
    return (
        *(
            "unknown" if p is None else "has none" if p.value >= NONE_THERE else _between(p, "{:.0%}".format)
            for p in parts
        ),
        f"{node.spinning:.0%}",
        f"{node.workers}",
    )


def _rate(rate: Interval | None) -> str:
    return "" if rate is None else _between(rate, readable)


def _ms(time: Interval | None) -> str:
    return "" if time is None else _between(time, lambda ms: f"{readable(ms)} ms")


def _between(text: Interval, form: Callable[[float], str]) -> str:
    value, low, high = map(form, (text.value, text.low, text.high))
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
