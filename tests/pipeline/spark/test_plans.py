"""Plans of the hot path: no Python in Spark, no shuffle where none is needed, no column and no parse too many.

The plans are those that batches of a stream execute: each DataFrame whose rows are fetched is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType

from stormwright.pipeline.plan import BatchPlan, large_batch
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.progress import LiveState
from tests.pipeline.generator import deliver, dice, land, make_world, records

pytestmark = pytest.mark.spark

START_MS = 1_690_000_000_000
SETTINGS = StreamSettings()

#: Nothing of a plan is abbreviated.
WHOLE = {
    "spark.sql.maxPlanStringLength": "100000000",
    "spark.sql.debug.maxToStringFields": "10000",
    "spark.sql.maxMetadataStringLength": "100000",
}

#: Operators that hand rows to Python.
PYTHON = re.compile("Python|PySpark|Pandas|InArrow")

#: Spark reads whole structures from a list that it unfolds, unless a single field of them is used.
EXECUTOR = {
    f"executors.{name}"
    for name in (
        *("component", "first_task", "last_task", "cpu_ns", "received", "emitted", "trees", "acked", "failed"),
        *("execute_ns", "type", "queue", "pending", "waited_ns", "runs", "inputs"),
    )
}
WORKER = {f"worker.{name}" for name in ("topology", "supervisor", "port")}

#: Columns with which a scan finds late and excluded rows.
PLACE = {"landed_ms", "reason", "_tmp_metadata_row_index"}

#: Columns of each kind of fact, in the order of the plan.
COLUMNS = [
    {*EXECUTOR, "worker.topology", "worker.supervisor", "start_ms", "length_ns"},
    {"worker.topology", "start_ms", "streams", "pairs"},
    {"worker.topology", "start_ms", "complete_latency.counts"},
    {*WORKER, "start_ms", "length_ns", "process_cpu_ns", "node.used_ns", "node.millicores"},
    {*WORKER, "worker.start_ms", "start_ms", "seq", "heap_bytes"},
]


class Node(NamedTuple):
    """An operator of a plan: how deep it is, its name, and its line."""

    depth: int
    name: str
    line: str


class Plan(list[Node]):
    """A physical plan, from its root on."""

    def named(self, name: str) -> list[Node]:
        """Operators by name."""
        return [node for node in self if node.name == name]

    def above_cache(self) -> Plan:
        """The plan without what has filled a cache."""
        found, limit = Plan(), float("inf")
        for node in self:
            if node.depth <= limit:
                found.append(node)
                limit = node.depth if node.name == "InMemoryRelation" else float("inf")
        return found

    def read(self) -> list[set[str]]:
        """Columns that each scan reads, as `worker.topology` for a part of one."""
        texts = (re.search(r"ReadSchema: (struct<.*>)$", node.line) for node in self.named("FileScan"))
        return [set(leaves(DataType.fromDDL(text[1]))) for text in texts if text]


def leaves(kind: DataType, name: str = "") -> Iterator[str]:
    element = kind.elementType if isinstance(kind, ArrayType) else kind
    if isinstance(element, StructType):
        for field in element:
            yield from leaves(field.dataType, f"{name}.{field.name}".lstrip("."))
    else:
        yield name


def plan_of(frame: DataFrame) -> Plan:
    text = frame._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - the only way to the whole text
    matches = (re.match(r"([ :+-]*(?:\*\(\d+\) )?)(\w+)", line) for line in text.splitlines())
    found = [Node(len(found[1].partition("*")[0]), found[2], found.string) for found in matches if found]
    return Plan(found)


@pytest.fixture
def executed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Plan]]:
    """Plans of all DataFrames whose rows are fetched."""
    plans: list[Plan] = []
    kind = type(spark.range(1))
    fetch = kind.toArrow

    def recorded(frame: DataFrame) -> object:
        plans.append(plan_of(frame))
        return fetch(frame)

    monkeypatch.setattr(kind, "toArrow", recorded)
    before = {key: spark.conf.get(key, None) for key in WHOLE}
    for key, value in WHOLE.items():
        spark.conf.set(key, value)
    yield plans
    for key, earlier in before.items():
        spark.conf.unset(key) if earlier is None else spark.conf.set(key, earlier)
    assert plans
    assert [node for plan in plans for node in plan if PYTHON.search(node.name) or "pythonUDF" in node.line] == []


def landed(directory: Path, *, as_columns: bool) -> list[Path]:
    """Two files with spoilt and repeated records."""
    rng = dice(51)
    delivery = deliver(records(make_world(51), START_MS, 8, rng), rng, spoil=0.2)
    assert delivery.duplicate
    files = delivery.in_files(len(delivery.arriving) // 2 + 1)
    late_s = SETTINGS.late_s if as_columns else None
    return [land(directory, (e.body for e in file), file[-1].arrived_ms, columns_late_s=late_s) for file in files]


def test_small_batch_is_one_stage_without_shuffle(spark: SparkSession, tmp_path: Path, executed: list[Plan]) -> None:
    """The records are in one partition, so Spark sums the facts of a key where they are."""
    batches = BatchPlan(spark, tmp_path / "prepared", SETTINGS)
    batches(landed(tmp_path / "landing", as_columns=True), LiveState())
    plan = executed[-1]
    assert [node.name for node in plan if "Exchange" in node.name] == []
    assert [len(plan.named(name)) for name in ("FileScan", "Generate", "Coalesce")] == [1, 1, 1]
    assert plan.read() == [set.union(*COLUMNS)]


@pytest.mark.slow
def test_large_batch_reads_the_columns_of_each_kind(spark: SparkSession, tmp_path: Path, executed: list[Plan]) -> None:
    """The only shuffle is that of sums: facts of a key are in several files."""
    large_batch(spark, landed(tmp_path / "landing", as_columns=True), LiveState(), SETTINGS)
    audit, facts = executed
    assert [node.name for node in audit if "Exchange" in node.name] == []
    assert not audit.read()[0] & {*EXECUTOR, "streams", "pairs", "complete_latency.counts"}
    assert facts.read() == [{*columns, *PLACE} for columns in COLUMNS]
    assert len(facts.named("Exchange")) == len(COLUMNS)
    for node in facts.named("Exchange"):
        # What is shuffled has been summed before.
        assert facts[facts.index(node) + 1].name in ("HashAggregate", "ObjectHashAggregate")
    # The excluded rows are sent once.
    assert (len(facts.named("BroadcastExchange")), len(facts.named("ReusedExchange"))) == (1, len(COLUMNS) - 1)


def test_lines_are_parsed_once(spark: SparkSession, tmp_path: Path, executed: list[Plan]) -> None:
    """Apart from a second parse, into variants, of a line in which a text looks like a number."""
    large_batch(spark, landed(tmp_path / "landing", as_columns=False), LiveState(), SETTINGS)
    audit, facts = executed
    assert [node.name for node in audit if "Exchange" in node.name] == []
    assert audit.read() == [{"value"}]
    parses = [node.line.count("from_json(") for node in audit if "from_json(" in node.line]
    assert len(parses) == len(audit.named("FileScan")) + 1 == 2
    assert sum(parses) == 2
    (second,) = (node.line for node in audit if "VariantType" in node.line)
    assert re.search(r"CASE WHEN RLIKE\([^\n]* THEN forall\(array\(from_json\(", second)
    # Each kind of fact reads the rows that the audit has stored.
    cached = facts.above_cache()
    assert len(cached.named("InMemoryTableScan")) == len(COLUMNS)
    assert not [node for node in cached if node.name == "FileScan"]
    assert not any("from_json(" in node.line for node in cached)
