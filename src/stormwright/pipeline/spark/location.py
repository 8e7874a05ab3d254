"""Where tables are: directories of this machine, or URIs of any file system that Hadoop knows."""

from __future__ import annotations

import re
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stormwright.errors import Fault, InputError
from stormwright.pipeline.spark.remote import first_line

#: A path, or a URI as text (a `Path` would make ``hdfs:/host`` of ``hdfs://host``).
Location = Path | str

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_uri(location: Location) -> bool:
    """Whether Spark reads and writes there, and not this process."""
    return isinstance(location, str) and _URI.match(location) is not None


def address(location: Location) -> str:
    """What Spark is told: a URI as it is, a path from the root on."""
    return str(location) if is_uri(location) else str(Path(location).absolute())


def inside(location: Location, name: str) -> Location:
    """What is called `name` in a directory."""
    return f"{str(location).rstrip('/')}/{name}" if is_uri(location) else Path(location) / name


def local_path(location: Location, what: str) -> Path:
    """A directory of this machine.

    Raises
    ------
    InputError
        It is a URI; `what` says in the message what has to be local.
    """
    if _URI.match(str(location)):
        raise InputError(
            what, [Fault("has to be a path on this machine: this process writes it, not Spark", str(location))]
        )
    return Path(location)


def exists(spark: SparkSession, location: Location) -> bool:
    """Whether there is anything, as Spark sees it.

    Raises
    ------
    InputError
        Spark cannot look there: it knows no such file system, or is not let in.
    """
    try:
        # Spark looks when it needs the columns.
        return bool(spark.read.format("binaryFile").load(address(location)).columns)
    except (PySparkException, Py4JError) as error:
        if isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise InputError("location", [Fault(f"Spark cannot look there: {first_line(error)}", str(location))]) from error
