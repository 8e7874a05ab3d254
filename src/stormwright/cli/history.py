"""``stormwright history``: the journal of a service, its audit log, and queries to its tables."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from stormwright.cli import options
from stormwright.cli.history_location import HistoryLocation, opened, place
from stormwright.cli.journal import MAX, print_audit, print_entries
from stormwright.cli.lines import say
from stormwright.cli.moments import RANGE_HELP, parse_moment, parse_stretch
from stormwright.cli.options import Verbs
from stormwright.cli.output import numbers_table, prepare_output, print_json, print_table, text_table
from stormwright.cli.progress import shown
from stormwright.errors import Fault, InputError
from stormwright.model.humanize import counted, in_utc, readable
from stormwright.model.problem import size_of

#: Rows of a table that people read; --json has all.
MAX_ROWS = 200

_MB = 1e6


@click.command()
@place
@options.as_json("Print it as JSON.")
def ingest(where: HistoryLocation, as_json: bool) -> None:
    """Load staged rows from the state directory into the tables; a running service does so automatically."""
    from stormwright.history.tables.ingest import ingest as take_in
    from stormwright.history.tables.staging import Staging
    from stormwright.service.storage.history import DIRECTORY

    if where.state_dir is None:
        raise InputError("history ingest", [Fault("is required: rows are staged there", "--state")])
    staging = Staging(where.state_dir / DIRECTORY)
    if where.state_dir.is_dir() and not staging.waiting()[0]:
        _print_no_history(as_json)  # without starting Spark
        return
    with opened(where, to_read=False) as (spark, store):
        taken = take_in(spark, store, staging)
    if as_json:
        print_json({"rows": taken})
        return
    for name, rows in taken.items():
        say(f"{name}: {rows:,} rows")
    if not taken:
        _print_no_history(as_json)


@click.command()
@place
@options.as_json("Print how many days were made; progress goes to standard error.")
def compact(where: HistoryLocation, as_json: bool) -> None:
    """Compact each past day into one set of sorted files; a running service does so automatically.

    Run only one compaction at a time."""
    from stormwright.history.tables.ingest import compact as tidy

    with opened(where, to_read=False) as (_, store), _alone(where), shown(err=as_json):
        made = tidy(store)
    _print_days(made, "compacted", as_json)


# A number below 0 is no option, but a wrong number.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("keep", metavar="[TABLE=]DAYS", nargs=-1, required=True)
@place
@options.as_json("Print how many days were deleted; progress goes to standard error.")
def retain(keep: tuple[str, ...], where: HistoryLocation, as_json: bool) -> None:
    """Delete rows older than DAYS from all tables, or from one (facts=30)."""
    from stormwright.history.tables.ingest import retain as delete_older

    keep_days = _keep_days(keep)
    with opened(where, to_read=False) as (_, store), _alone(where), shown(err=as_json):
        deleted = delete_older(store, keep_days)
    _print_days(deleted, "deleted", as_json)


def _print_no_history(as_json: bool) -> None:
    if as_json:
        print_json({"rows": {}})
    else:
        say("nothing was staged; a simulated service (serve --simulated) keeps no tables")


def _alone(where: HistoryLocation) -> AbstractContextManager[None]:
    """Return the lock of the tables' state directory, if that is known."""
    from stormwright.history.tables.staging import Staging
    from stormwright.service.storage.history import DIRECTORY

    return nullcontext() if where.state_dir is None else Staging(where.state_dir / DIRECTORY).exclusive_lock()


def _print_days(count: int, done: str, as_json: bool) -> None:
    if as_json:
        print_json({done: count})
    elif not count:
        say(f"nothing had to be {done}")


def _keep_days(keep: tuple[str, ...]) -> dict[str, int]:
    from stormwright.history.tables.definitions import TABLES
    from stormwright.history.tables.ingest import MAX_DAYS

    found: dict[str, int] = {}
    faults = []
    for text in keep:
        name, equals, days = text.rpartition("=")
        # int() has a limit of digits, and accepts those of all scripts.
        is_short = days.isascii() and days.isdigit() and len(days) <= len(str(MAX_DAYS))
        if not (is_short and 1 <= int(days) <= MAX_DAYS):
            faults.append(Fault(f"the number of days must be a whole number from 1 to {MAX_DAYS:,}", text))
        elif equals and name not in TABLES:
            faults.append(Fault(f"no such table; there are {', '.join(TABLES)}", text))
        else:
            found |= {name: int(days)} if equals else dict.fromkeys(TABLES, int(days))
    if faults:
        raise InputError("days to keep", faults)
    return found


@click.command()
@place
@options.as_json("Print it as JSON.")
def tables(where: HistoryLocation, as_json: bool) -> None:
    """List the tables: rows, days, bytes."""
    from stormwright.history.reports import table_summaries

    with opened(where) as (_, store):
        summaries = table_summaries(store)
    if as_json:
        print_json({"tables": summaries})
        return
    table = numbers_table("table", "rows", "days", "first day", "last day", "MB")
    for found in summaries:
        days = [found["first_day"] or "–", found["last_day"] or "–"]
        table.add_row(found["table"], f"{found['rows']:,}", f"{found['days']:,}", *days, f"{found['bytes'] / _MB:,.1f}")
    print_table(table)


@click.command(epilog=RANGE_HELP)
@click.argument("stretch", metavar="[RANGE]", default="..")
@place
@click.option("--by-day", is_flag=True, help="Print one line per day.")
@options.as_json("Print it as JSON.")
def report(stretch: str, where: HistoryLocation, by_day: bool, as_json: bool) -> None:
    """Report traffic and load by topology over a RANGE of time."""
    from stormwright.history.reports import topology_reports

    wanted = parse_stretch(stretch)
    with opened(where) as (_, store):
        reports = topology_reports(store, wanted, by_day)
    if as_json:
        print_json({"topologies": [asdict(found) for found in reports]})
        return
    table = numbers_table(
        "topology", *(["day"] if by_day else []), "tuples sent", "MB sent", "CPU core-s", "trees", "acked", "failed",
        "latency p50 ms", "p99 ms",
    )  # fmt: skip
    for found in reports:
        table.add_row(
            found.topology,
            *([found.day] if by_day else []),
            f"{found.sent_tuples:,}",
            f"{found.sent_bytes / _MB:,.1f}",
            f"{found.cpu_core_s:,.0f}",
            *(f"{count:,}" for count in (found.trees, found.acked, found.failed)),
            *(_number(ms) for ms in (found.latency_p50_ms, found.latency_p99_ms)),
        )
    print_table(table)


@click.command(epilog=RANGE_HELP)
@click.argument("stretch", metavar="[RANGE]", default="..")
@place
@click.option("--moving", is_flag=True, help="Only decisions that moved something.")
@options.as_json("Print them as JSON.")
def decisions(stretch: str, where: HistoryLocation, moving: bool, as_json: bool) -> None:
    """List the decisions in a RANGE of time: cost and traffic between nodes before and after, and their outcome."""
    from stormwright.history.reports import decisions as decisions_of

    wanted = parse_stretch(stretch)
    with opened(where) as (_, store):
        found = decisions_of(store, wanted, moving)
    if as_json:
        print_json({"decisions": found})
        return
    table = text_table("at", "scheduler", "cost", "tuples/s between nodes", "decided", "outcome")
    for row in found[-MAX_ROWS:]:
        table.add_row(
            in_utc(row["at_ms"]),
            row["scheduler"] + (" (dry run)" if row["dry_run"] else ""),
            f"{readable(row['cost_before'])} → {readable(row['cost_after'])}",
            f"{readable(row['inter_node_before_tps'])} → {readable(row['inter_node_after_tps'])}",
            row["reason"],
            "; ".join(_outcome(evaluation) for evaluation in row["evaluations"]) or "–",
        )
    print_table(table)
    _print_last(len(found))


def _print_last(rows: int) -> None:
    if rows > MAX_ROWS:
        say(f"the last {MAX_ROWS} of {rows:,}; --json has all")


def _outcome(evaluation: dict[str, Any]) -> str:
    measured, predicted = evaluation["measured"], evaluation["predicted"]
    return (
        f"{evaluation['topology']}: {evaluation['quantity']} × {_number(measured)} "
        f"({_number(predicted)} predicted): {evaluation['verdict']}"
    )


@click.command(epilog=RANGE_HELP)
@click.argument("stretch", metavar="[RANGE]", default="..")
@place
@click.option(
    "--after",
    "after_s",
    default=30.0,
    show_default=True,
    type=options.FiniteRange(0),
    help="Minimum duration X of the overloads to list, in seconds.",
)
@options.as_json("Print them as JSON.")
def overloads(stretch: str, where: HistoryLocation, after_s: float, as_json: bool) -> None:
    """List the times in a RANGE when nodes were at or over their CPU capacity for more than X seconds."""
    from stormwright.history.reports import overload_episodes

    wanted = parse_stretch(stretch)
    with opened(where) as (_, store):
        found = overload_episodes(store, wanted, after_s)
    if as_json:
        print_json({"overloads": [asdict(episode) for episode in found]})
        return
    table = numbers_table("node", "from", "to", "seconds", "peak cores", "of")
    for episode in found[-MAX_ROWS:]:
        table.add_row(
            episode.supervisor,
            *(in_utc(moment_s * 1000) for moment_s in (episode.start_s, episode.end_s)),
            f"{episode.end_s - episode.start_s:,}",
            f"{episode.peak_cores:,.2f}",
            f"{episode.capacity_cores:g}",
        )
    print_table(table)
    _print_last(len(found))


@click.command(epilog=RANGE_HELP)
@click.argument("stretch", metavar="[RANGE]", default="..")
@place
@click.option("--topology", help="Show this one only: a name or an id.")
@click.option(
    "--quantile",
    default=0.95,
    show_default=True,
    type=options.FiniteRange(0, 1, min_open=True),
    help="Part of minutes, executors and workers in which less is used.",
)
@click.option(
    "--headroom",
    default=0.25,
    show_default=True,
    type=options.FiniteRange(0),
    help="CPU that stays free, as a part of the used.",
)
@click.option("--flux", is_flag=True, help="Print the advised requests as parts of Flux files.")
@options.as_json("Print them as JSON.")
def requests(
    stretch: str,
    where: HistoryLocation,
    topology: str | None,
    quantile: float,
    headroom: float,
    flux: bool,
    as_json: bool,
) -> None:
    """Compare requests of components with their use in a RANGE of time, and advise those of the next submission.

    Storm gives a worker the heap that its executors request together: the advised one is twice its live heap.
    """
    import time

    from stormwright.history.rightsizing import component_uses, flux_part

    wanted = parse_stretch(stretch)
    with opened(where) as (_, store):
        found = component_uses(store, wanted, int(time.time() * 1000), quantile, headroom)
    if topology is not None:
        found = [each for each in found if topology in (each.topology, each.name)]
    if flux:
        import yaml

        ids = dict.fromkeys(use.topology for use in found)
        parts = [flux_part([use for use in found if use.topology == each]) for each in ids]
        say(yaml.safe_dump_all(parts, sort_keys=False).rstrip())
        return
    if as_json:
        print_json({"components": [asdict(each) for each in found]})
        return
    table = numbers_table(
        "topology", "component", "executors", "CPU % requested", "used", "advised", "heap MB", "advised"
    )
    for each in found:
        table.add_row(
            each.name,
            each.component,
            f"{each.executors:,}",
            *(f"{percent:,.0f}" for percent in (each.cpu_percent, each.used_cpu_percent, each.advised_cpu_percent)),
            f"{each.heap_mb:,.0f}",
            "–" if each.advised_heap_mb is None else f"{each.advised_heap_mb:,}",
        )
    print_table(table)


@click.command()
@click.argument("statement")
@place
@options.as_json("Print the rows as JSON.")
def sql(statement: str, where: HistoryLocation, as_json: bool) -> None:
    """Run a SQL query over the tables, each of which has a column `day`."""
    from stormwright.history.reports import documents, run_sql, texts

    with opened(where) as (spark, store):
        answer = run_sql(spark, store, statement)
        if as_json:
            print_json({"rows": documents(answer)})
            return
        columns, rows = answer.columns, texts(answer, MAX_ROWS + 1)
    table = text_table(*columns)
    for row in rows[:MAX_ROWS]:
        table.add_row(*("–" if value is None else value for value in row))
    print_table(table)
    if len(rows) > MAX_ROWS:
        say(f"the first {MAX_ROWS}; --json has all")


@click.command()
@click.argument("moment", metavar="TIME")
@place
@options.output("Write the problem file here, gzipped for *.gz.")
@options.as_json("Print the problem.")
def at(moment: str, where: HistoryLocation, output: Path | None, as_json: bool) -> None:
    """Print the state at a TIME (2026-11-21T10:30, in UTC) as a problem file for `schedule` and others."""
    from stormwright.formats import problem_to_dict, write_problem
    from stormwright.history.decisions import known_at

    moment_ms = parse_moment(moment)
    prepare_output(output)
    with opened(where) as (_, store):
        problem = known_at(store, moment_ms)
    if output:
        write_problem(output, problem)
    if as_json:
        print_json(problem_to_dict(problem))
        return
    load = problem.load
    measured = f"load of {counted(len(load.topologies), 'topology')} measured" if load else "no load measured yet"
    say(f"{problem.name}: {size_of(problem)}; {measured}")
    if output:
        say(f"problem: {output}")


def _number(value: float | None) -> str:
    return "–" if value is None else readable(value)


@click.group(cls=Verbs, invoke_without_command=True)
@options.service
@click.option(
    "--limit", default=20, show_default=True, type=options.WholeRange(1, MAX), help="Maximum number of entries."
)
@click.option(
    "--audit",
    "audit_of",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="STATE",
    help="Show the audit log (changes and refusals) of the service with this state directory instead.",
)
@options.as_json("Print them as JSON.")
@click.pass_context
def command(ctx: click.Context, address: str, by: str, limit: int, audit_of: Path | None, as_json: bool) -> None:
    """Without a command: the changes made by a running service, with author, reason, prediction and outcome. Commands
    query the tables below its state directory.

    RANGE is a day (2026-11-21) or FROM..TO (2026-11-01..2026-11-30, 2026-11-21T10:00..), TO included, in UTC.
    """
    if ctx.invoked_subcommand is None and audit_of is not None:
        print_audit(audit_of, limit, as_json)
    elif ctx.invoked_subcommand is None:
        print_entries(address, by, limit, as_json)


for _verb in (tables, report, decisions, overloads, requests, sql, at, ingest, compact, retain):
    command.add_command(_verb)
