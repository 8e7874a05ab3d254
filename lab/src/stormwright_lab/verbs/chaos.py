"""``stormwright chaos``: moves with faults, on a local cluster or in virtual time, and soaks."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import numbers_table, print_json, print_table
from stormwright.cli.progress import shown

if TYPE_CHECKING:
    from stormwright_lab.chaos.campaign import Runner
    from stormwright_lab.chaos.results import RunResult

#: As in `stormwright_lab.chaos.scenarios.Moment`, which is imported late.
_MOMENTS = ("before", "paused", "ordered", "swapping", "resuming", "evaluating")


@click.group(cls=options.Verbs)
def command() -> None:
    """Faults (kill, stop, cut, slow, fill, refuse …) begin at a step of a move; invariants are checked afterwards."""


_pattern = click.option(
    "--scenario", "pattern", default="*", show_default=True, help="Scenarios whose names match; chance for random ones."
)


@command.command("list")
@_pattern
@options.as_json("Print the scenarios as JSON.")
def list_scenarios(pattern: str, as_json: bool) -> None:
    """List the scenarios."""
    from stormwright_lab.chaos.campaign import why_not_virtual
    from stormwright_lab.chaos.catalogue import scenarios_named

    found = scenarios_named(pattern)
    if as_json:
        print_json([{**each.to_dict(), "not_virtual": why_not_virtual(each)} for each in found])
        return
    table = numbers_table("scenario", "moments", "virtual", "what happens", texts=(0, 2, 3))
    for each in found:
        table.add_row(each.name, len(each.moments), "no" if why_not_virtual(each) else "yes", each)
    print_table(table)


@command.command()
@_pattern
@click.option(
    "--moment", "moments", multiple=True, type=click.Choice(_MOMENTS), help="Only at this step of the move; repeatable."
)
@click.option("--seed", default=1, show_default=True, type=options.WholeRange(0), help="First seed.")
@click.option("--runs", default=1, show_default=True, type=options.WholeRange(1), help="Number of seeds.")
@click.option("--virtual", is_flag=True, help="Run in virtual time, thousands an hour.")
@click.option("--minutes", type=click.FloatRange(0), help="Begin no run later; the next command goes on.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("chaos-output"),
    show_default=True,
    help="Directory of the results and of the report; runs that have a result there are not repeated.",
)
@options.as_json("Print the results as JSON; progress goes to standard error.")
@click.pass_context
def run(
    ctx: click.Context,
    pattern: str,
    moments: tuple[str, ...],
    seed: int,
    runs: int,
    virtual: bool,
    minutes: float | None,
    output: Path,
    as_json: bool,
) -> None:
    """Run scenarios and check all invariants; an interrupted campaign resumes.

    Exits with 1 if an invariant does not hold.
    """
    from stormwright.workbench.report import check_report
    from stormwright_lab.chaos.campaign import planned_runs, run_campaign
    from stormwright_lab.chaos.report import PAGE, write_page
    from stormwright_lab.chaos.results import RunStore
    from stormwright_lab.chaos.scenarios import Moment

    check_report()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the cluster is taken down
    wanted = planned_runs(pattern, [Moment(each) for each in moments], range(seed, seed + runs), virtual=virtual)
    store = RunStore(output)
    with _runner(output, virtual=virtual, needed=any(each.key not in store for each in wanted), err=as_json) as runner:
        limit = inf if minutes is None else minutes
        results = run_campaign(wanted, store, runner, lambda found: _print(found, as_json), minutes=limit)
    if len(results) < len(wanted):
        say(f"{len(results):,} of {len(wanted):,} runs have a result; the same command goes on", err=as_json)
    page = output / PAGE
    write_page(page, store.all())
    _print_verdict(results, page, as_json)
    if any(each.violations for each in results):
        ctx.exit(1)


@contextmanager
def _runner(output: Path, *, virtual: bool, needed: bool, err: bool) -> Iterator[Runner]:
    """Return the context of the runner; a cluster is only started if a run is needed."""
    from stormwright_lab.chaos.campaign import real_runner, run_virtually

    if virtual or not needed:
        level = logging.getLogger("stormwright").level
        logging.getLogger("stormwright").setLevel(logging.CRITICAL)  # a service reports each of thousands of faults
        try:
            yield run_virtually
        finally:
            logging.getLogger("stormwright").setLevel(level)
        return
    with shown(err=err), real_runner(output) as runner:
        yield runner


def _print(found: RunResult, as_json: bool) -> None:
    details: list[Any] = [each.text for each in found.violations] or ([found.skipped] if found.skipped else [])
    recovery = "" if found.recovery_s is None else f", recovery {found.recovery_s:.1f} s"
    smaller = f"; smallest that fails: {found.smallest}" if found.smallest else ""
    text = f"{found.key}: {found.verdict}{recovery}"
    say(f"{text}: {'; '.join(map(str, details))}{smaller}" if details else text, err=as_json)


def _print_verdict(results: list[RunResult], page: Path, as_json: bool) -> None:
    from stormwright_lab.chaos.results import verdict_text

    verdict = verdict_text(results)
    if as_json:
        print_json({"verdict": verdict, "report": str(page), "runs": [each.to_dict() for each in results]})
    else:
        say(f"{verdict}; report: {page}")


@command.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("chaos-output"),
    show_default=True,
    help="Directory of the results.",
)
@options.as_json("Print the results as JSON.")
def report(output: Path, as_json: bool) -> None:
    """Write the report page of all results so far."""
    from stormwright_lab.chaos.report import PAGE, write_page
    from stormwright_lab.chaos.results import RunStore

    results = RunStore(output).all()
    write_page(output / PAGE, results)
    _print_verdict(results, output / PAGE, as_json)


@command.command()
@click.option("--minutes", default=60.0, show_default=True, type=click.FloatRange(1), help="Minutes of all sessions.")
@click.option(
    "--warm-up",
    "warm_up_min",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Minutes after the start of each process that are not compared.",
)
@click.option(
    "--seed", default=1, show_default=True, type=options.WholeRange(0), help="Seed of loads, moves and faults."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("chaos-output/soak"),
    show_default=True,
    help="Directory of the record and of the report; minutes that are recorded there count.",
)
@options.as_json("Print the verdict as JSON; progress goes to standard error.")
@click.pass_context
def soak(ctx: click.Context, minutes: float, warm_up_min: float, seed: int, output: Path, as_json: bool) -> None:
    """Run changing load, moves and faults for an hour; sample memory, files and threads.

    An interrupted soak resumes. Exits with 1 if memory, files, threads or state grow, or a number is lost.
    """
    from stormwright.workbench.report import blank_figure, check_report
    from stormwright_lab.chaos.soak import SoakSettings
    from stormwright_lab.chaos.soak import soak as run_soak
    from stormwright_lab.chaos.soak_record import SoakRecord
    from stormwright_lab.chaos.soak_report import PAGE, write_page
    from stormwright_lab.chaos.soak_verdict import verdict_of

    check_report()
    blank_figure(1, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the cluster is taken down
    record = SoakRecord.read(output)
    with shown(err=as_json):
        run_soak(SoakSettings(minutes, seed, output), record, lambda text: say(text, err=as_json))
    verdict = verdict_of(record, warm_up_min)
    write_page(output / PAGE, record, verdict)
    if as_json:
        print_json({**verdict.to_dict(), "report": str(output / PAGE)})
    else:
        say(f"{verdict.text}; report: {output / PAGE}")
    if verdict.faults:
        ctx.exit(1)
