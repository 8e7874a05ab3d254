"""``stormwright compare``: several schedulers on one problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, numbers_table, prepare_output, print_json, print_table
from stormwright.experiments.ready import read_problem
from stormwright.model.texts import proof_text, size_of
from stormwright.schedulers.kit.resolve import ALL, SOME_JAVA, choose_schedulers, is_java

if TYPE_CHECKING:
    from stormwright.experiments.compare import Comparison, Figures

_SOME_FAILED = 1

_MAX_LINES = 5

#: Heading → what stands under it; traffic in tuples/s. Those without a number anywhere are left out, except `cost`.
_COLUMNS: dict[str, Callable[[Figures], float | int | None]] = {
    "cost": lambda figures: figures.total,
    "in worker": lambda figures: figures.cost.same_executor + figures.cost.same_worker,
    "in node": lambda figures: figures.cost.inter_worker,
    "in rack": lambda figures: figures.cost.inter_node,
    "between racks": lambda figures: figures.cost.inter_rack,
    "to unplaced": lambda figures: figures.cost.unplaced,
    "unplaced": lambda figures: figures.unplaced,
    "nodes": lambda figures: figures.nodes,
    "workers": lambda figures: figures.workers,
    "CPU max/mean": lambda figures: figures.balance,
    "moved": lambda figures: figures.moved_executors,
}


@click.command()
@options.problem_file
@click.option(
    "--schedulers",
    "names",
    default="all",
    show_default=True,
    metavar="NAME,NAME,…|all",
    help="Whom to compare; `stormwright schedulers` lists them. `all` has no Java schedulers: add them by name, as "
    "all,java:CLASS[:STRATEGY].",
)
@click.option("--set", "settings", multiple=True, metavar="NAME.KEY=VALUE", help="A parameter of one of them.")
@options.seed
@options.jars
@options.output("Write an HTML report with the placements here.")
@options.as_json("Print the figures as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path,
    names: str,
    settings: tuple[str, ...],
    seed: int | None,
    jars: tuple[Path, ...],
    output: Path | None,
    as_json: bool,
) -> None:
    """Let schedulers place the executors of the problem in FILE, and compare the answers.

    FILE may also be ready:NAME, as for `stormwright schedule`.

    The table is sorted by cost; placements that break limits or leave executors out come after valid ones, and their
    cost is marked; failures come last.

    Exits with 1 if a scheduler failed or left executors unplaced, 2 if the input is bad.
    """
    from stormwright.experiments.compare import compare

    schedulers = choose_schedulers(names, settings, seed, jars)
    problem = read_problem(file)
    prepare_output(output, file)
    if output:
        from stormwright.experiments.compare_report import write_comparison
        from stormwright.experiments.report import check_report

        check_report()
    comparison = compare(problem, schedulers, lambda line: say(line, err=True))
    if output:
        write_comparison(output, comparison)
    if as_json:
        print_json(comparison.as_dict())
    else:
        _print(comparison, names)
        if output:
            say(f"report: {output}")
    if not comparison.complete:
        ctx.exit(_SOME_FAILED)


def _print(comparison: Comparison, asked: str) -> None:
    from stormwright.experiments.compare import MARK, MARK_MEANS

    problem, rows = comparison.problem, comparison.rows
    say(f"{problem.name or 'problem'}: {size_of(problem)}; traffic in tuples/s")
    found = [row.figures for row in rows if row.figures] + ([comparison.current] if comparison.current else [])
    columns = {name: value for name, value in _COLUMNS.items() if name == "cost" or any(map(value, found))}
    table = numbers_table("", *columns, "limits", "s")
    if comparison.current:
        table.add_row("(what runs now)", *_cells(comparison.current, columns), "")
    for row in rows:
        cells = _cells(row.figures, columns) if row.figures else [*("–" for _ in columns), "failed"]
        table.add_row(row.label, *cells, f"{row.seconds:.3f}")
    print_table(table)
    if ALL in map(str.strip, asked.split(",")) and not any(is_java(row.name) for row in rows):
        say(f"all has no Java schedulers: --schedulers {ALL},{SOME_JAVA} adds one")
    if any(figures.mark for figures in found):
        say(f"{MARK} {MARK_MEANS}")
    for line in _remarks(comparison):
        say(line)


def _cells(figures: Figures, columns: dict[str, Callable[[Figures], float | int | None]]) -> list[str]:
    cost, *others = (_number(value(figures)) for value in columns.values())
    return [figures.mark + cost, *others, figures.limits_text]


def _number(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if value < 10 else f"{value:,.1f}"


def _remarks(comparison: Comparison) -> Iterator[str]:
    """What the table has no room for: broken limits, reasons, errors."""
    for row in comparison.rows:
        if row.error:
            yield from f"{row.label} failed: {row.error}".splitlines()
        if row.assignment and "proof" in row.assignment.parameters:
            yield f"{row.label}: {proof_text(row.assignment.parameters['proof'])}"
        lines = [f"{count} of {topology} unplaced: {'; '.join(why)}" for topology, count, why in row.reasons]
        lines += row.figures.remarks if row.figures else ()
        yield from (f"{row.label}: {line}" for line in cut_short(lines, _MAX_LINES, "; --json has all"))
