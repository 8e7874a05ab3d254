"""Spark session for queries of the history: few large jobs, unlike the stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from stormwright.history.tables.store import DELTA_CONF, check_format, delta_packages
from stormwright.pipeline.spark.file_systems import with_jars
from stormwright.pipeline.spark.remote import spark_errors
from stormwright.pipeline.spark.scratch import scratch
from stormwright.pipeline.spark.session import batch_session
from stormwright.pipeline.spark.target import SparkTarget


@contextmanager
def history_session(kind: str = "parquet", target: SparkTarget | None = None, uri: str = "") -> Iterator[SparkSession]:
    """Context manager with a session for tables of a format; on all cores of this machine by default.

    Parameters
    ----------
    kind
        Format of the tables.
    target
        Spark to run on, and settings; this machine by default.
    uri
        Location of the tables, whose file system may need jars.

    Raises
    ------
    InputError
        The format is unknown, nothing answers at the S3 endpoint, or the tables cannot be accessed.
    MissingDependencyError
        There is no Java, or it is too old; or a package of the format or of the file system is missing.
    StormwrightError
        Spark does not start, or fails inside the block.
    """
    check_format(kind)
    packages, conf = (delta_packages(), DELTA_CONF) if kind == "delta" else ((), {})
    target = with_jars(target or SparkTarget(), [uri], packages, conf)
    with scratch("history") as directory:
        session = batch_session(directory, target)
        try:
            with spark_errors():
                yield session
        finally:
            session.stop()
