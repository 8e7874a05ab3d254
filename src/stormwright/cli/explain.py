"""``stormwright explain``: explain why executors have no slot, or their cost elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, print_json
from stormwright.formats import read_assignment
from stormwright.model import UNPLACED, Assignment
from stormwright.model.humanize import counted
from stormwright.workbench.ready_problems import read_problem

if TYPE_CHECKING:
    from stormwright.explain.explanation import ComponentExplanation, NodeVerdict
    from stormwright.explain.overloads import Overload

_MAX_EXPLANATIONS, _MAX_NODES, _MAX_SHARES, _MAX_NAMES = 20, 20, 4, 4


@click.command()
@options.problem_file
@click.argument("assignment", type=options.PATH, required=False)
@click.option("--topology", metavar="ID", help="Explain all executors of this topology (id or name).")
@click.option("--executor", type=int, metavar="N", help="Explain a single executor, by its number within the topology.")
@options.as_json("Print it as JSON, with every node.")
def command(file: Path, assignment: Path | None, topology: str | None, executor: int | None, as_json: bool) -> None:
    """ASSIGNMENT is a placement of the problem in FILE; by default the current one.

    For an executor without a slot: how many nodes are ruled out, and why. For a running one: its cost on every other
    node, and why it cannot go there. Without options: all executors without a slot, and all overloaded nodes with
    their largest consumers. Identical executors are explained together.

    Nodes are ruled out by the constraints of a placement, whatever the scheduler considered. For an executor without a
    slot the first line is Storm's status text: the scheduler's own reason, then the number of nodes ruled out by
    each.
    """
    from stormwright.controller.plans.description import move_kinds
    from stormwright.explain.explain import explain
    from stormwright.explain.overloads import overloads

    problem = read_problem(file)
    answer = read_assignment(assignment, problem) if assignment else Assignment(problem.current_slot)
    found = explain(problem, answer, topology, executor)
    over = overloads(problem, answer.slot_of_executor) if topology is None and executor is None else []
    if as_json:
        explanations = [explanation.as_dict() for explanation in found]
        overloaded = [overload.as_dict() for overload in over]
        kinds = {name: kind.model_dump() for name, kind in move_kinds(problem, {e.topology for e in found}).items()}
        print_json(
            {
                "scheduler": answer.scheduler,
                "overloaded": overloaded,
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
        selected = (
            "no executor to explain" if topology else "every executor has a slot; --topology or --executor explain one"
        )
        say(selected)
    for line in cut_short([*_overloaded(over)], _MAX_NODES, "; --json has all"):
        say(line)
    for explanation in found[:_MAX_EXPLANATIONS]:
        for line in _lines(explanation):
            say(line)
    for name, kind in move_kinds(problem, {each.topology for each in found[:_MAX_EXPLANATIONS]}).items():
        say(f"a move of {name} is of kind {kind.kind}: {kind.reason}")
    if len(found) > _MAX_EXPLANATIONS:
        say(f"and {len(found) - _MAX_EXPLANATIONS} more; --executor picks one, --json has all")


def _overloaded(overloads: Sequence[Overload]) -> Iterator[str]:
    """Yield a line per overloaded node: its shortages and its largest consumers."""
    for one in overloads:
        who = "; ".join(cut_short(one.by_whom, _MAX_SHARES))
        yield f"overloaded: {one.node}: {one}: {who}"


def _lines(explanation: ComponentExplanation) -> Iterator[str]:
    who = f"{explanation.topology}, component {explanation.component}, {_numbers(explanation.executors)}"
    if explanation.slot is None:
        yield f"{who}: unplaced"
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
        alike.setdefault((f"{node.cost_change:+,.1f}", _place(node, explanation)), []).append(node.node)
    best = list(islice(alike.items(), BEST))
    nodes = f"{len(explanation.open_nodes)} of {counted(len(explanation.nodes), 'other node')}"
    open_nodes = f"{nodes} could take {'it' if len(explanation.executors) == 1 else 'each one alone'}"
    if best:
        yield f"  {open_nodes}; the cost would change by"
        yield from (f"    {change}  {_names(nodes)}, {where}" for (change, where), nodes in best)
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
    yield from (f"    {line}" for line in cut_short(lines, _MAX_NODES, " kinds of nodes; --json has all"))


def _change(node: NodeVerdict) -> str:
    return "" if node.cost_change is None else f" (cost {node.cost_change:+,.1f})"


def _place(node: NodeVerdict, explanation: ComponentExplanation) -> str:
    where = f"in the worker at port {node.joins}" if node.joins is not None else "in a new worker"
    wanted = explanation.workers_wanted
    misfit = "" if node.workers in (None, wanted) else f"; {counted(node.workers, 'worker')}, wanted {wanted}"
    return f"{where}{misfit}"


def _names(nodes: Sequence[str]) -> str:
    """Return the first of several equal nodes, and the number of the others."""
    return ", ".join(cut_short(nodes, _MAX_NAMES, " like them"))


def _numbers(executors: Sequence[int]) -> str:
    """Return numbers of executors as text: ``executor 3``, ``executors 0–3, 7``."""
    runs = [
        [executor for _, executor in run] for _, run in groupby(enumerate(executors), lambda pair: pair[1] - pair[0])
    ]
    ranges = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
    return f"executor {ranges}" if len(executors) == 1 else f"executors {ranges}"
