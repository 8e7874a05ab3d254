"""Spark sessions: one small, low-priority JVM beside this process, or a target chosen by the user."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

from stormwright.base.java import find_java
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark import remote
from stormwright.pipeline.spark.file_systems import jars_error, with_jars
from stormwright.pipeline.spark.location import Location
from stormwright.pipeline.spark.scratch import scratch
from stormwright.pipeline.spark.target import EVERYWHERE, SPARK_ERRORS, SparkTarget, first_line

LOOPBACK = "127.0.0.1"

#: Partitions after a shuffle: measured on two cores, 200 (Spark's default) cost three times the CPU of 2 to 4.
BATCH_PARTITIONS = 4

#: Default heap of a batch's JVM.
BATCH_HEAP_MB = 2048

_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: What differs where batches hold many records.
_HIGH = {"spark.master": "local[*]", "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 1))}

#: Options for the driver of a cluster. Partitions and addresses are left to the cluster's own configuration.
CLUSTER = {**EVERYWHERE, "spark.ui.showConsoleProgress": "false"}

#: Set by spark-submit in the programs that it starts: the JVM is there already.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"

#: Lines of a JVM's log that state why it ended: the error, and the exit.
_LAST_LINES = 3

#: Sourced by Spark's launcher before it becomes the JVM, so the JVM inherits all of it.
_SPARK_ENV = """\
exec 2>>{log}
renice -n {niceness} -p $$ >/dev/null
"""

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 4MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""

#: Prefix of settings of Hadoop, and those that may be secrets, as in Spark's own ``spark.redaction.regex``: PySpark
#: passes settings on the command line of the JVM, which other users can see, so these are set when it runs.
_HADOOP = "spark.hadoop."
_SECRET = re.compile(rf"^{re.escape(_HADOOP)}.*(secret|password|token|access\.?key)", re.IGNORECASE)


def temporary(directory: Path) -> Path:
    """Return the directory for files that need not outlive the JVM."""
    return directory / "tmp"


def of_this_machine(directory: Path, heap_mb: int, java: str = "") -> dict[str, str]:
    """Return options for any work in a private, local JVM; `java` are its options."""
    return {
        **EVERYWHERE,
        "spark.driver.memory": f"{heap_mb}m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        # Other users of this machine can reach it as well, but Spark generates a secret.
        "spark.authenticate": "true",
        "spark.local.dir": str(temporary(directory)),
        # RocksDB unpacks 15 MB of machine code, which stay where they are if the JVM is killed.
        "spark.driver.extraJavaOptions": f"{shlex.quote(f'-Djava.io.tmpdir={temporary(directory)}')} {java}".rstrip(),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Hadoop's default runs a chmod process for every file that it makes, some 90 a batch of the stream.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # The S3 client's buffers on disk, its default, need the file system that this replaces; in memory, small ones
        # do: an object may have 10,000 of them.
        "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
        "spark.hadoop.fs.s3a.multipart.size": "8M",
        # Many small files are listed by the driver, not by a job with a task a file.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }


def live(directory: Path, settings: StreamSettings) -> dict[str, str]:
    """Return options for a stream beside the monitored system: least CPU, unless its rate is high."""
    is_high = settings.rate == "high"
    # A small heap on a busy machine: no parallel collector, no second compiler.
    java = "-XX:+UseParallelGC" if is_high else "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return {
        **of_this_machine(directory, settings.heap_mb, java),
        # Hundreds of records a second fit one task; each further partition is one more state store of the alarms.
        "spark.sql.shuffle.partitions": "1",
        # Large batches are planned again, and planning dominates their cost.
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.streaming.stateStore.stateSchemaCheck": "false",
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.maxPlanStringLength": "1000",
        # The queries of alarms and of Kafka have nothing to do without data.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        # The log of files ever read is rewritten as a whole at each compaction.
        "spark.sql.streaming.fileSource.log.compactInterval": "200",
        # Batches are planned once, as what they hold is known by then.
        "spark.sql.adaptive.enabled": "false",
        # What is read once and used twice stays for a moment only.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        **(_HIGH if is_high else {}),
    }


def batch(directory: Path) -> dict[str, str]:
    """Return options for large data on all cores: generated code and the parallel collector (Spark's defaults)."""
    return {
        **of_this_machine(directory, BATCH_HEAP_MB),
        "spark.sql.shuffle.partitions": str(BATCH_PARTITIONS),
    }


def spark_session(
    directory: Path, settings: StreamSettings, conf: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """Start the live stream's Spark in a JVM of its own, or join the session of this process.

    Parameters
    ----------
    directory
        Directory for Spark's configuration, temporary files and log (``spark.log``).
    settings
        Settings of the stream.
    conf
        Further settings of Spark.

    Raises
    ------
    MissingDependencyError
        There is no Java, or it is too old.
    StormwrightError
        The JVM did not come up.
    """
    find_java("Spark")
    log = _configure(directory.absolute(), settings.niceness)
    return _started("local[1]", {**live(directory.absolute(), settings), **conf}, lambda: f"see {log}")


def batch_session(directory: Path, target: SparkTarget | None = None) -> SparkSession:
    """Start Spark for large data, or join the session of spark-submit or this process.

    Parameters
    ----------
    directory
        Directory for Spark's configuration, temporary files and log (``spark.log``), if it runs on this machine.
    target
        Where Spark runs; all cores of this machine by default.

    Raises
    ------
    InputError
        A setting that cannot be made there, or ``--master`` under spark-submit.
    MissingDependencyError
        There is no Java, or it is too old; a Connect server needs none here, but packages of its own. Or jars could not
        be fetched.
    StormwrightError
        There is nothing at the address, or Spark did not come up.
    """
    target = target or SparkTarget()
    if target.connect:
        return remote.connect_session(target)
    find_java("Spark")
    if _SUBMITTED in os.environ:
        if target.master is not None:
            raise InputError("where Spark runs", [Fault("is set by spark-submit, which runs this process", "--master")])
        return _started(None, {**CLUSTER, **target.conf}, lambda: "spark-submit's output says more")
    if target.local:
        log = _configure(directory.absolute(), niceness=0)
        options = {**batch(directory.absolute()), **target.conf}
        try:
            # The directory may not outlive the error.
            return _started(target.master or "local[*]", options, lambda: _last_lines(log))
        except StormwrightError as error:
            printed = log.read_text("utf-8", errors="replace") if log.exists() else ""
            raise jars_error(target, printed) or error from error
    remote.require_master(target)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not os.environ.keys() & {"SPARK_CONF_DIR", "SPARK_HOME"}:
        # Without a configuration of the user's own, Spark would write its warnings between our lines.
        os.environ["SPARK_CONF_DIR"] = str(_write_logging(directory.absolute()).parent)
    options = {**CLUSTER, **target.conf}
    spark = _started(target.master, options, lambda: f"is there a Spark at {target.master}?")
    remote.require_row(spark, target)
    return spark


@contextmanager
def working_session(target: SparkTarget | None = None, locations: Sequence[Location] = ()) -> Iterator[SparkSession]:
    """Yield a `batch_session` that ends with the block and leaves nothing on this machine.

    Parameters
    ----------
    target
        Spark to run on; all cores of this machine by default.
    locations
        Locations that will be accessed, whose file systems may need jars (`with_jars`).

    Raises
    ------
    StormwrightError
        As `batch_session`, and where Spark fails inside the block.
    """
    with scratch("spark") as directory:
        previous = signal.getsignal(signal.SIGINT)
        spark = batch_session(directory, with_jars(target or SparkTarget(), locations))
        try:
            with remote.spark_errors(), _previous_interrupt_handler(previous):
                yield spark
        finally:
            spark.stop()


@contextmanager
def _previous_interrupt_handler(previous: Any) -> Iterator[None]:
    """Restore the previous Ctrl-C handler for the block.

    Spark's own handler asks the JVM to cancel jobs in the middle of another call, on the same connection; of that, and
    of the call that ends, Py4J logs tracebacks. To stop the session cancels jobs, too.
    """
    root, main = logging.getLogger(), threading.current_thread() is threading.main_thread()
    if main:
        signal.signal(signal.SIGINT, previous)
    root.addFilter(_no_interrupted_call)
    try:
        yield
    finally:
        root.removeFilter(_no_interrupted_call)


def _no_interrupted_call(record: logging.LogRecord) -> bool:
    """Return False for log records of Py4J about Ctrl-C."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _started(master: str | None, options: Mapping[str, str], hint: Callable[[], str]) -> SparkSession:
    builder = SparkSession.builder.appName("stormwright")
    if master is not None:
        builder = builder.master(master)
    secrets = {key: value for key, value in options.items() if _SECRET.search(key)}
    for key, value in options.items():
        if key not in secrets:
            builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        for key, value in secrets.items():
            spark.conf.set(key.removeprefix(_HADOOP), value)
    except SPARK_ERRORS as error:
        raise StormwrightError(f"Spark did not start: {first_line(error)}; {hint()}") from error
    return spark


def _last_lines(log: Path) -> str:
    """Return the last output of a JVM before it ended."""
    lines = log.read_text("utf-8", errors="replace").splitlines() if log.exists() else []
    last_lines = [line.strip() for line in lines if line.strip()][-_LAST_LINES:]
    return "; ".join(last_lines) or "it printed nothing"


def _configure(directory: Path, niceness: int) -> Path:
    """Prepare the environment in which the JVM starts; return the path of its log."""
    # Leftovers of a killed JVM. A stopped JVM that this process may reuse only needs the directory.
    shutil.rmtree(temporary(directory), ignore_errors=True)
    temporary(directory).mkdir(parents=True)
    log = directory / "spark.log"
    conf = _write_logging(directory).parent
    (conf / "spark-env.sh").write_text(
        _SPARK_ENV.format(log=shlex.quote(str(log)), niceness=max(niceness, os.getpriority(os.PRIO_PROCESS, 0))),
        encoding="utf-8",
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    os.environ["SPARK_CONF_DIR"] = str(conf)
    return log


def _write_logging(directory: Path) -> Path:
    """Write a logging configuration that sends Spark's log to ``spark.log`` in the directory."""
    conf = directory / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    settings = conf / "log4j2.properties"
    # Log4j would expand this prefix.
    log = str(directory / "spark.log").replace("\\", "\\\\").replace("${", "$${")
    settings.write_text(_LOG4J.format(log=log), encoding="utf-8")
    return settings
