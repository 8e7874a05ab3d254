"""``stormwright bound``: prove a bound that no placement can beat."""

from __future__ import annotations

import time
from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.cli.progress import working
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.errors import InputError
from stormwright.model.humanize import counted, proof_text
from stormwright.model.problem import assumed_text, size_of
from stormwright.workbench.bounds import AUTO, OBJECTIVES, bound_of, proven_objective
from stormwright.workbench.ready_problems import read_problem

#: Objective → the proven figure.
_PROVEN = {"traffic": "least traffic", "throughput": "highest rates", "nodes": "fewest nodes"}


@click.command()
@options.problem_file
@click.option(
    "--objective",
    type=click.Choice((*OBJECTIVES, AUTO)),
    default=AUTO,
    show_default=True,
    help="Objective to bound; auto: throughput, or traffic of a problem without any rates.",
)
@click.option(
    "--headroom",
    type=options.FiniteRange(min=0, max=99),
    default=20.0,
    show_default=True,
    help="Percent of every resource to keep free (objective nodes).",
)
@click.option(
    "--search",
    type=options.FiniteRange(min=0.01),
    default=2.0,
    show_default=True,
    help="Time budget of the search, in seconds.",
)
@click.option(
    "--seconds",
    type=options.FiniteRange(min=0.01),
    default=10.0,
    show_default=True,
    help="Time budget of the proof, in seconds.",
)
@click.option("--seed", default=0, type=options.WholeRange(), show_default=True, help="Random seed of the search.")
@options.as_json("Print it as JSON.")
def command(
    file: Path, objective: str, headroom: float, search: float, seconds: float, seed: int, as_json: bool
) -> None:
    """It holds for every valid placement of the problem in FILE; beside it is how close a search comes.

    The scheduler `optimizer` searches first. Small problems are proven optimal if time allows; for larger ones a
    relaxation is solved, so that the best placement may be worse than the bound. The bound is a cost for traffic, the
    factor by which all rates can grow for throughput, and the number of nodes that sustains the rates for nodes; the
    last two as counted by `stormwright predict`, with any number of workers unless the topology's configuration
    restricts it. There is no bound for latency.
    """
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.toolkit.traits import warm_up

    with working(f"reading {file}"):
        problem = read_problem(file)
    objective = proven_objective(problem, objective)
    if objective != "nodes" and (faults := options.idle({"headroom": "it needs --objective nodes"})):
        raise InputError("bound", faults)
    settings = {"objective": objective, "headroom_percent": headroom, "time_budget_s": search, "seed": seed}
    scheduler = make_scheduler(DEFAULT_SCHEDULER, settings)
    warm_up(scheduler)
    with working("searching a placement"):
        answer = scheduler.schedule(problem)
    begin = time.perf_counter()
    with working(f"proving the bound, for at most {seconds:g} s"):
        figures = bound_of(problem, answer.slot_of_executor, objective, seconds, headroom)
    took = time.perf_counter() - begin
    assumed = assumed_text(problem) if objective != "traffic" else ""
    if as_json:
        document = {**figures, "unplaced": len(answer.unplaced), "assumed": assumed, "seconds": took}
        print_json({"problem": problem.name, **document})
        return
    say(f"{problem.name or 'problem'}: {size_of(problem)}; the proof of {_PROVEN[objective]} took {took:.2f} s")
    if assumed:
        say(assumed)
    if answer.unplaced:
        left = counted(len(answer.unplaced), "executor")
        say(f"the search left {left} without a slot; `stormwright schedule {file}` explains why")
    say(proof_text(figures))
