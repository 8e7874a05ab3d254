"""Questions to the history: what there is, what was, what was decided."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from stormwright.cli import options
from stormwright.cli.history.place import HistoryPlace, opened, place
from stormwright.cli.lines import say
from stormwright.cli.moments import RANGE_HELP, parse_moment, parse_stretch
from stormwright.cli.output import numbers_table, prepare_output, print_json, print_table, text_table
from stormwright.model.humanize import counted, in_utc, size_of

#: Rows of a table that people read; --json has all.
MAX_ROWS = 200

_MB = 1e6


@click.command()
@place
@options.as_json("Print it as JSON.")
def tables(where: HistoryPlace, as_json: bool) -> None:
    """Tell which tables there are: rows, days, bytes."""
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
@click.option("--by-day", is_flag=True, help="A line for each day.")
@options.as_json("Print it as JSON.")
def report(stretch: str, where: HistoryPlace, by_day: bool, as_json: bool) -> None:
    """Tell traffic and load by topology over a RANGE of time."""
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
@click.option("--moving", is_flag=True, help="Only those that moved something.")
@options.as_json("Print them as JSON.")
def decisions(stretch: str, where: HistoryPlace, moving: bool, as_json: bool) -> None:
    """List the decisions in a RANGE of time: cost and traffic between nodes before and after, and what came of them."""
    from stormwright.history.reports import decisions as decisions_of

    wanted = parse_stretch(stretch)
    with opened(where) as (_, store):
        found = decisions_of(store, wanted, moving)
    if as_json:
        print_json({"decisions": found})
        return
    table = text_table("at", "scheduler", "cost", "tuples/s between nodes", "decided", "judged")
    for row in found[-MAX_ROWS:]:
        table.add_row(
            in_utc(row["at_ms"]),
            row["scheduler"] + (" (dry run)" if row["dry_run"] else ""),
            f"{row['cost_before']:,.1f} → {row['cost_after']:,.1f}",
            f"{row['inter_node_before_tps']:,.0f} → {row['inter_node_after_tps']:,.0f}",
            row["reason"],
            "; ".join(_judged(judgement) for judgement in row["judgements"]) or "–",
        )
    print_table(table)
    _tell_last(len(found))


def _tell_last(rows: int) -> None:
    if rows > MAX_ROWS:
        say(f"the last {MAX_ROWS} of {rows:,}; --json has all")


def _judged(judgement: dict[str, Any]) -> str:
    measured, predicted = judgement["measured"], judgement["predicted"]
    return (
        f"{judgement['topology']}: {judgement['quantity']} × {_number(measured)} "
        f"({_number(predicted)} predicted): {judgement['verdict']}"
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
    help="X: list overloads of more than so many seconds.",
)
@options.as_json("Print them as JSON.")
def overloads(stretch: str, where: HistoryPlace, after_s: float, as_json: bool) -> None:
    """List when nodes were at or over their CPU capacity in a RANGE of time, for more than X seconds on end."""
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
    _tell_last(len(found))


@click.command()
@click.argument("statement")
@place
@options.as_json("Print the rows as JSON.")
def sql(statement: str, where: HistoryPlace, as_json: bool) -> None:
    """Answer a query in SQL over the tables, each of which has a column `day`."""
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
def at(moment: str, where: HistoryPlace, output: Path | None, as_json: bool) -> None:
    """Tell what the scheduler knew at a TIME (2026-11-21T10:30, in UTC): a problem file for `schedule` and others."""
    from stormwright.formats import problem_to_dict, write_problem
    from stormwright.history.looks import known_at

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
    return "–" if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
