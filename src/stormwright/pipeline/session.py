"""The Spark session: one JVM beside this process, small and nice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stormwright.errors import MissingDependencyError, StormwrightError
from stormwright.pipeline.rates import rate_options
from stormwright.pipeline.settings import StreamSettings

OLDEST_JAVA = 17

LOOPBACK = "127.0.0.1"

#: Sourced by Spark's launcher before it becomes the JVM, so the JVM inherits all of it.
_SPARK_ENV = """\
exec 2>>"{log}"
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


def spark_session(directory: Path, settings: StreamSettings, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark in a JVM of its own, or join the one that this process already has.

    Parameters
    ----------
    directory
        For Spark's own configuration, temporary files and log (``spark.log``).
    conf
        Settings of Spark that go before ours.

    Raises
    ------
    MissingDependencyError
        There is no Java, or it is too old.
    StormwrightError
        The JVM did not come up.
    """
    require_java()
    log = _configure(directory.absolute(), settings.niceness)
    builder = SparkSession.builder.appName("stormwright").master("local[1]")
    for key, value in {**_options(directory.absolute(), settings), **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise StormwrightError(f"Spark did not start: {error}; see {log}") from error


def require_java() -> None:
    """Raise MissingDependencyError unless the Java that Spark would run is recent enough."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    where = f"JAVA_HOME is {home}" if home else "JAVA_HOME is not set, no java on PATH"
    wanted = f"Spark needs Java {OLDEST_JAVA} or later, for instance Debian's openjdk-17-jre-headless"
    if java is None or not os.access(java, os.X_OK):
        raise MissingDependencyError(f"{wanted}: none found ({where})")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        raise MissingDependencyError(f"{wanted}: {java} -version says {said.strip()[:100]!r}")
    if int(version[1]) < OLDEST_JAVA:
        raise MissingDependencyError(f"{wanted}: {java} is version {version[1]}")


_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def _configure(directory: Path, niceness: int) -> Path:
    """Prepare what the JVM finds in its environment when it starts; return the path of its log."""
    conf, log = directory / "conf", directory / "spark.log"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "spark-env.sh").write_text(_SPARK_ENV.format(log=log, niceness=niceness), encoding="utf-8")
    (conf / "log4j2.properties").write_text(_LOG4J.format(log=log), encoding="utf-8")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    os.environ["SPARK_CONF_DIR"] = str(conf)
    return log


def _options(directory: Path, settings: StreamSettings) -> dict[str, str]:
    return {
        "spark.driver.memory": f"{settings.heap_mb}m",
        # A small heap on a busy machine: no parallel collector, no second compiler.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.local.dir": str(directory / "tmp"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Hundreds of records a second fit one task; every further partition is a state store more per batch.
        "spark.sql.shuffle.partitions": "1",
        # Many small files are listed by the driver, not by a job with a task a file.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
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
        # Hadoop's default runs a chmod process for every file that it makes, some 90 a batch.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        # The log of files ever read is rewritten as a whole at each compaction.
        "spark.sql.streaming.fileSource.log.compactInterval": "200",
        **rate_options(settings.rate),
    }
