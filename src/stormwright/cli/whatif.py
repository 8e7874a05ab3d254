"""``stormwright whatif``: predict the effect of a change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, prepare_output, print_json
from stormwright.cli.progress import working
from stormwright.errors import Fault, InputError
from stormwright.formats import read_assignment, write_assignment
from stormwright.model import UNPLACED, cost_of
from stormwright.model.humanize import counted
from stormwright.model.problem import size_of
from stormwright.workbench.ready_problems import read_problem
from stormwright.workbench.what_if import parse_executors, parse_link, parse_rate

if TYPE_CHECKING:
    from stormwright.model import Problem
    from stormwright.workbench.what_if import WhatIf


#: Maximum number of topologies with executors without a slot, without ``--all``.
_MAX_REASONS = 2


@click.command()
@options.problem_file
@click.argument("assignment", type=options.PATH, required=False)
@click.option(
    "--rate", "rates", multiple=True, metavar="[TOPOLOGY=]×F", help="Multiply rates by F, as in ×1.5, x1.5 or *1.5."
)
@click.option("--add-nodes", type=options.WholeRange(0, 10_000), default=0, help="Add N nodes like the largest.")
@click.option("--kill-node", "killed", multiple=True, metavar="NODE", help="Remove this node (supervisor id or host).")
@click.option(
    "--parallelism",
    "parallelism",
    multiple=True,
    metavar="[TOPOLOGY/]COMPONENT=N",
    help="Set the number of executors of a component.",
)
@click.option("--link", metavar="SPEED", help="Set the bandwidth of all links, as in 1gbit or 100mbit.")
@click.option(
    "--scheduler",
    help="Scheduler that places everything; by default executors stay where they are.",
    shell_complete=options.scheduler_names,
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Scheduler parameter.")
@options.from_scratch("from scratch, unless the scheduler has a limit of moves")
@options.costs
@options.everything
@options.output("Write the assignment that this is predicted of here, gzipped for *.gz.")
@options.as_json("Print it as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path,
    assignment: Path | None,
    rates: tuple[str, ...],
    add_nodes: int,
    killed: tuple[str, ...],
    parallelism: tuple[str, ...],
    link: str | None,
    scheduler: str | None,
    settings: tuple[str, ...],
    from_scratch: bool | None,
    costs_file: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Several changes to the problem in FILE are applied together; the prediction is shown beside today's.

    Executors stay where they are, or where an ASSIGNMENT (written by `stormwright schedule --output`) has them, unless
    a scheduler is given. If a component gets more executors, the new ones go to the workers of their topology with
    fewest; up to the number of its tasks, `storm rebalance -e` does that. Executors whose node is gone are placed
    around the others. Exits with 1 if an executor has no slot.
    """
    from stormwright.cli.predictions import assumptions_of
    from stormwright.workbench.what_if import Changes, what_if

    faults: list[Fault] = []
    document = [parse_rate(text, faults) for text in rates]
    if len(dict(document)) < len(document):
        faults.append(Fault("each topology has one factor; name it once", "--rate"))
    wanted = [parse_executors(text, faults) for text in parallelism]
    if len(dict(wanted)) < len({*wanted}):
        faults.append(Fault("each component has one number of executors; name it once", "--parallelism"))
    problem = read_problem(file)
    prepare_output(output, *filter(None, (file, assignment)))
    changes = Changes(
        rates=dict(document),
        add_nodes=add_nodes,
        kill_nodes=killed,
        parallelism=dict(wanted),
        link_bps=None if link is None else parse_link(link, faults),
        assignment=None if assignment is None else read_assignment(assignment, problem),
        scheduler=scheduler,
        settings=settings,
        from_scratch=from_scratch,
    )
    if faults:
        raise InputError("what if", faults)
    with working("predicting the effect"):
        found = what_if(problem, changes, assumptions_of(problem, costs_file))
    if output:
        placed = found.assignment
        write_assignment(output, found.problem, placed, cost_of(found.problem, placed.slot_of_executor))
    if as_json:
        print_json({"problem": problem.name, **found.as_dict()})
    else:
        _print(problem, found)
    if found.assignment.unplaced:
        ctx.exit(1)


def _print(problem: Problem, found: WhatIf) -> None:
    from stormwright.cli.predictions import print_predictions, say_problem

    changed = size_of(found.problem)
    say_problem(problem, "" if changed == size_of(problem) else f"; after the change {changed}")
    if effects := "; ".join(found.effects()):
        say(effects)
    missing = [
        f"no slot for {counted(count, 'executor')} of {topology}: {'; '.join(reasons)}"
        for topology, count, reasons in found.assignment.grouped_reasons()
    ]
    for line in cut_short(missing, _MAX_REASONS):
        say(line)
    now = "now" if np.any(problem.current_slot != UNPLACED) else "before"
    columns = {now: found.today, "after": found.then} if found.today else {"after": found.then}
    print_predictions(columns)
