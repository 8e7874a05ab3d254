"""What is done to the tables of the history: taken in, tidied up, deleted."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import click

from stormwright.cli import options
from stormwright.cli.history.place import HistoryPlace, opened, place
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.cli.progress import shown
from stormwright.errors import Fault, InputError


@click.command()
@place
@options.as_json("Print it as JSON.")
def ingest(where: HistoryPlace, as_json: bool) -> None:
    """Take what is staged below the state directory into the tables; a running service does so by itself."""
    from stormwright.history.tables.ingest import ingest as take_in
    from stormwright.history.tables.staging import Staging
    from stormwright.service.storage.history import DIRECTORY

    if where.state_dir is None:
        raise InputError("history ingest", [Fault("is needed: rows are staged there", "--state")])
    staging = Staging(where.state_dir / DIRECTORY)
    if where.state_dir.is_dir() and not staging.waiting()[0]:
        _tell_nothing(as_json)  # nobody waits for Spark to hear it
        return
    with opened(where, to_read=False) as (spark, store):
        taken = take_in(spark, store, staging)
    if as_json:
        print_json({"rows": taken})
        return
    for name, rows in taken.items():
        say(f"{name}: {rows:,} rows")
    if not taken:
        _tell_nothing(as_json)


@click.command()
@place
@options.as_json("Print how many days were made; progress goes to standard error.")
def compact(where: HistoryPlace, as_json: bool) -> None:
    """Make each past day one set of sorted files; a running service does so by itself, and only one may."""
    from stormwright.history.tables.ingest import compact as tidy

    with opened(where, to_read=False) as (_, store), _alone(where), shown(err=as_json):
        made = tidy(store)
    _tell_days(made, "compacted", as_json)


@click.command()
@click.argument("keep", metavar="[TABLE=]DAYS", nargs=-1, required=True)
@place
@options.as_json("Print how many days were deleted; progress goes to standard error.")
def retain(keep: tuple[str, ...], where: HistoryPlace, as_json: bool) -> None:
    """Delete what is older than so many DAYS, of all tables or of one (facts=30)."""
    from stormwright.history.tables.ingest import retain as delete_older

    keep_days = _keep_days(keep)
    with opened(where, to_read=False) as (_, store), _alone(where), shown(err=as_json):
        deleted = delete_older(store, keep_days)
    _tell_days(deleted, "deleted", as_json)


def _tell_nothing(as_json: bool) -> None:
    if as_json:
        print_json({"rows": {}})
    else:
        say("nothing was staged; a simulated service (serve --simulated) keeps no tables")


def _alone(where: HistoryPlace) -> AbstractContextManager[None]:
    """Wards off the service, and others, where it is known which state directory the tables belong to."""
    from stormwright.history.tables.staging import Staging
    from stormwright.service.storage.history import DIRECTORY

    return nullcontext() if where.state_dir is None else Staging(where.state_dir / DIRECTORY).alone()


def _tell_days(count: int, done: str, as_json: bool) -> None:
    if as_json:
        print_json({done: count})
    elif not count:
        say(f"nothing had to be {done}")


def _keep_days(keep: tuple[str, ...]) -> dict[str, int]:
    from stormwright.history.tables.definitions import TABLES

    found: dict[str, int] = {}
    faults = []
    for text in keep:
        name, equals, days = text.rpartition("=")
        if not days.isdecimal():
            faults.append(Fault("no number of days", text))
        else:
            found |= {name: int(days)} if equals else dict.fromkeys(TABLES, int(days))
    if faults:
        raise InputError("days to keep", faults)
    return found
