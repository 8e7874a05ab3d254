"""How fast the pipeline is: records landed in bulk, and a batch beside DuckDB's doing the same.

    python -m benchmarks.pipeline.speed [--records 1000000]

Each part runs in a process of its own, so its start is a cold one. The floors beside the figures say what Spark
needs in the same session for no more than reading these lines, and for no more than adding up their pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kit.cpu_time import Spent
from benchmarks.kit.results import write_results
from benchmarks.pipeline.records import FACTS, PAIRS, Workers
from stormwright.perflog import Landing
from stormwright.perflog.columns import RecordLanding, landed_table
from stormwright.pipeline.settings import StreamSettings

#: Code that the page measures.
MEASURES = (
    "src/stormwright/pipeline/measurement",
    "src/stormwright/pipeline/streaming",
    "src/stormwright/perflog",
)

LINES_PER_FILE = 20_000

#: A minute's panes, for the parts that go through hours of records in seconds.
BULK = StreamSettings(
    window_s=300,
    slide_s=60,
    late_s=120,
    trigger_s=0.1,
    rate="high",
    heap_mb=6000,
    max_files_per_batch=10,
    keep_raw_s=10**9,
)
START_MS = 1_760_000_000_000 // 60_000 * 60_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=400)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.records < (least := 3 * BULK.max_files_per_batch * LINES_PER_FILE):
        parser.error(f"--records {options.records}: at least {least}, three batches, for one of a warm JVM")
    if options.part:
        return print(json.dumps(PARTS[options.part](options)))
    with tempfile.TemporaryDirectory(prefix="stormwright-speed-") as name:
        options.directory = Path(name)
        size = fill(options)
        found = {"bytes_per_record": size / options.records} | {part: _apart(part, options) for part in PARTS}
    write_results("pipeline-speed", "How fast the pipeline is", _rows(found, options), {"found": found})
    return None


def fill(options: argparse.Namespace) -> int:
    """Land all records in files, of lines and of columns, as they would have over hours; bytes of the lines."""
    workers = Workers(options.workers, START_MS)
    of_lines, of_columns = Landing(options.directory / "lines"), RecordLanding(options.directory / "columns")
    lines: list[bytes] = []
    size = 0

    def land() -> None:
        landed_ms = START_MS + (second + 2) * 1000
        for path in (of_lines.write(lines), of_columns.write(landed_table(lines, landed_ms, BULK.late_s))):
            assert path is not None
            os.utime(path, ns=(landed_ms * 10**6, landed_ms * 10**6))
        lines.clear()

    for second in range(options.records // options.workers):
        lines += workers.second(second)
        size += sum(map(len, lines[-options.workers :])) + options.workers
        if len(lines) >= LINES_PER_FILE:
            land()
    if lines:
        land()
    return size


def lines_part(options: argparse.Namespace) -> dict[str, Any]:
    """All files of JSON lines, through a stream."""
    return stream_part(options, options.directory / "lines")


def columns_part(options: argparse.Namespace) -> dict[str, Any]:
    """All files of columns, through a stream."""
    return stream_part(options, options.directory / "columns")


def stream_part(options: argparse.Namespace, landing: Path) -> dict[str, Any]:
    """All that has landed in a directory, through a stream from its cold start on."""
    from stormwright.pipeline.streaming.stream import LoadStream

    total = options.records // options.workers * options.workers
    begun = Spent.now()
    with LoadStream(landing, options.directory / f"state-{landing.name}", BULK) as stream:
        reached = [(0, Spent.now())]
        while reached[-1][0] < total:
            progress = stream.progress()
            assert progress["running"], progress
            assert progress["error"] is None, progress
            if (read := progress["ledger"]["read"]) > reached[-1][0]:
                reached.append((read, Spent.now()))
            time.sleep(0.1)
        assert progress["ledger"]["used"] == total, progress
        raw = stream.raw
    # The JVM warms up with the first batches.
    steady_from = max(1, len(reached) // 2)
    (before, then), (after, now) = reached[steady_from], reached[-1]
    steady, cold = now - then, now - begun
    for path in raw.glob("*"):
        path.rename(landing / path.name)
    return {
        "steady_per_s": (after - before) / steady.wall_s,
        "steady_cpu_us": steady.cpu_s / (after - before) * 1e6,
        "steady_python_us": steady.python_s / (after - before) * 1e6,
        "cold_per_s": total / cold.wall_s,
        "cold_cpu_s": cold.cpu_s,
        "batches": [(read, spent.wall_s - begun.wall_s) for read, spent in reached],
    }


def batch_part(options: argparse.Namespace) -> dict[str, Any]:
    """Records as a Parquet table → facts per pane, beside DuckDB."""
    import duckdb
    from pyspark.sql import functions as F  # noqa: N812

    from benchmarks.pipeline.in_duckdb import panes_sql
    from stormwright.pipeline.measurement.panes import panes
    from stormwright.pipeline.parsing.parsed import record_type
    from stormwright.pipeline.parsing.source import read_records
    from stormwright.pipeline.spark.session import spark_session
    from stormwright.pipeline.streaming.backfill import backfill

    spark = spark_session(options.directory / "spark", BULK)
    landing, into = options.directory / "lines", options.directory / "backfill"
    begun = Spent.now()
    ledger = backfill(spark, [landing], into, settings=BULK)
    backfilled = Spent.now() - begun
    table = into / "records"
    lines = spark.read.schema(record_type()).json(str(landing))
    columns = spark.read.schema(record_type()).parquet(str(options.directory / "columns"))
    records = read_records(spark, table)
    ours = [_timed(lambda: panes(records, BULK).toArrow()) for _ in range(options.runs)]
    pair = F.explode("pairs").alias("pair")
    per_pair = records.select("worker.topology", pair).groupBy("topology", F.col("pair")[0], F.col("pair")[1])
    floors = {
        "lines": [_timed(lambda: lines.write.format("noop").mode("overwrite").save()) for _ in range(4)],
        "columns": [_timed(lambda: columns.write.format("noop").mode("overwrite").save()) for _ in range(4)],
        "pairs": [_timed(lambda: per_pair.agg(F.sum(F.col("pair")[3])).toArrow()) for _ in range(2)],
    }
    spark.stop()
    database = duckdb.connect()
    sql = panes_sql(table, BULK.slide_s)
    theirs = [_timed(lambda: database.sql(sql).to_arrow_table()) for _ in range(options.runs)]
    return {
        "records": ledger.used,
        "backfill_s": backfilled.wall_s,
        "backfill_cpu_s": backfilled.cpu_s,
        "spark_s": [spent.wall_s for _, spent in ours],
        "spark_cpu_s": [spent.cpu_s for _, spent in ours],
        "duckdb_s": [spent.wall_s for _, spent in theirs],
        "duckdb_cpu_s": [spent.cpu_s for _, spent in theirs],
        "floors": {name: [runs[-1][1].wall_s, runs[-1][1].cpu_s] for name, runs in floors.items()},
        "rows": ours[-1][0].num_rows,
        "identical": _sorted(ours[-1][0]) == _sorted(theirs[-1][0]),
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "columns": columns_part, "lines": lines_part, "batch": batch_part,
}  # fmt: skip


def _timed(run: Callable[[], Any]) -> tuple[Any, Spent]:
    begun = Spent.now()
    return run(), Spent.now() - begun


def _sorted(table: Any) -> Any:
    """The table in a known order; the sums of floats to the nanosecond, as they depend on the order of adding up."""
    import pyarrow.compute as pc

    from stormwright.pipeline.measurement.windows import PANES

    table = table.select(PANES.names).cast(PANES)
    table = table.set_column(PANES.get_field_index("cpu_ns"), "cpu_ns", pc.round(table["cpu_ns"]))
    return table.sort_by([(name, "ascending") for name in PANES.names[:9]]).combine_chunks()


def _apart(part: str, options: argparse.Namespace) -> dict[str, Any]:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in vars(options).items() if value is not None]
    print(f"{part} ...", file=sys.stderr, flush=True)
    said = subprocess.run(
        [sys.executable, "-m", __spec__.name, *arguments, "--part", part], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    print(f"{part}: {json.dumps(found)[:600]}", file=sys.stderr, flush=True)
    return found


def _rows(found: dict[str, Any], options: argparse.Namespace) -> list[tuple[str, str, str]]:
    size, batch = found["bytes_per_record"], found["batch"]
    # The first run warms up.
    ours_s, ours_cpu_s, duckdb_s, duckdb_cpu_s = (
        median(batch[f"{name}_s"][1:]) for name in ("spark", "spark_cpu", "duckdb", "duckdb_cpu")
    )
    pairs_s, pairs_cpu_s = batch["floors"]["pairs"]

    def rate(per_s: float, cpu_s: float, of_them_python: str = "") -> str:
        cpu_us = cpu_s / options.records * 1e6
        return f"{per_s / 1000:.0f} k/s = {per_s * size / 1e6:.0f} MB/s; CPU {cpu_us:.1f} µs each{of_them_python}"

    def of_stream(form: str, asked: str) -> list[tuple[str, str, str]]:
        stream, (floor_s, floor_cpu_s) = found[form], batch["floors"][form]
        python = f", of it {stream['steady_python_us']:.1f} µs in Python"
        steady = rate(stream["steady_per_s"], stream["steady_cpu_us"] * options.records / 1e6, python)
        part = stream["steady_per_s"] * floor_s / options.records
        floor = f"{rate(options.records / floor_s, floor_cpu_s)}; the stream reaches {part:.0%} of it"
        return [
            (f"streaming {form}, steady", asked, steady),
            (f"streaming {form}, cold start included", "", rate(stream["cold_per_s"], stream["cold_cpu_s"])),
            (f"floor: Spark reads these {form} and no more", "", floor),
        ]

    rows = f"{options.records / 1e6:g} M records → {options.records * FACTS / 1e6:g} M facts → {batch['rows']} rows"
    duckdb = f"{ours_cpu_s:.2f} s / {duckdb_cpu_s:.2f} s; DuckDB takes {duckdb_s:.2f} s by the clock"
    backfill = f"{batch['backfill_s']:.1f} s, {batch['backfill_cpu_s']:.1f} s CPU"
    return [
        (f"records of {options.workers} workers: size, pairs, facts", "250, 6, 12", f"{size:.0f}, {PAIRS}, {FACTS}"),
        *of_stream("columns", "≥ 90 k/s"),
        *of_stream("lines", "≥ 45 k/s"),
        (f"batch over Parquet, warm: {rows}", "≤ 2 × DuckDB's", f"{ours_s:.2f} s = {ours_s / duckdb_s:.1f} × DuckDB's"),
        ("its CPU time / DuckDB's for the same", "", f"{ours_cpu_s / duckdb_cpu_s:.1f} ({duckdb})"),
        ("result identical to DuckDB's", "yes", "yes" if batch["identical"] else "no"),
        ("floor: only the tuples of the pairs are added up", "", f"{pairs_s:.2f} s, {pairs_cpu_s:.2f} s CPU"),
        (f"backfill from {options.records / 1e6:g} M JSON lines, cold", "≤ 30 s", backfill),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
