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
from stormwright.cli.history import HistoryLocation, opened, place
from stormwright.cli.lines import say, say_lines
from stormwright.cli.moments import RANGE_HELP, parse_stretch
from stormwright.cli.output import cut_short, numbers_table, print_json, print_table
from stormwright.model.humanize import counted, in_utc

if TYPE_CHECKING:
    from stormwright.workbench.replay import ReplayedLook

_SOME_FAILED = 1

#: Looks that people read; --json has all.
_MAX_LOOKS = 20

_MAX_LINES = 5


@click.command(epilog=RANGE_HELP)
@click.argument("stretch", metavar="RANGE")
@options.scheduler
@options.parameters
@options.from_scratch("from scratch; keep for n_version, online and optimizer, which move what runs")
@options.seed
@place
@options.as_json("Print every look as JSON.")
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
        task = bar.add_task("looks", total=None)
        looks = replay(
            store,
            wanted,
            scheduler_name,
            assignments,
            seed,
            from_scratch,
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({"scheduler": scheduler_name, "looks": [asdict(look) for look in looks]})
    else:
        _print(looks, scheduler_name)
    if any(look.error for look in looks):
        ctx.exit(_SOME_FAILED)


def _print(looks: Sequence[ReplayedLook], name: str) -> None:
    done = [look for look in looks if look.error is None]
    table = numbers_table("", "cost: ran", "decided", name, "tuples/s between nodes: ran", "decided", name, "moved")
    for look in looks[:_MAX_LOOKS]:
        table.add_row(in_utc(look.at_ms), *_cells([look]))
    if len(done) > 1:
        table.add_row(f"mean of {len(done)} looks", *_cells(done))
    print_table(table)
    if len(looks) > _MAX_LOOKS:
        say(f"the first {_MAX_LOOKS} of {len(looks)} looks; --json has all")
    failed = [f"{in_utc(look.at_ms)}: {look.error}" for look in looks if look.error]
    if failed:
        say(f"failed at {counted(len(failed), 'look')}:")
        for line in cut_short(failed, _MAX_LINES):
            say_lines(f"  {line}")


def _cells(looks: Sequence[ReplayedLook]) -> list[str]:
    """Return means over looks, as cells of a table."""
    if any(look.error for look in looks):
        return ["–"] * 7
    return [
        f"{fmean(getattr(look, name) for look in looks):,.1f}"
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
