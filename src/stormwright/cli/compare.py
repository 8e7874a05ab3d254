"""``stormwright compare``: several schedulers on one problem."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.base.files import name_of_output
from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, numbers_table, prepare_output, print_json, print_table
from stormwright.cli.progress import shown
from stormwright.model.humanize import proof_text
from stormwright.model.problem import size_of
from stormwright.schedulers.toolkit.resolve import ALL, SOME_JAVA, choose_schedulers, is_java
from stormwright.workbench.ready_problems import read_problem

if TYPE_CHECKING:
    from stormwright.workbench.comparison import Comparison

_SOME_FAILED = 1

#: Maximum number of schedulers, and of remarks, without ``--all``.
_MAX_ROWS, _MAX_REMARKS, _MAX_LINES = 12, 2, 5


@click.command()
@options.problem_file
@click.option(
    "--schedulers",
    "names",
    default="all",
    show_default=True,
    metavar="NAME,NAME,…|all",
    shell_complete=options.scheduler_names,
    help="Schedulers to compare; `stormwright schedulers` lists them. `all` excludes Java schedulers: add them by "
    "name, as in all,java:CLASS[:STRATEGY].",
)
@click.option("--set", "settings", multiple=True, metavar="NAME.KEY=VALUE", help="Scheduler parameter.")
@options.from_scratch("from scratch, unless the scheduler has a limit of moves")
@options.seed
@options.jars
@options.output("Write an HTML report with the placements here.")
@options.everything
@options.as_json("Print the figures as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path,
    names: str,
    settings: tuple[str, ...],
    from_scratch: bool | None,
    seed: int | None,
    jars: tuple[Path, ...],
    output: Path | None,
    as_json: bool,
) -> None:
    """If something runs, every scheduler answers as if nothing did; moved executors and restarted workers are counted.

    FILE may also be - or ready:NAME, as for `stormwright schedule`.

    The table is sorted by the rates that placements can reach, as `stormwright predict` predicts them: trees/s of a
    single topology, or the factor by which the rates of all topologies can grow; equal ones by cost. Rates that are not
    sustained are marked. Placements that violate constraints or leave executors out come after valid ones, with their
    cost marked; failures come last.

    Exits with 1 if a scheduler failed or left executors unplaced, 2 if the input is bad.
    """
    from stormwright.workbench.comparison import compare

    schedulers = choose_schedulers(names, settings, seed, jars)
    problem = read_problem(file)
    prepare_output(output, file)
    if output:
        from stormwright.workbench.comparison_report import write_comparison
        from stormwright.workbench.report import check_report

        check_report()
    with shown(err=True):
        comparison = compare(problem, schedulers, from_scratch)
    if output:
        write_comparison(output, comparison)
    if as_json:
        print_json(comparison.as_dict())
    else:
        _print(comparison, names)
        if output:
            say(f"report: {name_of_output(output)}")
    if not comparison.complete:
        ctx.exit(_SOME_FAILED)


def _print(comparison: Comparison, placed: str) -> None:
    from stormwright.workbench.comparison import comparison_table

    problem, rows = comparison.problem, comparison.rows
    say(f"{problem.name or 'problem'}: {size_of(problem)}; traffic in tuples/s")
    say(comparison.verdict)
    figures = comparison_table(comparison)
    table = numbers_table(*figures.head)
    for cells in figures.rows:
        table.add_row(*cells)
    print_table(table, _MAX_ROWS, "scheduler")
    if ALL in map(str.strip, placed.split(",")) and not any(is_java(row.name) for row in rows):
        say(f"all has no Java schedulers: --schedulers {ALL},{SOME_JAVA} adds one")
    for note in comparison.notes:
        say(note)
    for line in cut_short(list(_remarks(comparison)), _MAX_REMARKS):
        say(line)


def _remarks(comparison: Comparison) -> Iterator[str]:
    """Yield remarks below the table: reasons, violations, errors."""
    for failure in comparison.failures:
        yield from failure.splitlines()
    for row in comparison.rows:
        if row.assignment and "reason" in row.assignment.parameters:
            yield f"{row.label}: {row.assignment.parameters['reason']}"
        if row.assignment and "proof" in row.assignment.parameters:
            yield f"{row.label}: {proof_text(row.assignment.parameters['proof'])}"
        lines = [f"{count} of {topology} unplaced: {'; '.join(why)}" for topology, count, why in row.reasons]
        lines += row.figures.remarks if row.figures else ()
        yield from (f"{row.label}: {line}" for line in cut_short(lines, _MAX_LINES, "; --json has all"))
