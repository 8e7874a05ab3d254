"""Lines of text to records, one row a line, as strictly as `stormwright.perflog.records.parse`.

Spark's JSON parser is lenient in what a line may hold besides one object, and in what it takes for a text. So

1. a line is put into the array of an object with an unguessable name, before a sentinel element: if the sentinel is the
second and last element, the line was exactly one JSON value;
2. a text that reads like a number, a truth value, an object or a list may have been one: then the line is parsed a
second time, into a typed variant;
3. invalid UTF-8, or half a surrogate pair, is not text.

Two kinds of lines are treated differently from plain Python, both as invalid: one with a field twice whose
first value is of a wrong type, and one with a field that we do not know nested a thousand deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import and_
from secrets import token_hex

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name in all of Spark's documentation
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from stormwright.perflog.records import BYTE_ORDER_MARK, MAX_LINE_BYTES
from stormwright.perflog.schema import RECORD, Constants, Fraction, ListType, Row, Structure, Text, Type, WholeNumber

#: Columns of `parsed`: the line as it came, and whether it is one JSON object whose fields have the right types.
LINE, WHOLE = "line", "whole"

#: (1), new in every process.
_MARK = f"mark-{token_hex(16)}"
_CORRUPT = "corrupt"
_OPTIONS = {"columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}

_SEPARATOR = "\x01"
#: (2) among texts after a separator each. An address such as 10.0.0.7 is no number, and the host of many records; one
#: that no double can hold, as 1e999, is infinite to Spark, whose writer of JSON quotes that.
NOT_A_TEXT = r"\x01(?:(?:-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|\"?-?Infinity\"?)(?:\x01|$)|[\[{])"

#: (3) Escapes that are whole, and what is left where one is not.
_WHOLE_ESCAPES = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_A_PAIR = r"\\u[dD][89a-fA-F]"

_NOT_BLANK = r"[^ \t\r\x0b\f]"


def spark_type(kind: Type, text: DataType = StringType()) -> DataType:  # noqa: B008 - it has no state
    """Return the Spark type of a part of a record; nullable, as cleaning checks for nulls."""
    match kind:
        case WholeNumber():
            return LongType()
        case Fraction():
            return DoubleType()
        case Text():
            return text
        case Constants():
            return ArrayType(DoubleType())
        case Row():
            return ArrayType(LongType())
        case ListType(element):
            return ArrayType(spark_type(element, text))
        case Structure(fields):
            return StructType([StructField(field.name, spark_type(field.type, text)) for field in fields])


def record_type(text: DataType = StringType()) -> StructType:  # noqa: B008
    """Return the Spark type of one record."""
    return StructType([StructField(field.name, spark_type(field.type, text)) for field in RECORD.fields])


def parsed(lines: DataFrame, *others: Column) -> DataFrame:
    """Return lines as `value` → the fields of a record, `LINE`, `WHOLE`, and `others`; blank lines are dropped."""
    line = F.col("value")
    mark = BYTE_ORDER_MARK.decode()
    body = F.when(F.startswith(line, F.lit(mark)), F.substring(line, 2, MAX_LINE_BYTES)).otherwise(line)
    bracketed = F.concat(F.lit(f'{{"{_MARK}":['), body, F.lit(f',{{"{_MARK}":1}}]}}'))
    elements = ArrayType(record_type().add(_MARK, LongType()))
    root = StructType([StructField(_MARK, elements), StructField(_CORRUPT, StringType())])
    # With columns that are no functions of the line alone: else Spark would parse it again for a condition.
    # Most lines begin as a record does, which is a fast check.
    found = lines.where(F.startswith(line, F.lit("{")) | F.rlike(line, F.lit(_NOT_BLANK))).select(
        line, F.from_json(bracketed, root, _OPTIONS).alias("root"), *others
    )
    both = F.col(f"root.{_MARK}")
    one = F.get(both, F.lit(0))
    alone = F.col(f"root.{_CORRUPT}").isNull() & one.isNotNull() & (F.get(both, F.lit(1))[_MARK] == 1)
    whole = (F.octet_length(line) <= MAX_LINE_BYTES) & alone & (F.size(both) == 2) & _is_text(line) & _typed(one, body)
    return found.select(
        *(one[field.name].alias(field.name) for field in RECORD.fields),
        line.alias(LINE),
        F.coalesce(whole, F.lit(False)).alias(WHOLE),
        *(name for name in found.columns if name not in ("value", "root")),
    )


def _is_text(line: Column) -> Column:
    """Return whether a line is valid text (3)."""
    # Few lines have any escape, and to look for a single byte is fast.
    escapes = F.contains(line, F.lit("\\")) & (F.contains(line, F.lit("\\ud")) | F.contains(line, F.lit("\\uD")))
    halves = F.rlike(F.regexp_replace(line, _WHOLE_ESCAPES, ""), F.lit(_HALF_A_PAIR))
    return F.is_valid_utf8(line) & ~(escapes & halves)


def _typed(record: Column, body: Column) -> Column:
    """Return whether all texts of a record came as texts (2)."""
    # It begins with a separator.
    texts = F.concat_ws(_SEPARATOR, F.lit(""), *_texts(RECORD, record))
    again = F.from_json(body, record_type(VariantType()), _OPTIONS)
    # As a list of one: within a condition, Spark would parse the line again for each of its texts.
    typed = F.forall(F.array(again), lambda record: _is_typed(RECORD, record))
    return F.when(F.rlike(texts, F.lit(NOT_A_TEXT)), typed).otherwise(F.lit(True))


def _texts(kind: Type, value: Column) -> Iterator[Column]:
    """Yield all texts of a part of a record, as texts or lists of them."""
    match kind:
        case Text():
            yield value
        case Structure(fields):
            for field in fields:
                yield from _texts(field.type, value[field.name])
        case ListType(ListType(element)):
            yield from _texts(element, F.flatten(value))
        case ListType(element):
            yield from _texts(element, value)


def _is_typed(kind: Type, value: Column) -> Column:
    """Return whether all texts of a part whose texts are variants are texts, or null."""
    match kind:
        case Text():
            return F.coalesce(F.schema_of_variant(value).isin("STRING", "VOID"), F.lit(True))
        case Structure(fields):
            return reduce(and_, (_is_typed(field.type, value[field.name]) for field in fields))
        case ListType(element):
            return F.coalesce(F.forall(value, lambda each: _is_typed(element, each)), F.lit(True))
        case _:
            return F.lit(True)
