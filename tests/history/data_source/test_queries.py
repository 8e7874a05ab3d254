"""The queries that docs/spark.md prints, on rows of which the results are computed in plain Python."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.testing import assertDataFrameEqual

from stormwright.history.tables.definitions import DECISIONS, EVALUATIONS, FACTS, MOVES, SNAPSHOTS
from tests.history.data_source.states import State, finish
from tests.history.samples import Row as Fact
from tests.pipeline.generator import dice

pytestmark = pytest.mark.spark

SECTION = (Path(__file__).parents[3] / "docs" / "spark.md").read_text().split("\n## Data source\n")[1].split("\n## ")[0]
PYTHON = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
SQL = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)

#: The day from which the documented queries read, and its begin.
DAY_MS = round(datetime(2026, 11, 20, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 3_600_000
CORE_HZ = 2.5e9

#: Executors of a topology by their tasks; those of the second topology have the same.
EXECUTORS = {(1, 1): "spout", (2, 3): "split", (4, 4): "split", (5, 6): "count"}
RACKS = {"s1": "north", "s2": "north", "s3": "south"}


def facts() -> list[Fact]:
    """Panes of the documented day and of the day before, in two hours of each, with an executor that moves."""
    rng, rows = dice(3), []
    for start_ms in (DAY_MS - 86_400_000, DAY_MS):
        for pane_ms in (start_ms, start_ms + 3000, start_ms + HOUR_MS):
            for topology in ("words", "clicks"):
                rows += of_pane(pane_ms, topology, rng)
    return rows


def of_pane(pane_ms: int, topology: str, rng: Any) -> list[Fact]:
    def row(kind: str, **values: Any) -> Fact:
        return dict.fromkeys(FACTS.columns) | {"pane_ms": pane_ms, "kind": kind, "topology": topology} | values

    def executor(first: int, last: int, supervisor: str, length_ns: int) -> Fact:
        return row(
            "executor", supervisor=supervisor, component=EXECUTORS[first, last], first=first, second=last,
            length_ns=length_ns, cpu_ns=rng.uniform(0, length_ns), received=rng.randrange(999), emitted=7, trees=0,
        )  # fmt: skip

    rows = [
        executor(*tasks, supervisor, 3_000_000_000)
        for tasks, supervisor in zip(EXECUTORS, ("s1", "s2", "s3", "s3"), strict=True)
    ]
    # The last one was moved within this pane, after two of three seconds.
    rows[-1] |= {"length_ns": 2_000_000_000}
    rows.append(executor(5, 6, "s1", 1_000_000_000))
    for source, target in ((1, 2), (1, 3), (1, 4), (2, 5), (3, 6), (4, 5)):
        sampled = rng.randrange(1, 50)
        rows.append(
            row(
                "pair", component=topology, grouping="fields", stream="default", first=source, second=target,
                tuples=rng.randrange(50, 900), bytes=sampled * rng.randrange(20, 90), sampled=sampled,
            )
        )  # fmt: skip
    rows.append(row("flow", component="out", grouping="shuffle", stream="default", first=5, tuples=10**6, bytes=0))
    return rows


def snapshot(at_ms: int, racks: dict[str, str]) -> Fact:
    nodes = [{"id": name, "host": f"host-{name}", "rack": rack} for name, rack in racks.items()]
    document = {"schema": "stormwright-problem/1", "core_hz": CORE_HZ, "supervisors": nodes, "topologies": []}
    return {"at_ms": at_ms, "id": f"of-{at_ms}", "document": json.dumps(document)}


DECISION = {"at_ms": DAY_MS + 5000, "scheduler": "optimizer", "reason": "gain 12 %", "dry_run": False, "moves": "{}"}
MOVE = {"at_ms": DAY_MS + 9000, "decision_ms": DAY_MS + 5000, "topology": "words", "moved_executors": 2}
EVALUATION = {
    "at_ms": DAY_MS + 99_000, "decision_ms": DAY_MS + 5000, "topology": "words", "quantity": "throughput",
    "predicted": 1.12, "measured": 1.1, "low": 1.02, "high": 1.2, "windows_before": 9, "windows_after": 8,
    "verdict": "as predicted",
}  # fmt: skip


@pytest.fixture(scope="module")
def state(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> State:
    """A history of which one half is ingested, and the other half staged."""
    state, rows = State(tmp_path_factory.mktemp("queries") / "state", spark), facts()
    state.stage(FACTS, rows[::2])
    state.ingest()
    state.stage(SNAPSHOTS, [snapshot(DAY_MS - 1000, dict.fromkeys(RACKS, "before"))])
    state.stage(DECISIONS, [DECISION])
    state.stage(FACTS, rows[1::2])
    state.stage(SNAPSHOTS, [snapshot(DAY_MS + 1000, RACKS)])
    state.stage(MOVES, [MOVE])
    state.stage(EVALUATIONS, [EVALUATION, EVALUATION | {"quantity": "latency", "measured": None}])
    run(spark, PYTHON[0], state)
    return state


def run(spark: SparkSession, code: str, state: State) -> dict[str, Any]:
    """Run documented code, with the directories of the test in place of those that it names."""
    names: dict[str, Any] = {"spark": spark, "STATE": str(state.directory)}
    here = code.replace("/var/lib/stormwright", str(state.directory)).replace("/var/lib", str(state.directory.parent))
    exec(here, names)  # noqa: S102 - our own documentation
    return names


def moment(ms: int) -> datetime:
    """As Spark returns a timestamp: without a zone, in that of this process."""
    return datetime.fromtimestamp(ms / 1000)


def assert_equal(found: DataFrame, expected: list[tuple[Any, ...]], in_order: bool = False) -> None:
    """Whether a result has these rows."""
    rows = [Row(**dict(zip(found.columns, row, strict=True))) for row in expected]
    assertDataFrameEqual(found, rows, checkRowOrder=in_order, rtol=1e-9)


def test_busiest_executors_by_hour(spark: SparkSession, state: State) -> None:
    cycles: defaultdict[tuple[int, str, int], float] = defaultdict(float)
    covered_s: defaultdict[tuple[int, str, int], float] = defaultdict(float)
    for row in facts():
        if row["kind"] == "executor" and row["pane_ms"] >= DAY_MS:
            key = row["pane_ms"] // HOUR_MS * HOUR_MS, row["topology"], row["first"]
            cycles[key] += row["cpu_ns"] / 1e9 * CORE_HZ
            covered_s[key] += row["length_ns"] / 1e9
    lasts = dict(EXECUTORS)
    expected = []
    for hour in (DAY_MS, DAY_MS + HOUR_MS):
        loads = {key[1:]: cycles[key] / covered_s[key] for key in cycles if key[0] == hour}
        for place, ((topology, first), hz) in enumerate(sorted(loads.items(), key=lambda item: -item[1])[:3], 1):
            (last,) = (tasks[1] for tasks in lasts if tasks[0] == first)
            expected.append((moment(hour), topology, EXECUTORS[first, last], first, last, hz, place))
    found = spark.sql(SQL[0])
    assert_equal(found, expected, in_order=True)


@pytest.mark.slow
def test_traffic_between_racks(spark: SparkSession, state: State) -> None:
    rack_of_task = {1: "north", 2: "north", 3: "north", 4: "south", 5: "south", 6: "south"}
    sums: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in facts():
        if row["kind"] == "pair" and row["pane_ms"] >= DAY_MS:
            total = sums[rack_of_task[row["first"]], rack_of_task[row["second"]]]
            for index, name in enumerate(("tuples", "bytes", "sampled")):
                total[index] += row[name]
    expected = [(*racks, tuples, size / sampled * tuples) for racks, (tuples, size, sampled) in sums.items()]
    assert {racks[:2] for racks in expected} == {("north", "north"), ("north", "south"), ("south", "south")}
    found = spark.sql(SQL[1])
    assert_equal(found, expected)


def test_outcome_of_each_move(spark: SparkSession, state: State) -> None:
    found = spark.sql(SQL[2])
    same = (moment(DAY_MS + 5000), "gain 12 %", "words", 2)
    expected = [
        (*same, "latency", 1.12, None, 1.02, 1.2, "as predicted"),
        (*same, "throughput", 1.12, 1.1, 1.02, 1.2, "as predicted"),
    ]
    assert_equal(found, expected, in_order=True)


def test_documented_stream_writes_every_load(spark: SparkSession, state: State) -> None:
    finish(lambda: run(spark, PYTHON[1], state)["query"], StreamingQuery.processAllAvailable)
    written = spark.read.parquet(str(state.directory.parent / "loads"))
    executors = [row for row in facts() if row["kind"] == "executor"]
    expected = [(row["pane_ms"], row["topology"], row["cpu_ns"] / row["length_ns"] * CORE_HZ) for row in executors]
    assert_equal(written, expected)
