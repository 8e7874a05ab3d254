"""``stormwright predict``: predict rate, latency and utilisation of a placement."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from stormwright.cli import options
from stormwright.cli.output import print_json
from stormwright.cli.progress import working
from stormwright.errors import Fault, InputError
from stormwright.formats import read_assignment
from stormwright.model import UNPLACED
from stormwright.workbench.ready_problems import read_problem

#: Key of the JSON → title of the column.
_COLUMNS = {"today": "now", "then": "with the assignment"}


@click.command()
@options.problem_file
@click.argument("assignment", type=options.PATH, required=False)
@options.costs
@options.everything
@options.as_json("Print it as JSON.")
def command(file: Path, assignment: Path | None, costs_file: Path | None, as_json: bool) -> None:
    """The placement is the current one of the problem in FILE, or an ASSIGNMENT, written by `stormwright schedule
    --output`. Utilisation of nodes, links and threads is predicted, too. The prediction is based on the problem's
    load, as measured under the current placement. Figures in brackets are intervals, as wide as such predictions were
    wrong.
    """
    from stormwright.cli.predictions import assumptions_of, print_predictions, say_problem
    from stormwright.predict.answer import predict

    with working(f"reading {file}"):
        problem = read_problem(file)
    answer = read_assignment(assignment, problem) if assignment else None
    runs = np.any(problem.current_slot != UNPLACED)
    if answer is None and not runs:
        first, then = f"stormwright schedule {file} --output ASSIGNMENT", f"stormwright predict {file} ASSIGNMENT"
        message = f"nothing runs in this problem: place it first with `{first}`, then predict that with `{then}`"
        raise InputError("predict", [Fault(message, "$")])
    assumptions = assumptions_of(problem, costs_file)
    found = {}
    with working("predicting"):
        if runs:
            found["today"] = predict(problem, None, assumptions)
        if answer is not None:
            found["then"] = predict(problem, answer.slot_of_executor, assumptions)
    if as_json:
        print_json({"problem": problem.name, **{name: each.as_dict() for name, each in found.items()}})
        return
    say_problem(problem)
    print_predictions({_COLUMNS[name]: each for name, each in found.items()})
