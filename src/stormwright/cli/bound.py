"""``stormwright bound``: what no placement can cost less than."""

from __future__ import annotations

import time
from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.defaults import DECIDING
from stormwright.experiments.ready import read_problem
from stormwright.model.texts import proof_text, size_of


@click.command()
@options.problem_file
@click.option("--search", type=options.FiniteRange(min=0.01), default=2.0, show_default=True, help="Seconds to search.")
@click.option("--seconds", type=options.FiniteRange(min=0.01), default=10.0, show_default=True, help="To prove.")
@click.option("--seed", default=0, show_default=True, help="Of the search.")
@options.as_json("Print it as JSON.")
def command(file: Path, search: float, seconds: float, seed: int, as_json: bool) -> None:
    """Prove how little any valid placement of the problem in FILE can cost, and how near to it a search comes.

    The scheduler `optimizer` searches first. Small problems are proven to the end where time allows; of larger ones a
    relaxation is solved, so that the best placement may cost more than the bound.
    """
    from stormwright.optimize.bound.prove import bound_cost
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.kit.warm_up import warm_up

    problem = read_problem(file)
    scheduler = make_scheduler(DECIDING, {"time_budget_s": search, "seed": seed})
    warm_up(scheduler)
    answer = scheduler.schedule(problem)
    begin = time.perf_counter()
    bound = bound_cost(problem, answer.slot_of_executor, seconds)
    took = time.perf_counter() - begin
    figures = bound.figures(problem, answer.slot_of_executor)
    if as_json:
        print_json({"problem": problem.name, **figures, "unplaced": len(answer.unplaced), "seconds": took})
        return
    say(f"{problem.name or 'problem'}: {size_of(problem)}; the proof took {took:.2f} s")
    if answer.unplaced:
        say(f"the search left {len(answer.unplaced):,} executors without a slot")
    say(proof_text(figures))
