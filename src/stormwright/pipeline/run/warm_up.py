"""A record through a stream of its own, before those that somebody waits for."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from stormwright.perflog import VERSION, Landing, encode
from stormwright.pipeline.lines.source import read_stream
from stormwright.pipeline.plan import prepared
from stormwright.pipeline.run.sink import ProfileSink
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.scratch import scratch


def loads_writer(
    spark: SparkSession, landing: Path, checkpoint: Path, sink: ProfileSink, settings: StreamSettings
) -> DataStreamWriter:
    """The query of loads over a landing directory; not started.

    Parameters
    ----------
    spark
        Session that it will run in.
    landing
        Directory whose files it reads.
    checkpoint
        Directory for Spark's notes; what is in it is deleted first.
    sink
        Takes the batches, and none of queries before this one any more.
    settings
        How lines become facts, and how many files a batch takes.
    """
    # What Spark notes there is needed while a query runs only; its list of files ever read would grow for ever.
    shutil.rmtree(checkpoint, ignore_errors=True)
    take = sink.begin()
    rows = prepared(read_stream(spark, landing, settings), settings)
    return rows.writeStream.queryName("loads").option("checkpointLocation", str(checkpoint)).foreachBatch(take)


def warm_up(spark: SparkSession, settings: StreamSettings) -> None:
    """Take a record through a stream of its own.

    A JVM's first batch costs some ten times as much CPU as a later one; this way not when the first records come.
    """
    with scratch("warm-up") as directory:
        landing = Landing(directory / "landing")
        landing.write([encode(_sample(round(time.time() * 1000)))])
        sink = ProfileSink(
            landing.directory, directory / "raw", directory / "state", directory / "latest.json", settings
        )
        writer = loads_writer(spark, landing.directory, directory / "checkpoint", sink, settings)
        writer.trigger(availableNow=True).start().awaitTermination()


def _sample(now_ms: int) -> dict[str, Any]:
    """A record with something of everything."""
    worker = {"topology": "t", "supervisor": "s", "host": "h", "port": 1, "pid": 1, "start_ms": now_ms, "last": 0}
    counts = dict.fromkeys(("cpu_ns", "received", "emitted", "trees", "acked", "failed", "execute_ns"), 1)
    return {
        "version": VERSION, "worker": worker, "seq": 0, "start_ms": now_ms - 1000, "length_ns": 1_000_000_000,
        "written_ms": now_ms, "process_cpu_ns": 1, "heap_bytes": 1,
        "executors": [{"component": "a", "first_task": 1, "last_task": 1, **counts}],
        "streams": [["a", "default", "b", "shuffle"]], "pairs": [[1, 2, 0, 1, 1]],
        "complete_latency": {"counts": [0, 1]},
        "threads": dict.fromkeys(("messaging_ns", "gc_ns", "compiler_ns", "other_ns"), 1),
        "gc": {"collections": 1, "ms": 1}, "node": {"sent_bytes": 1, "received_bytes": 1, "millicores": 1000},
    }  # fmt: skip
