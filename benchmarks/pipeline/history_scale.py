"""A month's report by topology over generated history, on one core, on two, and on a standalone cluster of two workers.

    python -m benchmarks.pipeline.history_scale [--rows 1000000000] [--days 30] [--cores 1,2] [--directory DIR]

Rows are facts of task pairs, one for each pair and pane of 3 s, as they are once their days are compacted: Spark
generates them in order, straight into the layout of the tables. The report is that of ``stormwright history report``
over the raw rows: there is no roll-up. Each number of cores has a process of its own that may use no others, JVM and
all; it reports over one day first, so that the time is of a JVM that runs already. What it finds for one topology is
compared with sums in NumPy.

A billion rows take about 5 GB on disk (`--directory`, by default a temporary one) and are deleted afterwards, unless
there is a directory to keep them in: then a later run reads what is there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.kit.cpu_time import peak_resident_mb
from benchmarks.kit.results import write_results
from stormwright.history.decisions import clusters
from stormwright.history.reports import topology_reports
from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.store import ParquetStore
from stormwright.pipeline.spark.session import batch_session
from stormwright.pipeline.spark.target import SparkTarget
from stormwright.pipeline.streaming.backfill import TimeStretch

#: Code that the page measures.
MEASURES = (
    "src/stormwright/history/reports.py",
    "src/stormwright/history/tables",
    "src/stormwright/pipeline/spark",
)

#: Executors compile what is hot as a local Spark does.
STANDALONE = {**clusters.DRIVER, "spark.executor.extraJavaOptions": "-Djava.net.preferIPv4Stack=true"}

FIRST_DAY = date(2026, 10, 1)
PANE_MS = 3000
PANES_A_DAY = 86_400_000 // PANE_MS

#: Tuples of a pane: a pattern that NumPy can repeat.
_STEP, _DAY_STEP, _SPREAD, _MIN = 7919, 104_729, 997, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--topologies", type=int, default=100)
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=["generate", "report"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.pairs = math.ceil(options.rows / options.days / PANES_A_DAY)
    options.topologies = min(options.topologies, options.pairs)
    if options.part:
        print(json.dumps(_generate(options) if options.part == "generate" else _report(options)))
        return
    if options.directory:
        _measure(options)
        return
    with TemporaryDirectory(prefix="stormwright-history-scale-") as name:
        options.directory = Path(name)
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    cores = sorted(int(count) for count in options.cores.split(","))
    if not (options.directory / FACTS.name).exists():
        generated = _run("generate", options, cores[-1])
        print(f"generated {generated['rows']:,} rows in {generated['seconds']:.0f} s", flush=True)
    found: dict[int, dict[str, Any]] = {}
    for count in cores:
        found[count] = _run("report", options, count)
        print(f"{count} cores: {found[count]['seconds']:.1f} s", flush=True)
    with clusters.standalone(options.directory / "standalone", options.directory) as cluster:
        spread = _run("report", options, 2, cluster.master)
    print(f"standalone: {spread['seconds']:.1f} s", flush=True)
    rows, least, most = found[cores[0]]["rows"], found[cores[0]], found[cores[-1]]
    assert all(each["sent_tuples"] == least["sent_tuples"] for each in (*found.values(), spread))
    figures = [
        (f"a month's report by topology, {rows:,} pair-rows, {count} of the cores, s", "≤ 60", f"{each['seconds']:.1f}")
        for count, each in found.items()
    ]
    memory = f"{most['peak_mb'] / 1000:.1f} GB"
    figures.append((f"peak memory on {cores[-1]} of the cores, JVM and Python", "≤ 4 GB", memory))
    if len(cores) > 1:
        speed_up = f"{least['seconds'] / most['seconds']:.2f}"
        figures.append((f"times as fast on {cores[-1]} as on {cores[0]}", f"near {cores[-1] / cores[0]:g}", speed_up))
    apart = f"{spread['seconds']:.1f} s, {spread['seconds'] / most['seconds']:.2f} × local"
    figures.append(("on a standalone cluster, two workers of one core", "≤ 1.15 × local", apart))
    figures.append(("bytes on disk a row", "", f"{least['bytes'] / rows:.1f}"))
    parameters = {name: getattr(options, name) for name in ("rows", "days", "topologies", "pairs")}
    details = {"parameters": parameters, "runs": found, "standalone": spread}
    write_results("history-scale", "A month's report over the history", figures, details)


def _run(part: str, options: argparse.Namespace, cores: int, master: str | None = None) -> dict[str, Any]:
    """A part in a process that may use so many cores."""
    command = [
        sys.executable,
        "-m",
        __spec__.name,
        "--part",
        part,
        "--cores",
        str(cores),
        "--directory",
        str(options.directory),
    ]
    command += [f"--{name}={getattr(options, name)}" for name in ("rows", "days", "topologies")]
    command += ["--master", master] if master else []
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, allowed)
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _session(options: argparse.Namespace) -> SparkSession:
    target = SparkTarget(options.master, STANDALONE) if options.master else SparkTarget(f"local[{options.cores}]")
    return batch_session(options.directory / "spark", target)


def _generate(options: argparse.Namespace) -> dict[str, Any]:
    spark = _session(options)
    store, begin = ParquetStore(spark, options.directory.as_uri()), time.perf_counter()
    for number in range(options.days):
        store.write_day(FACTS, FIRST_DAY + timedelta(days=number), _day(spark, options, number))
    seconds = time.perf_counter() - begin
    spark.stop()
    return {"rows": options.days * options.pairs * PANES_A_DAY, "seconds": seconds}


def _day(spark: SparkSession, options: argparse.Namespace, number: int) -> DataFrame:
    """The facts of a day in the order of the table, a few files of them."""
    begin_ms = _ms(number)
    ids = spark.range(0, options.pairs * PANES_A_DAY, 1, max(int(options.cores), options.pairs // 512))
    pair, pane = F.expr(f"id div {PANES_A_DAY}"), F.col("id") % PANES_A_DAY
    topology = F.expr(f"(id div {PANES_A_DAY}) * {options.topologies} div {options.pairs}")
    tuples = (F.col("id") * _STEP + number * _DAY_STEP) % _SPREAD + _MIN
    values = {
        "pane_ms": F.lit(begin_ms) + pane * PANE_MS,
        "kind": F.lit("pair"),
        "topology": F.concat(F.lit("topology-"), F.lpad(topology.cast("string"), 5, "0")),
        "component": F.lit("bolt"),
        "grouping": F.lit("fields"),
        "stream": F.lit("default"),
        "first": pair,
        "second": pair + 1,
        "tuples": tuples,
        "bytes": tuples * 60,
        "sampled": tuples,
    }
    return ids.select(*(values.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in FACTS.columns.items()))


def _report(options: argparse.Namespace) -> dict[str, Any]:
    spark = _session(options)
    store = ParquetStore(spark, options.directory.as_uri())
    topology_reports(store, TimeStretch(_ms(0), _ms(1)))
    begin = time.perf_counter()
    reports = topology_reports(store, TimeStretch(_ms(0), _ms(options.days)))
    seconds = time.perf_counter() - begin
    assert len(reports) == options.topologies
    assert reports[0].sent_tuples == _expected(options)
    assert reports[0].sent_bytes == 60 * reports[0].sent_tuples
    told = {
        "seconds": seconds,
        "peak_mb": peak_resident_mb(),
        "rows": store.read(FACTS).count(),
        "bytes": store.size_bytes(FACTS),
        "sent_tuples": sum(report.sent_tuples for report in reports),
    }
    spark.stop()
    return told


def _expected(options: argparse.Namespace) -> int:
    """Tuples of the first topology."""
    pairs = math.ceil(options.pairs / options.topologies)
    ids = np.arange(pairs * PANES_A_DAY, dtype=np.int64)
    return sum(int(((ids * _STEP + number * _DAY_STEP) % _SPREAD + _MIN).sum()) for number in range(options.days))


def _ms(number: int) -> int:
    day = datetime.combine(FIRST_DAY, datetime.min.time(), UTC) + timedelta(days=number)
    return round(day.timestamp() * 1000)


if __name__ == "__main__":
    main()
