"""A Spark session for questions to the history: few large jobs, where the stream has many small ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from stormwright.errors import MissingDependencyError, StormwrightError
from stormwright.pipeline.history.delta import delta_conf
from stormwright.pipeline.history.store import check_format
from stormwright.pipeline.session import spark_session
from stormwright.pipeline.settings import StreamSettings

#: The stream does without code generation, since planning is what its batches cost. Here rows are.
BATCH_CONF = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.subexpressionElimination.enabled": "true",
    "spark.sql.constraintPropagation.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
}


#: What Spark's log says of jars that it did not get.
_NO_JARS = ("FAILED DOWNLOADS", "UNRESOLVED DEPENDENCIES")


def for_batches(session: SparkSession) -> SparkSession:
    """Set a session so that large jobs are fast."""
    for key, value in BATCH_CONF.items():
        session.conf.set(key, value)
    return session


@contextmanager
def history_session(kind: str = "parquet") -> Iterator[SparkSession]:
    """A session of its own for tables of a format, which ends with the block.

    Raises
    ------
    InputError
        There is no such format.
    MissingDependencyError
        There is no Java, or it is too old; or what the format needs is not installed, or cannot be had.
    """
    check_format(kind)
    conf = delta_conf() if kind == "delta" else {}
    with TemporaryDirectory(prefix="stormwright-history-") as name:
        try:
            session = for_batches(spark_session(Path(name), StreamSettings(), conf))
        except StormwrightError as error:
            log = Path(name, "spark.log")
            if log.exists() and any(mark in log.read_text(encoding="utf-8") for mark in _NO_JARS):
                raise MissingDependencyError(
                    f"{conf['spark.jars.packages']} cannot be had from any Maven repository that Spark knows"
                ) from error
            raise
        try:
            yield session
        finally:
            session.stop()
