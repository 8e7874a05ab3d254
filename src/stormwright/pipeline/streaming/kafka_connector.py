"""The jars of Spark's Kafka connector, which are no part of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from stormwright.errors import MissingDependencyError, StormwrightError
from stormwright.pipeline.settings import KafkaTopic, StreamSettings
from stormwright.pipeline.spark.file_systems import could_not_fetch, fetching
from stormwright.pipeline.spark.session import spark_session

#: Has the version of Spark.
CONNECTOR = "spark-sql-kafka-0-10_2.13"


def connector_conf(topic: KafkaTopic, directory: Path) -> Mapping[str, str]:
    """Return the settings of a Spark session that give it the connector.

    Parameters
    ----------
    topic
        Topic to read, with the directory of the jars, if they are there.
    directory
        Directory in which fetched jars are stored for the next start.

    Raises
    ------
    MissingDependencyError
        The directory of jars has no connector of this version of Spark.
    """
    if topic.jars is None:
        return {**fetching([connector_package()]), "spark.jars.ivy": str(directory.absolute())}
    return connector_jars(topic.jars)


def connector_package() -> str:
    """Return the Maven coordinates of the connector for this version of Spark."""
    return f"org.apache.spark:{CONNECTOR}:{pyspark.__version__}"


def connector_jars(directory: Path) -> Mapping[str, str]:
    """Return the setting of a Spark session with the jars of a directory.

    Raises
    ------
    MissingDependencyError
        It has no connector of this version of Spark.
    """
    connector = directory / f"{CONNECTOR}-{pyspark.__version__}.jar"
    if not connector.is_file():
        raise MissingDependencyError(
            f"{connector} is missing: copy it there with the jars that it depends on, or leave out --kafka-jars to "
            "fetch them from a Maven repository"
        )
    return {"spark.jars": ",".join(str(jar.absolute()) for jar in sorted(directory.glob("*.jar")))}


def connected_session(directory: Path, settings: StreamSettings) -> SparkSession:
    """Start the Spark of a stream, as `spark_session`, with the connector if the settings name a topic.

    Raises
    ------
    MissingDependencyError
        There is no Java, or it is too old; or the connector's jars are neither there nor available.
    StormwrightError
        The JVM did not come up.
    """
    if settings.kafka is None:
        return spark_session(directory, settings)
    conf, log = connector_conf(settings.kafka, directory / "ivy"), directory / "spark.log"
    begin = log.stat().st_size if log.exists() else 0
    try:
        return spark_session(directory, settings, conf)
    except StormwrightError as error:
        # Of earlier starts the log may say the same.
        printed = log.read_bytes()[begin:].decode("utf-8", "replace") if log.exists() else ""
        if settings.kafka.jars is None and could_not_fetch(printed):
            raise MissingDependencyError(
                f"{conf['spark.jars.packages']} could not be fetched from any Maven repository of Spark: copy its jars "
                f"to a directory and pass --kafka-jars; {log} says more"
            ) from error
        raise
