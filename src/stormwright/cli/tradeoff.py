"""``stormwright tradeoff``: cost of traffic against moves and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.base.files import name_of_output
from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import numbers_table, prepare_output, print_json, print_table
from stormwright.cli.progress import shown
from stormwright.model.humanize import counted, readable
from stormwright.model.problem import assumed_text, size_of
from stormwright.predict.throughput import SLOW, SLOW_MEANS
from stormwright.workbench.ready_problems import read_problem

if TYPE_CHECKING:
    from stormwright.workbench.tradeoff_curve import Tradeoff

#: Maximum number of points without ``--all``.
_MAX_POINTS = 14

#: Characters of the longest bar, and the tolerance of costs reported as near the lowest.
_BAR, _NEAR = 40, 0.02


@click.command()
@options.problem_file
@click.option("--moves", metavar="N,N,…", help="Numbers of executors that may move.")
@click.option("--restarts", metavar="N,N,…", help="Numbers of workers that may restart.")
@click.option(
    "--seconds",
    type=options.FiniteRange(min=0.01),
    default=1.0,
    show_default=True,
    help="Time budget of each search, in seconds.",
)
@click.option("--seed", default=0, type=options.WholeRange(), show_default=True, help="Random seed.")
@options.output("Write an HTML page with the curve here.")
@options.everything
@options.as_json("Print the curve as JSON.")
def command(
    file: Path,
    moves: str | None,
    restarts: str | None,
    seconds: float,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """The problem in FILE must contain a current placement.

    For every number of moves, and of restarts, the scheduler `optimizer` searches the placement of least traffic with
    no more than that: 0, 1, 2, 5, 10 and so on if no numbers are given, every combination if both are. A worker
    restarts if its executors or its slot change: that is the cost of a move in Storm. The rates that each placement can
    reach are predicted, and marked if they are not sustained; `stormwright plan FILE` searches for the highest ones.
    """
    from stormwright.workbench.tradeoff_curve import tradeoff

    numbers = [None if text is None else _numbers(text) for text in (moves, restarts)]
    problem = read_problem(file)
    prepare_output(output, file)
    if output:
        from stormwright.workbench.report import check_report
        from stormwright.workbench.tradeoff_curve import write_tradeoff

        check_report()
    with shown(err=True):
        found = tradeoff(problem, *numbers, seconds=seconds, seed=seed)
    if output:
        write_tradeoff(output, found)
    if as_json:
        print_json(found.as_dict())
        return
    _print(found)
    if output:
        say(f"report: {name_of_output(output)}")


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise click.BadParameter(f"should be whole numbers from 0 on, separated by commas, got {text!r}")
    return [int(part) for part in parts]


def _print(found: Tradeoff) -> None:
    problem = found.problem
    say(f"{problem.name or 'problem'}: {size_of(problem)}")
    broken = f", {counted(found.broken, 'limit')} broken" if found.broken else ""
    say(f"The cost of traffic falls from {readable(found.staying)}{broken} to {readable(found.least)} if all may move.")
    columns = ("may move", "may restart", "moved", "workers restarted", "rates", "cost", "of the gain", "")
    table = numbers_table(*columns, texts=(0, -1))
    for point in found.points:
        table.add_row(
            *("all" if most is None else f"{most:,}" for most in (point.limits.moves, point.limits.restarts)),
            f"{point.moved:,}",
            f"{point.restarted:,}",
            point.rate_text,
            readable(point.cost),
            f"{found.part_gained(point):.1%}",
            "█" * round(_BAR * max(found.part_gained(point), 0.0)),
        )
    print_table(table, _MAX_POINTS, "point")
    if left := found.points[-1].broken:
        say(f"{counted(left, 'limit')} broken even when all may move; see stormwright explain")
    if any(point.sustained is False for point in found.points):
        kind = "assumed" if assumed_text(problem) else "measured"
        say(f"{SLOW} {SLOW_MEANS.format(kind=kind)}; `stormwright plan FILE` searches for the highest rates")
    near = found.near_lowest_cost(_NEAR)
    moved, restarted = min(point.moved for point in near), min(point.restarted for point in near)
    part = f"{moved / problem.num_executors:.1%}"
    say(
        f"within {_NEAR:.0%} of the least: {counted(moved, 'executor')} moved, {part} of all; "
        f"or {counted(restarted, 'worker')} restarted"
    )
