"""``stormwright replay``: replay recorded decisions with another scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress

from stormwright.cli import options
from stormwright.cli.history_location import HistoryLocation, opened, place
from stormwright.cli.lines import say, say_lines
from stormwright.cli.moments import RANGE_HELP, parse_stretch
from stormwright.cli.output import cut_short, numbers_table, print_json, print_table
from stormwright.model.humanize import counted, in_utc, readable

if TYPE_CHECKING:
    from stormwright.workbench.replay import ReplayedDecision

_SOME_FAILED = 1

#: Decisions that people read; --json has all.
_MAX_DECISIONS = 20

_MAX_LINES = 5


@click.command(epilog=RANGE_HELP)
@click.argument("stretch", metavar="RANGE")
@options.scheduler
@options.parameters
@options.from_scratch("from scratch; keep for n_version, online and optimizer, which move what runs")
@options.seed
@place
@options.as_json("Print every decision as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    stretch: str,
    scheduler_name: str,
    assignments: tuple[str, ...],
    from_scratch: bool | None,
    seed: int | None,
    where: HistoryLocation,
    as_json: bool,
) -> None:
    """The decisions are those in a RANGE of time; the costs of the scheduler's placements are reported.

    Each decision starts from the placement that really ran; traffic volumes are as measured, their paths follow the
    cost model.

    Exits with 1 if the scheduler failed, 2 if the input is bad.
    """
    from stormwright.workbench.replay import replay

    wanted = parse_stretch(stretch)
    with opened(where) as (_, store), Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("decisions", total=None)
        decisions = replay(
            store,
            wanted,
            scheduler_name,
            assignments,
            seed,
            from_scratch,
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({"scheduler": scheduler_name, "decisions": [asdict(decision) for decision in decisions]})
    else:
        _print(decisions, scheduler_name)
    if any(decision.error for decision in decisions):
        ctx.exit(_SOME_FAILED)


def _print(decisions: Sequence[ReplayedDecision], name: str) -> None:
    done = [decision for decision in decisions if decision.error is None]
    table = numbers_table("", "cost: ran", "decided", name, "tuples/s between nodes: ran", "decided", name, "moved")
    for decision in decisions[:_MAX_DECISIONS]:
        table.add_row(in_utc(decision.at_ms), *_cells([decision]))
    if len(done) > 1:
        table.add_row(f"mean of {len(done)} decisions", *_cells(done))
    print_table(table)
    if len(decisions) > _MAX_DECISIONS:
        say(f"the first {_MAX_DECISIONS} of {len(decisions)} decisions; --json has all")
    failed = [f"{in_utc(decision.at_ms)}: {decision.error}" for decision in decisions if decision.error]
    if failed:
        say(f"failed at {counted(len(failed), 'decision')}:")
        for line in cut_short(failed, _MAX_LINES, ""):
            say_lines(f"  {line}")


def _cells(decisions: Sequence[ReplayedDecision]) -> list[str]:
    """Return means over decisions, as cells of a table."""
    if any(decision.error for decision in decisions):
        return ["–"] * 7
    return [
        readable(fmean(getattr(decision, name) for decision in decisions))
        for name in (
            "cost_before",
            "cost_decided",
            "cost",
            "inter_node_before_tps",
            "inter_node_decided_tps",
            "inter_node_tps",
            "moved_executors",
        )
    ]
