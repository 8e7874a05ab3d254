"""``stormwright pipeline``: compute tables from landed performance logs, and show quarantined lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from stormwright.cli import options
from stormwright.cli.kafka import answering, kafka_options, topic_of
from stormwright.cli.lines import say
from stormwright.cli.moments import from_iso, to_ms
from stormwright.cli.output import numbers_table, print_json, print_table, text_table
from stormwright.errors import Fault, InputError
from stormwright.model.humanize import in_utc

if TYPE_CHECKING:
    from stormwright.pipeline.parsing.clean import LineCounts
    from stormwright.pipeline.settings import KafkaTopic
    from stormwright.pipeline.spark.location import Location

#: Up to a hundred years.
_SECONDS = options.WholeRange(1, 100 * 366 * 86_400)

_LATE_HELP = (
    "Quarantine records that landed more than this many seconds after their interval began, as a service does (30 s). "
    "Files then need their original modification times.  [default: no record is late]"
)

#: Part of the lines in quarantine from which a backfill warns.
_MANY = 0.05

#: Partitions of the state of a stream on a cluster, each a task and a file in every batch; Spark's default is 200.
_STATE_PARTITIONS = 8

_NOTHING_READ = "no lines were found in the period; `stormwright serve --keep-raw HOURS` retains processed files"


@click.group(cls=options.Verbs)
def command() -> None:
    pass


@command.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIRECTORY|URI...")
@click.option(
    "--into",
    required=True,
    metavar="DIRECTORY|URI",
    help="Output directory, for the tables only; those of an earlier backfill are replaced.",
)
@click.option("--from", "start", metavar="TIME", help="Start: ISO time (UTC by default), or ms since 1970.")
@click.option("--to", "end", metavar="TIME", help="End, exclusive.")
@click.option("--late", "late_s", type=_SECONDS, help=_LATE_HELP)
@click.option(
    "--window", "window_s", default=15, show_default=True, type=_SECONDS, help="Length of a window, in seconds."
)
@click.option(
    "--slide", "slide_s", default=3, show_default=True, type=_SECONDS, help="Slide between panes, in seconds."
)
@options.spark
@options.as_json("Print the ledger as JSON, with the reasons of the quarantine and a warning if it has many lines.")
def backfill(
    directories: tuple[str, ...],
    into: str,
    start: str | None,
    end: str | None,
    late_s: int | None,
    window_s: int,
    slide_s: int,
    master: str | None,
    spark_conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compute tables from landed records.

    DIRECTORIES hold landed files, or are the state directory of a service: then both waiting and retained files are
    read (`serve --keep-raw`). A URI (hdfs://…, s3a://…) has landed files.

    The tables are `records`, `panes` (loads and traffic) and `quarantine`. A record is in the period if its interval
    begins there, whenever its file landed; a rejected line, if the earliest record of its file is. `--late 30`
    reproduces what a service made of the files, and reads only those that landed near the period.
    """
    stretch_ms = _moments({"--from": start, "--to": end})
    files = _landed_in(directories)
    from stormwright.pipeline.settings import StreamSettings
    from stormwright.pipeline.spark.location import is_uri
    from stormwright.pipeline.spark.session import working_session
    from stormwright.pipeline.spark.target import SparkTarget
    from stormwright.pipeline.streaming.backfill import TimeStretch, count_reasons, require_own
    from stormwright.pipeline.streaming.backfill import backfill as run

    settings = StreamSettings(window_s=window_s, slide_s=slide_s)
    target = SparkTarget.parsed(master, spark_conf)
    stretch = TimeStretch(stretch_ms["--from"], stretch_ms["--to"])
    require_own(into, files)
    if not is_uri(into):
        Path(into).mkdir(parents=True, exist_ok=True)  # before the work, where nothing could be written after it
    with Console(stderr=True).status("starting Spark") as status, working_session(target, [*files, into]) as spark:
        counts = run(spark, files, into, stretch, settings, status.update, late_s)
        reasons = count_reasons(spark, into) if counts.quarantined else {}
    warning = _many_rejected(counts, reasons, into) if counts.read else _NOTHING_READ
    if warning is not None:
        say(f"warning: {warning}", err=True)
    if as_json:
        print_json({**asdict(counts), "reasons": reasons, "warning": warning})
        return
    _print_ledger(counts)


@command.command()
@click.argument("directory", required=False, metavar="[DIRECTORY|URI]")
@click.option(
    "--into",
    required=True,
    metavar="DIRECTORY|URI",
    help="Output directory, with the checkpoint of the stream: it resumes where it ended.",
)
@click.option(
    "--json-lines", is_flag=True, help="Read files *.jsonl, as other producers land, instead of a service's *.parquet."
)
@click.option(
    "--delete", is_flag=True, help="Delete processed files. Otherwise each batch takes longer, as it lists all of them."
)
@kafka_options
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "delta"]),
    default="parquet",
    show_default=True,
    help="A directory of Parquet files for each batch, or one Delta table, which OPTIMIZE compacts.",
)
@click.option("--once", is_flag=True, help="End once all records that have landed are processed.")
@click.option(
    "--trigger", "trigger_s", default=10, show_default=True, type=_SECONDS, help="Time between two batches, in seconds."
)
@click.option(
    "--max-files", default=1000, show_default=True, type=options.WholeRange(1), help="Maximum number of files a batch."
)
@options.spark
@options.as_json("Print the ledger as JSON.")
def stream(
    directory: str | None,
    into: str,
    json_lines: bool,
    delete: bool,
    table_format: str,
    once: bool,
    trigger_s: int,
    max_files: int,
    master: str | None,
    spark_conf: tuple[str, ...],
    as_json: bool,
    **kafka: Any,
) -> None:
    """Compute tables from records as they land, by Structured Streaming, on one machine or many.

    DIRECTORY has landed files; a service moves those that it has processed into `stream/raw` of its state directory
    (`serve --keep-raw`). Or the records are messages of a Kafka topic. Those that land more than 30 s after their
    interval began are quarantined, and each is counted once, also if the stream or its machines fail.

    `stormwright.pipeline.streaming.structured.StructuredStream` is the same in a notebook, with the tables as data
    frames.
    """
    from stormwright.history.tables.store import DELTA_CONF, delta_packages
    from stormwright.pipeline.parsing.source import stream_landed
    from stormwright.pipeline.settings import KafkaTopic, StreamSettings
    from stormwright.pipeline.spark.file_systems import with_jars
    from stormwright.pipeline.spark.location import is_uri
    from stormwright.pipeline.spark.session import working_session
    from stormwright.pipeline.spark.target import SparkTarget
    from stormwright.pipeline.streaming.kafka import stream_topic
    from stormwright.pipeline.streaming.kafka_connector import connector_jars, connector_package
    from stormwright.pipeline.streaming.structured import StructuredStream

    source = _source(directory, kafka)
    settings = StreamSettings(trigger_s=trigger_s, max_files_per_batch=max_files)
    target = SparkTarget.parsed(master, spark_conf)
    packages, conf = [], {} if target.local else {"spark.sql.shuffle.partitions": str(_STATE_PARTITIONS)}
    # A Connect server has its own jars.
    if isinstance(source, KafkaTopic) and not target.connect:
        packages += [] if source.jars else [connector_package()]
        conf |= connector_jars(source.jars) if source.jars else {}
    if table_format == "delta" and not target.connect:
        packages += delta_packages()
        conf |= DELTA_CONF
    if not is_uri(into):
        Path(into).mkdir(parents=True, exist_ok=True)
    target = with_jars(target, [into, *([directory] if directory else [])], packages, conf)
    with Console(stderr=True).status("starting Spark") as status, working_session(target) as spark:
        if isinstance(source, KafkaTopic):
            rows = stream_topic(spark, source, settings)
        else:
            rows = stream_landed(spark, source, settings, json_lines=json_lines, delete=delete)
        landed = StructuredStream(rows, into, settings, delta=table_format == "delta")
        try:
            landed.start(until_empty=once)
            landed.follow(status.update)
        except KeyboardInterrupt:
            say("stopped; it goes on where it was when it is started again", err=True)
        finally:
            landed.stop()
        counts = landed.counts()
    if as_json:
        print_json(asdict(counts))
        return
    _print_ledger(counts)


def _source(directory: str | None, kafka: Mapping[str, Any]) -> str | KafkaTopic:
    """Return the directory or the topic that a stream reads.

    Raises
    ------
    InputError
        There is no such directory, or not one source but none or two; or the topic is invalid.
    StormwrightError
        No broker answers.
    """
    from stormwright.pipeline.spark.location import is_uri

    faults: list[Fault] = []
    topic = topic_of(kafka, faults)
    if not faults and directory is None and topic is not None:
        answering(topic)
        return topic
    if not faults and (directory is None or topic is not None):
        faults.append(Fault("pass either a directory of landed files or --kafka with --kafka-topic", "DIRECTORY"))
    if faults or directory is None:
        raise InputError("source of the stream", faults)
    if not is_uri(directory):
        _require_directories("landed files", [Path(directory)])
    return directory


def _print_ledger(counts: LineCounts) -> None:
    table = numbers_table("lines", "")
    for name, count in asdict(counts).items():
        table.add_row(name, f"{count:,}")
    print_table(table)


def _many_rejected(counts: LineCounts, reasons: dict[str, int], into: str) -> str | None:
    """Return a warning if more than `_MANY` of the lines are in quarantine."""
    if counts.quarantined <= _MANY * counts.read:
        return None
    (reason, lines), *_ = reasons.items()
    return (
        f"{counts.quarantined:,} of {counts.read:,} lines were rejected, see {into.rstrip('/')}/quarantine; the most "
        f"frequent reason ({lines:,} lines) is: {reason}"
    )


@command.command()
@click.argument("directory", type=options.PATH)
@click.option(
    "--lines",
    "shown",
    default=5,
    show_default=True,
    type=options.WholeRange(0),
    help="Maximum number of lines to show, newest first.",
)
@options.as_json("Print everything as JSON.")
def quarantine(directory: Path, shown: int, as_json: bool) -> None:
    """Show the quarantined lines by reason, and the newest ones.

    DIRECTORY is the state directory of a service, or the output of a backfill.
    """
    from stormwright.pipeline.parsing.quarantine import read_quarantines

    _require_directories("quarantine", [directory])
    if not (directory / "landing").is_dir() and next(directory.rglob("quarantine"), None) is None:
        what = "is neither the state directory of a service nor the output of a backfill: it has no quarantine"
        raise InputError("quarantine", [Fault(what, str(directory))])
    found = read_quarantines(directory, shown)
    if as_json:
        print_json(
            {"reasons": {reason: asdict(line) for reason, line in found.reasons.items()}, "newest": found.newest}
        )
        return
    if not found.reasons:
        say("nothing is in quarantine")
        return
    table = numbers_table("reason", "lines", "first landed", "last landed")
    for reason, line in found.reasons.items():
        table.add_row(reason, f"{line.lines:,}", in_utc(line.first_ms), in_utc(line.last_ms))
    print_table(table)
    if found.newest:
        newest = text_table("landed", "file", "line", "reason", "text")
        for row in found.newest:
            number = str(row["line_number"] or "")
            as_base64 = f"base64: {row['line_base64']}" if row["line_base64"] else ""
            text = (row["line"] or as_base64)[:80]
            newest.add_row(in_utc(row["landed_ms"]), row["file"], number, row["reason"], text)
        say()
        print_table(newest)


@command.command()
@click.argument("directory", type=options.PATH)
@options.as_json("Print the directory and its tables as JSON.")
def sample(directory: Path, as_json: bool) -> None:
    """Write the records and decisions of ten minutes of Storm, to try Spark without a cluster.

    DIRECTORY is new or empty, and becomes a state directory: the records of workers, loads, decisions, moves and their
    evaluations. Storm ran on four nodes, network namespaces of one machine.
    """
    from stormwright.history.sample import TABLES, write_sample

    write_sample(directory)
    where = str(directory.absolute())
    if as_json:
        print_json({"directory": where, "tables": TABLES})
        return
    say(f"{directory} has the tables {', '.join(TABLES)}. In Python:")
    say()
    say("from pyspark.sql import SparkSession")
    say("spark = SparkSession.builder.getOrCreate()")
    say(f'spark.read.format("stormwright").options(table="loads").load({where!r}).show()')


def _moments(texts: dict[str, str | None]) -> dict[str, int | None]:
    """Return moments in ms by option, None if not given."""
    found: dict[str, int | None] = {}
    faults = []
    for option, text in texts.items():
        try:
            found[option] = None if text is None else _moment_ms(text)
        except (ValueError, OverflowError):
            faults.append(Fault(f"{text!r} is neither an ISO time such as 2026-11-21T10:00 nor a number of ms", option))
    start, end = found.get("--from"), found.get("--to")
    if start is not None and end is not None and start >= end:
        faults.append(Fault("is not after --from", "--to"))
    if faults:
        raise InputError("stretch of time", faults)
    return found


def _moment_ms(text: str) -> int:
    return to_ms(datetime.fromtimestamp(int(text) / 1000, UTC) if text.isdigit() else from_iso(text))


def _landed_in(directories: Sequence[str]) -> list[Location]:
    """Return locations of landed files: directories and URIs, or those within a service's state directory."""
    from stormwright.pipeline.spark.location import is_uri

    _require_directories("landed files", [Path(directory) for directory in directories if not is_uri(directory)])
    found: list[Location] = []
    for directory in directories:
        landing = Path(directory, "landing")
        if is_uri(directory):
            found.append(directory)
        elif landing.is_dir():
            found += [landing, Path(directory, "stream", "raw")]
        else:
            found.append(Path(directory))
    return found


def _require_directories(source: str, paths: Sequence[Path]) -> None:
    faults = [
        Fault("is a file; a directory is required" if path.exists() else "no such directory", str(path))
        for path in paths
        if not path.is_dir()
    ]
    if faults:
        raise InputError(source, faults)
