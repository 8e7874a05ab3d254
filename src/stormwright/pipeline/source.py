"""Landed files as a DataFrame of records, its type derived from `stormwright.perflog.schema`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name in all of Spark's documentation
from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType, StringType, StructField, StructType

from stormwright.perflog.landing import SUFFIX
from stormwright.perflog.schema import RECORD, Constants, Listing, Row, Share, Structure, Text, Type, Whole
from stormwright.pipeline.settings import StreamSettings

#: Holds the line that could not be read as a record; null for the others.
CORRUPT = "corrupt"


def spark_type(kind: Type) -> DataType:
    """The Spark type of a part of a record. Everything is nullable: what must not be null is cleaning's to say."""
    match kind:
        case Whole():
            return LongType()
        case Share():
            return DoubleType()
        case Text():
            return StringType()
        case Constants():
            return ArrayType(DoubleType())
        case Row():
            return ArrayType(LongType())
        case Listing(element):
            return ArrayType(spark_type(element))
        case Structure(fields):
            return StructType([StructField(field.name, spark_type(field.type)) for field in fields])


def record_type() -> StructType:
    """The Spark type of one record."""
    return StructType([StructField(field.name, spark_type(field.type)) for field in RECORD.fields])


def read_stream(spark: SparkSession, landing: Path, settings: StreamSettings) -> DataFrame:
    """What lands from now on, and what has landed and was not read yet; files are deleted once they are processed."""
    reader = (
        spark.readStream.schema(_line_type())
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("pathGlobFilter", f"*{SUFFIX}")
        .option("maxFilesPerTrigger", settings.max_files_per_batch)
        .option("cleanSource", "delete")
        # How long Spark remembers the names of files it has read; by then they are deleted.
        .option("maxFileAge", "1d")
    )
    return _with_origin(reader.json(str(landing)))


def read_files(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """All lines of the files."""
    reader = spark.read.schema(_line_type()).option("columnNameOfCorruptRecord", CORRUPT)
    return _with_origin(reader.json([str(path) for path in paths]))


def _line_type() -> StructType:
    return record_type().add(CORRUPT, StringType())


def _with_origin(lines: DataFrame) -> DataFrame:
    """Adds the file of each line and when it landed."""
    return lines.select(
        "*",
        F.col("_metadata.file_name").alias("file"),
        F.unix_millis("_metadata.file_modification_time").alias("landed_ms"),
    )
