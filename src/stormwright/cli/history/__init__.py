"""``stormwright history``: what was done, what a cluster did, and what was decided about it."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.history import asked
from stormwright.cli.history.asked import MOST, print_audit, print_done
from stormwright.cli.options import Verbs


@click.group(cls=Verbs, invoke_without_command=True)
@options.service
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST), help="Entries at most.")
@click.option(
    "--audit",
    "audit_of",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="STATE",
    help="List the log of changes and refusals instead, of the service with this state directory.",
)
@options.as_json("Print them as JSON.")
@click.pass_context
def command(ctx: click.Context, address: str, by: str, limit: int, audit_of: Path | None, as_json: bool) -> None:
    """List what a running service has done: who, why, what was promised and what came of it; or, with a command, look
    into the tables that it keeps below its state directory.

    RANGE is a day (2026-11-21) or FROM..TO (2026-11-01..2026-11-30, 2026-11-21T10:00..), TO included, in UTC.
    """
    if ctx.invoked_subcommand is None and audit_of is not None:
        print_audit(audit_of, limit, as_json)
    elif ctx.invoked_subcommand is None:
        print_done(address, by, limit, as_json)


for _verb in (
    asked.tables, asked.report, asked.decisions, asked.overloads, asked.sql, asked.at,
    asked.ingest, asked.compact, asked.retain,
):  # fmt: skip
    command.add_command(_verb)
