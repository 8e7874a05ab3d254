"""Predictions as tables and sentences, for the verbs that print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, numbers_table, print_table
from stormwright.model import Problem
from stormwright.model.texts import counted
from stormwright.predict.answer import Assumptions
from stormwright.predict.fit.file import read_costs
from stormwright.predict.told.prediction import Interval, NodePrediction, Prediction, TopologyPrediction

_MAX_TOPOLOGIES, _MAX_NODES = 10, 20


def assumptions_of(problem: Problem, costs_file: Path | None) -> Assumptions:
    """With the costs in a file, or without one those of the problem."""
    return Assumptions.of(problem) if costs_file is None else Assumptions(*read_costs(costs_file))


def print_predictions(predictions: Mapping[str, Prediction]) -> None:
    """Print predictions side by side, and of the last one how full its nodes and threads are.

    Parameters
    ----------
    predictions
        What each column is called → what is predicted; topologies of the same names in each.
    """
    last = list(predictions.values())[-1]
    for number, topology in enumerate(last.topologies[:_MAX_TOPOLOGIES]):
        _print_topology({name: each.topologies[number] for name, each in predictions.items()}, topology.topology)
    left = len(last.topologies) - _MAX_TOPOLOGIES
    if left > 0:
        say(f"and {counted(left, 'topology')} more; --json has all")
    _print_nodes(last)
    for thread in last.busiest:
        say(f"{thread.use:.0%} of a core: {thread.thread}, {thread.topology}")
    if last.fullest_use > 0:
        say(f"fullest at the rates asked for: {last.fullest}, {last.fullest_use:.0%}")
    for line in cut_short(_notes(predictions), 2 * _MAX_TOPOLOGIES, " notes; --json has all"):
        say(f"note: {line}")


def _print_topology(columns: Mapping[str, TopologyPrediction], name: str) -> None:
    table = numbers_table(name, *columns)
    rows: dict[str, list[str]] = {
        "trees/s as measured or assumed": [f"{one.measured_tps:,.0f}" for one in columns.values()],
        "trees/s at most, spouts not limited": [_rate(one.highest_tps) for one in columns.values()],
        "trees/s with all trees pending that may be": [_rate(one.pending_tps) for one in columns.values()],
        "… and mean complete latency then": [_ms(one.pending_latency_ms) for one in columns.values()],
        "trees/s asked for": [f"{one.rate_tps:,.0f}" for one in columns.values()],
        "… mean complete latency": [_sustained(one.latency_ms) for one in columns.values()],
        "… 99 % of trees within": [_sustained(one.p99_ms) for one in columns.values()],
    }
    for label, values in rows.items():
        if any(values):
            table.add_row(label, *values)
    print_table(table)
    for column, one in columns.items():
        limit = f"at its highest rate limited by {one.bottleneck}"
        say(f"{column}: {'nothing that is known limits it' if one.bottleneck.kind == 'nothing' else limit}")


def _print_nodes(prediction: Prediction) -> None:
    table = numbers_table("node", "CPU", "link out", "link in", "idle threads", "workers")
    busy = sorted((node for node in prediction.nodes if node.workers), key=lambda node: -node.cpu.value)
    for node in busy[:_MAX_NODES]:
        table.add_row(node.name, *_of_node(node))
    print_table(table)
    if len(busy) > _MAX_NODES:
        say(f"and {counted(len(busy) - _MAX_NODES, 'node')} more that are less full; --json has all")


def _of_node(node: NodePrediction) -> Sequence[str]:
    parts = (node.cpu, node.link_out, node.link_in)
    return (
        *("unknown" if p is None else _between(f"{p.value:.0%}", f"{p.low:.0%}", f"{p.high:.0%}") for p in parts),
        f"{node.spinning:.0%}",
        f"{node.workers}",
    )


def _rate(rate: Interval | None) -> str:
    return "" if rate is None else _between(*(f"{value:,.0f}" for value in (rate.value, rate.low, rate.high)))


def _ms(time: Interval | None) -> str:
    return "" if time is None else _between(*(f"{value:,.1f} ms" for value in (time.value, time.low, time.high)))


def _sustained(time: Interval | None) -> str:
    return "not sustained" if time is None else _ms(time)


def _between(value: str, low: str, high: str) -> str:
    if low == high:
        return value
    return f"{value} ({low} and more)" if high.startswith("inf") else f"{value} ({low} to {high})"


def _notes(predictions: Mapping[str, Prediction]) -> list[str]:
    """Notes of all predictions, each once."""
    found = [note for each in predictions.values() for note in each.notes]
    found += [
        f"{one.topology}: {note}" for each in predictions.values() for one in each.topologies for note in one.notes
    ]
    return list(dict.fromkeys(found))
