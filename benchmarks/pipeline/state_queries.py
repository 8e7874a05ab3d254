"""The stream of loads with its state in a processor of `transformWithState`, one per worker.

It removes duplicates, marks late records and sums panes. The rows of a batch are written to a file named by its number,
so that a repeated batch replaces its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from stormwright.pipeline.measurement.panes import HIGHEST, KEYS, LOWEST, VALUES, all_facts, flat_records
from stormwright.pipeline.measurement.windows import PANES, merged
from stormwright.pipeline.parsing.clean import LineCounts, late_marked
from stormwright.pipeline.parsing.parsed import LINE, record_type
from stormwright.pipeline.settings import StreamSettings

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: Settings of a session with such a query. RocksDB needs Hadoop's own local file system, and a batch writes only its
#: changes (changelog).
OPTIONS = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
}

#: Suffix of the files of results.
SUFFIX = ".arrow"

_WORKER = ("topology", "supervisor", "port", "pid", "start_ms")

#: Input of the processor: a row per line. `rejected` are lines that are no record, or a late one.
INPUT = ("worker", "pane_ms", "seq", "start_ms", "rejected", "facts")

#: Output of the processor: the changed panes of a worker as a whole, and what its lines are counted as until now.
OUTPUT = "worker string, pane_ms long, facts string, used long, duplicate long, quarantined long"

_LEDGER = "newest_ms long, oldest_ms long, used long, duplicate long, quarantined long"
_COUNTS = ("used", "duplicate", "quarantined")
_OUTPUT_ROW = Row("worker", "pane_ms", "facts", *_COUNTS)

Fact = dict[str, Any]


def landed_rows(spark: SparkSession, landing: Path, settings: StreamSettings, *, live: bool) -> DataFrame:
    """Return the rows of a landing directory, as a stream or as they are now; `reason` is set for late records too."""
    landed_type = record_type().add("landed_ms", "long").add("reason", "string").add(LINE, "binary")
    if not live:
        return late_marked(spark.read.schema(landed_type).parquet(str(landing)), settings.late_s)
    reader = spark.readStream.schema(landed_type).option("maxFilesPerTrigger", settings.max_files_per_batch)
    if not settings.keep_raw_s:
        reader = reader.option("cleanSource", "delete")
    return late_marked(reader.parquet(str(landing)), settings.late_s)


def worker_rows(rows: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return the input of the processor. Facts are one text: to Python, structures are cell by cell."""
    rejected = F.col("reason").isNotNull().alias("rejected")
    # Lines that are no record have no worker: they are counted together.
    worker = F.to_json(F.struct(*(F.col(f"worker.{name}") for name in _WORKER))).alias("worker")
    flat = flat_records(rows.select("*", rejected, worker.alias("of")), settings, "of", "rejected")
    facts = F.when(~F.col("rejected"), F.to_json(all_facts()))
    return flat.select(F.col("of").alias("worker"), "pane_ms", "seq", "start_ms", "rejected", facts.alias("facts"))


class WorkerPanes(StatefulProcessor):
    """The processor for `transformWithState`: the state of one worker, and how rows change it."""

    def __init__(self, slide_ms: int, memory_ms: int) -> None:
        self._slide_ms, self._memory_ms = slide_ms, memory_ms

    def init(self, handle: Any) -> None:
        """Declare the state: what was counted, and the records and facts of each open pane."""
        self._ledger = handle.getValueState("ledger", _LEDGER)
        self._panes = handle.getMapState("panes", "pane_ms long", "content binary")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Count further rows of a worker and yield its `OUTPUT`."""
        (worker,) = key
        newest_ms, oldest_ms, used, duplicate, quarantined = self._ledger.get() or (0, 0, 0, 0, 0)
        # Before the rows of this batch, as the driver does it.
        forgotten_ms = newest_ms - self._memory_ms if newest_ms else -1
        opened: dict[int, tuple[set[tuple[int, int]], list[Fact]]] = {}
        for row in rows:
            if row.rejected or row.start_ms <= forgotten_ms:
                quarantined += 1
                continue
            pane_ms, key = int(row.pane_ms), (int(row.seq), int(row.start_ms))
            if pane_ms not in opened:
                opened[pane_ms] = self._opened(pane_ms)
            records, facts = opened[pane_ms]
            if key in records:
                duplicate += 1
                continue
            used += 1
            records.add(key)
            facts += orjson.loads(row.facts)
            newest_ms = max(newest_ms, key[1])
            oldest_ms = min(oldest_ms or pane_ms, pane_ms)
        counts = (used, duplicate, quarantined)
        # One row at least, for the counts.
        yield _OUTPUT_ROW(worker, None, None, *counts)
        for pane_ms, (records, facts) in opened.items():
            summed = _summed(facts)
            content = orjson.dumps([list(records), summed])
            self._panes.updateValue((pane_ms,), (content,))
            yield _OUTPUT_ROW(worker, pane_ms, orjson.dumps(summed).decode(), *counts)
        while oldest_ms and oldest_ms + self._slide_ms <= newest_ms - self._memory_ms:
            self._panes.removeKey((oldest_ms,))
            oldest_ms += self._slide_ms
        self._ledger.update((newest_ms, oldest_ms, *counts))

    def _opened(self, pane_ms: int) -> tuple[set[tuple[int, int]], list[Fact]]:
        stored = self._panes.getValue((pane_ms,))
        if stored is None:
            return set(), []
        records, facts = orjson.loads(bytes(stored[0]))
        return set(map(tuple, records)), facts


def _summed(facts: list[Fact]) -> list[Fact]:
    """Return one fact per key. Missing columns are null."""
    found: dict[tuple[Any, ...], Fact] = {}
    for fact in facts:
        key = tuple(map(fact.get, KEYS))
        total = found.get(key)
        if total is None:
            found[key] = fact
            continue
        for name, value in fact.items():
            if name in LOWEST:
                total[name] = min(total[name], value)
            elif name in HIGHEST:
                # Some records have no heap.
                total[name] = max(total.get(name, value), value)
            elif name in VALUES:
                total[name] = total.get(name, 0) + value
    return list(found.values())


def processor_facts(rows: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return `PANES` with `worker` and its counts, a row per fact of each changed pane of each worker."""
    grouped = worker_rows(rows, settings).groupBy("worker")
    processor = WorkerPanes(settings.slide_s * 1000, settings.watermark_s * 1000)
    return with_facts(grouped.transformWithState(processor, OUTPUT, "Update", "None"))


def with_facts(changed: DataFrame) -> DataFrame:
    """Return `OUTPUT` with a row per fact, and one without for counts alone."""
    fact = StructType()
    for name, kind in (KEYS | VALUES).items():
        fact = fact.add(name, kind)
    facts = F.explode_outer(F.from_json("facts", f"array<{fact.simpleString()}>")).alias("fact")
    return changed.select("worker", *_COUNTS, "pane_ms", facts).select("worker", *_COUNTS, "pane_ms", "fact.*")


def start_query(
    spark: SparkSession, landing: Path, directory: Path, settings: StreamSettings, *, until_empty: bool
) -> StreamingQuery:
    """Start the query, which writes its results below a directory.

    Parameters
    ----------
    spark
        Session with `OPTIONS`.
    landing
        Directory of landed Parquet files.
    directory
        Directory of checkpoint and results.
    settings
        Settings of the stream.
    until_empty
        Whether the query ends once it has processed all files, instead of waiting for more.
    """
    results = directory / "results"
    results.mkdir(parents=True, exist_ok=True)

    def write(frame: DataFrame, batch: int) -> None:
        temporary = results / f".{batch}{SUFFIX}"
        table = frame.toArrow()
        with pa.ipc.new_file(str(temporary), table.schema) as file:
            file.write_table(table)
        temporary.replace(results / f"{batch}{SUFFIX}")

    rows = landed_rows(spark, landing, settings, live=True)
    facts = processor_facts(rows, settings)
    writer = facts.writeStream.outputMode("update").queryName("loads").foreachBatch(write)
    trigger = {"availableNow": True} if until_empty else {"processingTime": f"{settings.trigger_s} seconds"}
    return writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(**trigger).start()


def processor_result(tables: list[pa.Table]) -> tuple[pa.Table, LineCounts]:
    """Return `PANES` and ledger from the results of the batches in order: the last pane of each worker holds."""
    panes: dict[tuple[str, int], list[dict[str, Any]]] = {}
    counts: dict[str, tuple[int, int, int]] = {}
    for table in tables:
        of_batch: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            counts[row["worker"]] = (row["used"], row["duplicate"], row["quarantined"])
            if row["pane_ms"] is not None:
                of_batch.setdefault((row["worker"], row["pane_ms"]), []).append(row)
        panes |= of_batch
    rows = [{name: row[name] for name in PANES.names} for facts in panes.values() for row in facts]
    used, duplicate, quarantined = (sum(each) for each in zip(*counts.values(), strict=True))
    ledger = LineCounts(used + duplicate + quarantined, used, duplicate, quarantined)
    # Topologies have facts that several workers share.
    return merged(pa.Table.from_pylist(rows[:1], PANES), pa.Table.from_pylist(rows[1:], PANES)), ledger


def results_of(directory: Path) -> list[pa.Table]:
    """Return the results of the batches of a query in order."""
    paths = sorted((directory / "results").glob(f"[0-9]*{SUFFIX}"), key=lambda path: int(path.stem))
    return [pa.ipc.open_file(str(path)).read_all() for path in paths]
