"""Where a backfill writes: a directory of its own, for what is there is replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stormwright.errors import Fault, InputError
from stormwright.pipeline.spark.location import Location, address, inside, is_uri

RECORDS, PANES, QUARANTINE = "records", "panes", "quarantine"

#: What Spark writes of a table; what it writes beside it begins with an underscore, checksums with a dot.
_OF_A_TABLE = re.compile(rf"({RECORDS}|{PANES}|{QUARANTINE})(/(part-[^/]+|_SUCCESS|_temporary(/.+)?|\.[^/]+\.crc))?")


def require_own(into: Location, directories: Sequence[Location], spark: SparkSession | None = None) -> None:
    """Raise unless a backfill may write there: nothing is there but what an earlier one wrote.

    Parameters
    ----------
    directories
        Where landed files are read from.
    spark
        Looks at what is no directory of this machine; without it that is not looked at.

    Raises
    ------
    InputError
        There is something else, which would be deleted, or landed files are read there.
    """
    if is_uri(into):
        found = _files_in(spark, into) if spark else iter(())
    else:
        path = Path(into)
        if path.exists() and not path.is_dir():
            raise InputError("--into", [Fault("is a file, and a directory is to be written", str(into))])
        for directory in directories:
            if not is_uri(directory) and path.resolve().is_relative_to(Path(directory).resolve()):
                raise InputError("--into", [Fault("is where landed files are read; name another", str(into))])
        found = (each.relative_to(path).as_posix() for each in sorted(path.rglob("*")))
    other = next((name for name in found if not _OF_A_TABLE.fullmatch(name)), None)
    if other is not None:
        why = "holds what no backfill wrote, and tables there are replaced; name an empty directory"
        raise InputError("--into", [Fault(why, str(inside(into, other)))])


def _files_in(spark: SparkSession, into: Location) -> Iterator[str]:
    """Names of the files below a directory, as Spark sees them: not those that begin with an underscore or a dot."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        paths = reader.load(address(into)).inputFiles()
    except (PySparkException, Py4JError) as error:
        if isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND":
            return
        raise
    begin = re.sub(r"^[^:]+:/+", "/", address(into)).rstrip("/") + "/"
    for path in paths:
        yield path.partition(begin)[2] or path
