"""``stormwright history``: what a cluster did, and what was decided about it."""

from __future__ import annotations

import click

from stormwright.cli.history import asked, kept
from stormwright.cli.options import Verbs


@click.group(cls=Verbs)
def command() -> None:
    """Look into the history of a service: `stormwright serve` keeps it below its state directory.

    RANGE is a day (2026-11-21) or FROM..TO (2026-11-01..2026-11-30, 2026-11-21T10:00..), TO included, in UTC.
    """


for _verb in (
    asked.tables, asked.report, asked.decisions, asked.overloads, asked.sql, asked.at,
    kept.ingest, kept.compact, kept.retain,
):  # fmt: skip
    command.add_command(_verb)
