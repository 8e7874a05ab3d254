"""Spark's settings for the two kinds of work, each with its reason: a lean live stream, and batches."""

from __future__ import annotations

import shlex
from pathlib import Path

from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.rates import rate_options

LOOPBACK = "127.0.0.1"

#: Partitions after a shuffle: measured on two cores, 200 (Spark's default) cost three times the CPU of 2 to 4.
BATCH_PARTITIONS = 4

#: Heap of a batch's JVM where no setting says another.
BATCH_HEAP_MB = 2048

_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: Means the same wherever Spark runs, and may be set in a session that runs already.
EVERYWHERE = {"spark.sql.session.timeZone": "UTC"}


def temporary(directory: Path) -> Path:
    """Where everything goes that need not outlive the JVM."""
    return directory / "tmp"


def of_this_machine(directory: Path, heap_mb: int, java: str = "") -> dict[str, str]:
    """For any work in a JVM of this process's own, which nothing but this machine reaches; `java` are its options."""
    return {
        **EVERYWHERE,
        "spark.driver.memory": f"{heap_mb}m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        # Other users of this machine reach it as well: Spark thinks of a secret by itself, which they do not know.
        "spark.authenticate": "true",
        "spark.local.dir": str(temporary(directory)),
        # RocksDB unpacks 15 MB of machine code, which stay where they are if the JVM is killed.
        "spark.driver.extraJavaOptions": f"{shlex.quote(f'-Djava.io.tmpdir={temporary(directory)}')} {java}".rstrip(),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Hadoop's default runs a chmod process for every file that it makes, some 90 a batch of the stream.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # Many small files are listed by the driver, not by a job with a task a file.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }


def live(directory: Path, settings: StreamSettings) -> dict[str, str]:
    """For a stream beside what it watches: as little CPU as can be, unless its rate is high."""
    return {
        # A small heap on a busy machine: no parallel collector, no second compiler.
        **of_this_machine(directory, settings.heap_mb, "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
        # Hundreds of records a second fit one task; every further partition is a state store more per batch.
        "spark.sql.shuffle.partitions": "1",
        # Every batch is planned anew, and holds so few rows that planning is what it costs: measured at 6 records/s,
        # 0.46 s of CPU a batch with these, 0.75 s with Spark's defaults (at 100 records/s 1.35 s and 1.2 s).
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.subexpressionElimination.enabled": "false",
        "spark.sql.streaming.stateStore.stateSchemaCheck": "false",
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.maxPlanStringLength": "1000",
        # A batch without data would only evict state; the next one with data does it as well.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        # The log of files ever read is rewritten as a whole at each compaction.
        "spark.sql.streaming.fileSource.log.compactInterval": "200",
        **rate_options(settings.rate),
    }


def batch(directory: Path) -> dict[str, str]:
    """For much data at once on all cores: generated code and the parallel collector, which are Spark's defaults."""
    return {
        **of_this_machine(directory, BATCH_HEAP_MB),
        "spark.sql.shuffle.partitions": str(BATCH_PARTITIONS),
    }


#: For a driver of a cluster. How many partitions and which addresses fit is for the cluster's own configuration to say.
CLUSTER = {**EVERYWHERE, "spark.ui.showConsoleProgress": "false"}
