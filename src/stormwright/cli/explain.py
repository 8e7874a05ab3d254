"""``stormwright explain``: explain why executors have no slot, or their cost elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from stormwright.cli import options
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import cut_short, print_json
from stormwright.cli.progress import working
from stormwright.formats import read_assignment
from stormwright.model import UNPLACED, Assignment
from stormwright.model.humanize import counted, listed, readable
from stormwright.predict.throughput import ThroughputPredictor
from stormwright.workbench.ready_problems import read_problem

if TYPE_CHECKING:
    from stormwright.explain.explanation import ComponentExplanation, NodeVerdict
    from stormwright.explain.overloads import Overload

#: Maximum number of explanations, of nodes in each, of shares of a node, and of names, without ``--all``.
_MAX_EXPLANATIONS, _MAX_NODES, _MAX_SHARES, _MAX_NAMES = 2, 3, 3, 3


@click.command()
@options.problem_file
@click.argument("assignment", type=options.PATH, required=False)
@click.option("--topology", metavar="ID", help="Explain all executors of this topology (id or name).")
@click.option(
    "--executor",
    type=options.WholeRange(),
    metavar="N",
    help="Explain a single executor, by its number within the topology.",
)
@options.everything
@options.as_json("Print it as JSON, with every node.")
def command(file: Path, assignment: Path | None, topology: str | None, executor: int | None, as_json: bool) -> None:
    """ASSIGNMENT is a placement of the problem in FILE; by default the current one.

    For an executor without a slot: how many nodes are ruled out, and why. For a running one: its cost on every other
    node, and why it cannot go there. Without options: all executors without a slot, and all overloaded nodes with
    their largest consumers, and whether the rates are sustained. Identical executors are explained together.

    Nodes are ruled out by the constraints of a placement, whatever the scheduler considered. For an executor without a
    slot the first line is Storm's status text: the scheduler's own reason, then the number of nodes ruled out by
    each.
    """
    from stormwright.controller.description import move_kinds
    from stormwright.explain.explain import explain
    from stormwright.explain.overloads import overloads

    with working(f"reading {file}"):
        problem = read_problem(file)
    answer = read_assignment(assignment, problem) if assignment else Assignment(problem.current_slot)
    with working("explaining every node for every executor"):
        found = explain(problem, answer, topology, executor)
    over, rates = [], None
    if topology is None and executor is None:
        over = overloads(problem, answer.slot_of_executor)
        rates = ThroughputPredictor(problem).predicted(answer.slot_of_executor)
    if as_json:
        explanations = [explanation.as_dict() for explanation in found]
        overloaded = [overload.as_dict() for overload in over]
        kinds = {name: kind.model_dump() for name, kind in move_kinds(problem, {e.topology for e in found}).items()}
        print_json(
            {
                "scheduler": answer.scheduler,
                "overloaded": overloaded,
                "reachable": rates.as_dict() if rates else None,
                "explanations": explanations,
                "kinds": kinds,
            }
        )
        return
    if assignment is None and np.all(problem.current_slot == UNPLACED):
        say(
            f"nothing runs in this problem; for a scheduler's answer: `stormwright schedule {file} --output ASSIGNMENT`"
            f", then `stormwright explain {file} ASSIGNMENT`"
        )
    if not found:
        every = "Every executor has a slot"
        selected = (
            "no executor to explain"
            if topology
            else f"{every}, and no node is overloaded; --topology explains the executors of a topology."
            if not over
            else f"{every}; {counted(len(over), 'node')} {'is' if len(over) == 1 else 'are'} overloaded."
        )
        say(selected)
    if rates and rates.warning:
        say(rates.warning)
    for line in cut_short([*_overloaded(over)], 2 * _MAX_NODES):
        say(line)
    runs = bool(np.any(answer.slot_of_executor != UNPLACED))
    chosen = found if shows_all() else found[:_MAX_EXPLANATIONS]
    for explanation in chosen:
        for line in _lines(explanation, runs):
            say(line)
    if left := len(found) - len(chosen):
        say(f"and {left:,} more; --executor picks one, --all shows them")
    for name, kind in move_kinds(problem, {each.topology for each in chosen}).items():
        say(f"a move of {name} is of kind {kind.kind}: {kind.reason}")


def _overloaded(overloads: Sequence[Overload]) -> Iterator[str]:
    """Yield a line per overloaded node: its shortages and its largest consumers."""
    for one in overloads:
        who = "; ".join(one.by_whom) if shows_all() else _few(one.by_whom, _MAX_SHARES)
        yield f"overloaded: {one.node}: {one}: {who}"


def _few(texts: Sequence[str], most: int) -> str:
    """Return the first texts, separated by semicolons, and the number of the others."""
    left = len(texts) - most
    return "; ".join(texts[:most]) + (f"; and {left:,} more" if left > 0 else "")


def _lines(explanation: ComponentExplanation, runs: bool) -> Iterator[str]:
    """Yield an explanation; `runs` is whether anything has a slot."""
    who = f"{explanation.topology}, component {explanation.component}, {_numbers(explanation.executors)}"
    if explanation.slot is None:
        yield f"{who}: {'no slot' if runs else 'not placed yet'}"
        yield f"  {explanation.status_text}"
        if explanation.shortages:
            yield f"  its topology: {'; '.join(explanation.shortages)}"
    else:
        yield f"{who}: in {explanation.slot}"
        yield from _moves(explanation)
    yield from _ruled_out(explanation)


def _moves(explanation: ComponentExplanation) -> Iterator[str]:
    from stormwright.explain.explanation import BEST

    alike: dict[tuple[str, str], list[str]] = {}
    for node in explanation.open_nodes:
        alike.setdefault((_signed(node.cost_change), _place(node, explanation)), []).append(node.node)
    best = list(islice(alike.items(), None if shows_all() else min(BEST, _MAX_NODES)))
    nodes = f"{len(explanation.open_nodes)} of {counted(len(explanation.nodes), 'other node')}"
    open_nodes = f"{nodes} could take {'it' if len(explanation.executors) == 1 else 'each one alone'}"
    if best:
        yield f"  {open_nodes}; the traffic cost (weighted tuples/s) would change by"
        yield from (f"    {change} tuples/s  {_names(nodes)}, {where}" for (change, where), nodes in best)
    else:
        yield f"  {open_nodes}"


def _ruled_out(explanation: ComponentExplanation) -> Iterator[str]:
    """Yield a line per ruled-out node with its obstacles; for many nodes only counts."""
    ruled_out = [node for node in explanation.nodes if node.obstacles]
    if explanation.slot is not None and ruled_out:
        yield f"  ruled out: {explanation.histogram}"
    alike: dict[str, list[str]] = {}
    for node in ruled_out:
        alike.setdefault(f"{', '.join(map(str, node.obstacles))}{_change(node)}", []).append(node.node)
    lines = [f"{_names(nodes)}: {why}" for why, nodes in alike.items()]
    yield from (f"    {line}" for line in cut_short(lines, _MAX_NODES))


def _change(node: NodeVerdict) -> str:
    return "" if node.cost_change is None else f" (cost {_signed(node.cost_change)} tuples/s)"


def _signed(change: float | None) -> str:
    return "unknown" if change is None else f"{'+' if change >= 0 else '-'}{readable(abs(change))}"


def _place(node: NodeVerdict, explanation: ComponentExplanation) -> str:
    where = f"in the worker at port {node.joins}" if node.joins is not None else "in a new worker"
    wanted = explanation.workers_wanted
    misfit = "" if node.workers in (None, wanted) else f"; {counted(node.workers, 'worker')}, wanted {wanted}"
    return f"{where}{misfit}"


def _names(nodes: Sequence[str]) -> str:
    """Return the first of several equal nodes, and the number of the others."""
    return ", ".join(nodes) if shows_all() else listed(nodes, _MAX_NAMES)


def _numbers(executors: Sequence[int]) -> str:
    """Return numbers of executors as text: ``executor 3``, ``executors 0–3, 7``."""
    runs = [
        [executor for _, executor in run] for _, run in groupby(enumerate(executors), lambda pair: pair[1] - pair[0])
    ]
    ranges = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
    return f"executor {ranges}" if len(executors) == 1 else f"executors {ranges}"
