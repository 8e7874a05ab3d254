"""Validation of lines: valid records, duplicates, and rejected lines.

The rules and messages are those of `stormwright.perflog.records`, plus one about lateness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import and_

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from stormwright.perflog.columns import RECORD_COLUMNS
from stormwright.perflog.records import (
    CLOCK_AHEAD,
    CPU_IMPOSSIBLE,
    MAX_CLOCK_AHEAD_MS,
    NOT_A_RECORD,
    STREAM_UNKNOWN,
    TASKS_REVERSED,
    missing,
)
from stormwright.perflog.schema import (
    CPU_SLACK_NS,
    EDGE_TOLERANCE,
    IDENTITY,
    MAX_CPU_PER_WALL,
    RECORD,
    Constants,
    Field,
    Fraction,
    ListType,
    Row,
    Structure,
    Text,
    Type,
    WholeNumber,
)
from stormwright.pipeline.parsing.parsed import LINE, WHOLE

#: Reason for a valid record that arrived too late for live loads: it is history only.
LATE = "late: the interval began too long before the record was landed"

#: Key of a record and its fields: two rows with the same key are one record delivered twice.
RECORD_KEYS = {f"worker_{name}": f"worker.{name}" for name in IDENTITY} | {"seq": "seq", "start_ms": "start_ms"}

#: Columns that tell where a row comes from.
_PLACE = ("file", "block", "row")


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Counts of lines; ``read = used + duplicate + quarantined``.

    Parameters
    ----------
    read
        All lines of the landed files that are not blank.
    used
        Records included in the loads of their time.
    duplicate
        Valid records that were delivered again and not counted twice.
    quarantined
        Lines that are invalid or came too late; stored with the reason.
    """

    read: int = 0
    used: int = 0
    duplicate: int = 0
    quarantined: int = 0

    @staticmethod
    def of(accepted: int, used: int, quarantined: int) -> LineCounts:
        """Return the counts from the numbers of valid records, used records and rejected lines."""
        return LineCounts(accepted + quarantined, used, accepted - used, quarantined)

    def __add__(self, other: LineCounts) -> LineCounts:
        return LineCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def validated(lines: DataFrame, late_s: int) -> DataFrame:
    """Add `reason`: why a line is rejected, null for valid records; drop the text of all other lines.

    The reason depends only on the line and the landing time of its file, so a stream and files at rest agree. A
    record counts if it landed within `late_s` of the beginning of its interval.
    """
    checks = [
        F.when(~F.col(WHOLE), NOT_A_RECORD),
        *(F.when(~_is_valid(field, F.col(field.name)), missing(field.name)) for field in RECORD.fields),
        F.when(F.exists("executors", lambda e: e.first_task > e.last_task), TASKS_REVERSED),
        F.when(F.exists("executors", lambda e: e.cpu_ns > _most_cpu_ns()), CPU_IMPOSSIBLE),
        F.when(F.exists("pairs", lambda pair: pair[2] >= F.size("streams")), STREAM_UNKNOWN),
        F.when(
            F.col("start_ms") + F.col("length_ns") / 1e6 > F.col("landed_ms") + MAX_CLOCK_AHEAD_MS,
            CLOCK_AHEAD,
        ),
        F.when(F.col("start_ms") < F.col("landed_ms") - late_s * 1000, LATE),
    ]
    lines = lines.withColumn("reason", F.coalesce(*checks))
    # What is used once, Spark computes where it is used: each check would extract its field from the parsed line again,
    # a quarter of the whole cost. So `WHOLE` is used twice.
    is_rejected = ~F.col(WHOLE) | F.col("reason").isNotNull()
    return lines.withColumn(LINE, F.when(is_rejected, F.col(LINE).cast("binary")))


def late_marked(rows: DataFrame, late_s: int) -> DataFrame:
    """Set `reason` of landed rows whose records are late; see `validated`."""
    late = F.when(F.col("start_ms") < F.col("landed_ms") - late_s * 1000, LATE)
    return rows.withColumn("reason", F.coalesce("reason", late))


def accepted(lines: DataFrame) -> DataFrame:
    """Return the records among validated lines, including duplicates."""
    return lines.where(F.col("reason").isNull()).select(*RECORD_COLUMNS)


def distinct(rows: DataFrame) -> DataFrame:
    """Return the records among rows (`stormwright.pipeline.parsing.source.read_landed`), each once.

    Only identities are shuffled, and places of those that were delivered more than once: most were not.
    """
    identity = F.struct(*(F.col(place).alias(name) for name, place in RECORD_KEYS.items())).alias("identity")
    places = rows.where(F.col("reason").isNull()).select(identity, *_PLACE)
    repeated = places.groupBy("identity").count().where("count > 1").select("identity")
    first_of = Window.partitionBy("identity").orderBy(*_PLACE)
    copies = places.join(repeated, "identity", "left_semi").withColumn("copy", F.row_number().over(first_of))
    return accepted(rows.join(copies.where("copy > 1").select(*_PLACE), list(_PLACE), "left_anti"))


def audited(lines: DataFrame) -> DataFrame:
    """Return a short audit row per validated line: its record or the reason of rejection, and its origin."""
    keys = [F.when(F.col("reason").isNull(), F.col(place)).alias(name) for name, place in RECORD_KEYS.items()]
    return lines.select(*keys, "written_ms", "landed_ms", "reason", "file", "block", "row", LINE)


def _most_cpu_ns() -> Column:
    return F.col("length_ns") * MAX_CPU_PER_WALL + CPU_SLACK_NS


def _is_valid(field: Field, value: Column) -> Column:
    """Return whether a required field is present and in range; never null."""
    return value.isNull() | _valid(field.type, value) if field.nullable else _valid(field.type, value)


def _valid(kind: Type, value: Column) -> Column:
    """Return whether a value is present and recursively in range; never null."""
    return F.coalesce(_in_range(kind, value), F.lit(False))


def _in_range(kind: Type, value: Column) -> Column:
    match kind:
        case WholeNumber(minimum, maximum):
            return value.between(minimum, maximum)
        case Fraction():
            return value.between(0.0, 1.0)
        case Text():
            return value.isNotNull()
        case Constants(values):
            same = F.lit(np.array(values))
            near = F.zip_with(value, same, lambda v, w: F.abs(v - w) <= w * EDGE_TOLERANCE)
            # Usually they are identical, which is checked first.
            return (value == same) | F.forall(near, lambda same: F.coalesce(same, F.lit(False)))
        case Row(columns):
            parts = [_in_range(number, value[place]) for place, (_, number) in enumerate(columns)]
            return reduce(and_, parts, F.size(value) == len(columns))
        case ListType(element, shortest, longest):
            fits = F.size(value) >= shortest if longest is None else F.size(value).between(shortest, longest)
            return fits & F.when(_all_in_range(element, value), True).otherwise(
                F.forall(value, lambda v: _valid(element, v))
            )
        case Structure(fields):
            optional = [
                value[field.name].isNull() | _in_range(field.type, value[field.name])
                for field in fields
                # A text has no range to be out of.
                if field.nullable and field.type != Text()
            ]
            required = [_in_range(field.type, value[field.name]) for field in fields if not field.nullable]
            return reduce(and_, required + optional)


def _all_in_range(element: Type, values: Column) -> Column:
    """Return true only if every element of a list is in range, as far as one vectorised check shows.

    Spark does not compile functions of one element: six rows take 13 µs, the vectorised check takes 2 µs.
    """
    match element:
        case WholeNumber():
            return _has_no_nulls(values, element.minimum - 1) & _all_between(values, element)
        case Row(columns):
            common = WholeNumber(max(n.minimum for _, n in columns), min(n.maximum for _, n in columns))
            return _all_in_range(common, F.flatten(values)) & F.forall(values, lambda row: F.size(row) == len(columns))
        case Structure(fields):
            return reduce(and_, (_fields_in_range(group, values) for group in _by_type(fields)))
        case Text():
            return _has_no_nulls(values, "")
        case _:
            return F.lit(False)


def _by_type(fields: Sequence[Field]) -> Iterable[Sequence[Field]]:
    """Return fields in groups of the same type and nullability."""
    groups: dict[tuple[Type, bool], list[Field]] = {}
    for field in fields:
        groups.setdefault((field.type, field.nullable), []).append(field)
    return groups.values()


def _fields_in_range(fields: Sequence[Field], values: Column) -> Column:
    """Return the result of `_all_in_range` for some fields, of the same type, of all elements.

    As one list, since each list costs more than its elements.
    """
    first, parts = fields[0], [values[field.name] for field in fields]
    together = F.flatten(F.array(*parts)) if len(parts) > 1 else parts[0]
    match first.type:
        case WholeNumber() as number if first.nullable:
            return F.coalesce(_all_between(together, number), F.lit(True))
        case Text() if first.nullable:
            return F.lit(True)
        case Fraction() if first.nullable:
            return F.coalesce((F.array_min(together) >= 0.0) & (F.array_max(together) <= 1.0), F.lit(True))
        case ListType(element, 0, None) if first.nullable:
            present = F.array_compact(together)
            return (F.size(present) == 0) | F.coalesce(_all_in_range(element, F.flatten(present)), F.lit(False))
        case kind:
            return _all_in_range(kind, together)


def _has_no_nulls(values: Column, impossible: int | str) -> Column:
    # That a list does not hold something is null where it holds a null.
    return ~F.array_contains(values, impossible)


def _all_between(values: Column, number: WholeNumber) -> Column:
    # Nulls count for neither.
    return (F.array_min(values) >= number.minimum) & (F.array_max(values) <= number.maximum)
