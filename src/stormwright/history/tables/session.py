"""Spark session for queries of the history: few large jobs, unlike the stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from stormwright.errors import MissingDependencyError, StormwrightError
from stormwright.history.tables.store import check_format, delta_conf
from stormwright.pipeline.spark.remote import spark_errors
from stormwright.pipeline.spark.scratch import scratch
from stormwright.pipeline.spark.session import batch_session
from stormwright.pipeline.spark.target import SparkTarget

#: Messages of Spark's log about missing jars.
_NO_JARS = ("FAILED DOWNLOADS", "UNRESOLVED DEPENDENCIES")


@contextmanager
def history_session(kind: str = "parquet", target: SparkTarget | None = None) -> Iterator[SparkSession]:
    """Context manager with a session for tables of a format; on all cores of this machine by default.

    Raises
    ------
    InputError
        The format is unknown.
    MissingDependencyError
        There is no Java, or it is too old; or a package of the format is not installed or not available.
    StormwrightError
        Spark does not start, or fails inside the block.
    """
    check_format(kind)
    conf = delta_conf() if kind == "delta" else {}
    with scratch("history") as directory:
        try:
            target = target or SparkTarget()
            session = batch_session(directory, replace(target, conf={**conf, **target.conf}))
        except StormwrightError as error:
            log = directory / "spark.log"
            if log.exists() and any(mark in log.read_text(encoding="utf-8") for mark in _NO_JARS):
                raise MissingDependencyError(
                    f"{conf['spark.jars.packages']} is not available from any Maven repository of Spark"
                ) from error
            raise
        try:
            with spark_errors():
                yield session
        finally:
            session.stop()
