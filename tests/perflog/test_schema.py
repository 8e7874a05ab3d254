"""Everything that is derived from the definition of a record agrees with it."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType, StringType, StructType

from stormwright.perflog import LATENCY_EDGES_MS, RejectedLine, json_schema, parse
from stormwright.perflog.schema import sample_record
from stormwright.pipeline.parsing.parsed import record_type
from tests.perflog.samples import RECORD, edited, encoded

VALIDATOR = jsonschema.Draft202012Validator(json_schema())

SPARK_TYPES = {
    "integer": LongType,
    "number": DoubleType,
    "string": StringType,
    "array": ArrayType,
    "object": StructType,
}


def test_latency_edges_are_quarter_powers_of_two() -> None:
    assert len(LATENCY_EDGES_MS) == 65
    assert LATENCY_EDGES_MS[0] == 1
    assert LATENCY_EDGES_MS[-1] == 65536
    assert LATENCY_EDGES_MS[::4] == tuple(2**power for power in range(17))


def test_json_schema_is_valid_and_accepts_the_sample() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    VALIDATOR.validate(RECORD)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 2),
        ("worker", None),
        ("worker.port", 0),
        ("worker.host", ...),
        ("seq", -1),
        ("length_ns", 0),
        ("executors.0.cpu_ns", 10**16),
        ("executors.0.queue", 1.01),
        ("executors.0.queue", ...),
        ("executors.0.type", None),
        ("executors.0.component", None),
        ("streams.0", ["a"]),
        ("pairs.0", [1, 2, 0, 3]),
        ("pairs.0", [-2, 2, 0, 3, 4]),
        ("pairs.0", [-1, 2, 0, 3, 4]),
        ("complete_latency.edges_ms.5", 2.5),
        ("complete_latency.edges_ms", []),
        ("complete_latency.counts", []),
        ("complete_latency.counts", [0] * 67),
        ("executors.0.waited_ns", -1),
        ("executors.0.waited_ns", ...),
        ("executors.0.runs", -1),
        ("executors.0.runs", 0.5),
        ("executors.0.runs", ...),
        ("executors.0.inputs", ...),
        ("executors.0.inputs", []),
        ("executors.0.inputs.0", [0, 1]),
        ("executors.0.inputs.0", [-1, 1, 1]),
        ("executors.0.inputs", [5]),
        ("threads", ...),
        ("threads", None),
        ("threads", {}),
        ("threads", [1, 2, 3, 4]),
        ("threads.gc_ns", None),
        ("threads.messaging_ns", -1),
        ("threads.something_new", 1),
        ("gc", ...),
        ("gc.ms", 1.5),
        ("gc.collections", ...),
        ("node", ...),
        ("node", {}),
        ("node.core_hz", ...),
        ("node.quota_period_us", None),
        ("node.processors", 0.5),
        ("node.throttled_ns", None),
        ("node.millicores", "400"),
        ("node.sent_bytes", 10**16),
        ("something_new", 1),
    ],
)
def test_reader_and_json_schema_agree(path: str, value: Any) -> None:
    record = edited(RECORD, path, value)
    assert isinstance(parse(encoded(record)), RejectedLine) != VALIDATOR.is_valid(copy.deepcopy(record))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("pairs.1.3", 10**15),
        ("pairs.1.3", 10**15 + 1),
        ("pairs.2.1", 2**31),
        ("pairs.1.0", -2),
        ("pairs.1.2", True),
        ("pairs.2.4", 1.5),
        ("pairs.1.4", "5"),
        ("pairs.1.3", None),
        ("pairs.1", None),
        ("pairs.1", {}),
        ("pairs.1", [5, 9, 0, 3]),
        ("pairs.1", [5, 9, 0, 3, 4, 5]),
        ("pairs", []),
        ("streams.1.2", None),
        ("streams.1.3", 5),
        ("streams.2", ["a"] * 5),
        ("complete_latency.counts.1", None),
        ("complete_latency.counts.1", False),
        ("complete_latency.counts.2", -1),
        ("executors.1.queue", -0.5),
        ("executors.1.acked", None),
        ("executors.1.component", 5),
        ("executors.1", []),
    ],
)
def test_single_invalid_field_among_many_is_rejected(path: str, value: Any) -> None:
    many = {**RECORD, **{field: RECORD[field] * 3 for field in ("executors", "pairs", "streams")}}
    record = edited(many, path, value)
    assert isinstance(parse(encoded(record)), RejectedLine) != VALIDATOR.is_valid(copy.deepcopy(record))


def test_spark_type_equals_json_schema() -> None:
    assert_same_shape(record_type(), json_schema())


def assert_same_shape(spark_type: DataType, schema: dict[str, Any]) -> None:
    schema = schema["anyOf"][0] if "anyOf" in schema else schema
    assert isinstance(spark_type, SPARK_TYPES[schema["type"]]), schema
    if isinstance(spark_type, StructType):
        assert spark_type.names == list(schema["properties"])
        for field in spark_type.fields:
            assert_same_shape(field.dataType, schema["properties"][field.name])
    if isinstance(spark_type, ArrayType):
        for element in schema.get("prefixItems", [schema.get("items")]):
            assert_same_shape(spark_type.elementType, element)


@pytest.mark.parametrize("optional", [True, False])
def test_sample_record_is_a_record(optional: bool) -> None:
    record = sample_record(optional=optional)
    VALIDATOR.validate(record)
    assert isinstance(parse(encoded(record)), dict)
    assert (None in without_numbers(parse(encoded(record)))) != optional, "all fields are set, or those that have to be"


def without_numbers(value: Any) -> set[object]:
    """Texts and None anywhere in a value."""
    if isinstance(value, dict):
        return set().union(*map(without_numbers, value.values()))
    if isinstance(value, list):
        return set().union(*map(without_numbers, value))
    return set() if isinstance(value, int | float) else {value}
