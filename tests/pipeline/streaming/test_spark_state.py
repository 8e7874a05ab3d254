"""The state of a stream in Spark (`benchmarks.pipeline.state_queries`) gives what plain Python gives.

No query runs: Spark's `TwsTester` hands the processor its rows and holds its state.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import TwsTester
from pyspark.testing import assertDataFrameEqual

from benchmarks.pipeline.state_queries import (
    OUTPUT,
    WorkerPanes,
    landed_rows,
    processor_result,
    with_facts,
    worker_rows,
)
from stormwright.pipeline.measurement.measurement import measure
from stormwright.pipeline.measurement.panes import panes
from stormwright.pipeline.measurement.windows import worker_seconds
from stormwright.pipeline.parsing.clean import distinct
from stormwright.pipeline.parsing.source import read_landed
from tests.pipeline.generator import World, deliver, dice, land, make_world, records
from tests.pipeline.oracle import Outcome, assert_equal, expected_outcome, expected_profile, found_profile
from tests.pipeline.victim import SETTINGS

pytestmark = pytest.mark.spark

START_MS = 1_690_000_000_000
SPANS_MS = SETTINGS.slide_s * 1000, SETTINGS.watermark_s * 1000

Delivered = tuple[World, Outcome, DataFrame, list[DataFrame]]


@pytest.fixture(params=[41, 42])
def delivered(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Delivered:
    """A world, what must become of its records, all rows, and those of six batches; some spoilt, repeated or late."""
    rng = dice(request.param)
    world = make_world(request.param)
    delivery = deliver(records(world, START_MS, 40, rng), rng, spoil=0.15, held=0.05)
    files = delivery.in_files(len(delivery.arriving) // 6 + 1)
    landed = {}
    for number, file in enumerate(files):
        landed_ms = file[-1].arrived_ms
        path = land(
            tmp_path / f"batch-{number}", (line.body for line in file), landed_ms, columns_late_s=SETTINGS.late_s
        )
        landed[path.name] = (landed_ms, file)
    outcome = expected_outcome(landed, SETTINGS.late_s)
    assert min(outcome.ledger.values()) > 10
    batches = [landed_rows(spark, tmp_path / f"batch-{n}", SETTINGS, live=False) for n in range(len(files))]
    _, everything = read_landed(spark, [tmp_path / "batch-*[0-9]"], SETTINGS.late_s)
    return world, outcome, everything, batches


@pytest.mark.slow
def test_processor_counts_and_sums_as_plain_python(spark: SparkSession, delivered: Delivered) -> None:
    world, outcome, everything, batches = delivered
    tester = TwsTester(WorkerPanes(*SPANS_MS), outputMode="Update")
    results: list[pa.Table] = []
    for batch in batches:
        of_worker: dict[str, list[Row]] = defaultdict(list)
        for row in worker_rows(batch, SETTINGS).collect():
            of_worker[row.worker].append(row)
        changed = [row for worker, rows in of_worker.items() for row in tester.test(worker, rows)]
        results.append(with_facts(spark.createDataFrame(changed, OUTPUT)).toArrow())
    facts, ledger = processor_result(results)
    assert asdict(ledger) == outcome.ledger
    measurement = measure(facts, worker_seconds(facts), SETTINGS)
    assert measurement is not None
    expected = expected_profile(outcome.used, world.problem, SETTINGS.window_s, SETTINGS.slide_s, SETTINGS.settle_s)
    assert_equal(found_profile(measurement.profile(world.problem), world.problem), expected, relative=1e-9)
    assertDataFrameEqual(spark.createDataFrame(facts), panes(distinct(everything), SETTINGS), rtol=1e-12)


def row_at(seq: int, second: int) -> Row:
    """A record without facts."""
    start_ms = START_MS + second * 1000
    pane_ms = start_ms - start_ms % SPANS_MS[0]
    return Row(worker="w", pane_ms=pane_ms, seq=seq, start_ms=start_ms, rejected=False, facts="[]")


def test_processor_forgets_panes_and_rejects_records_before_them() -> None:
    tester = TwsTester(WorkerPanes(*SPANS_MS), outputMode="Update")
    memory_s = SETTINGS.watermark_s
    tester.test("w", [row_at(seq, seq) for seq in range(10)])
    assert len(tester.peekMapState("panes", "w")) == 4
    # A repeated record is recognised as long as its pane is open.
    (*_, last) = tester.test("w", [row_at(9, 9), row_at(10, memory_s + 6)])
    assert (last.used, last.duplicate, last.quarantined) == (11, 1, 0)
    open_ms = [pane_ms for (pane_ms,) in tester.peekMapState("panes", "w")]
    assert min(open_ms) + SPANS_MS[0] > START_MS + 6000
    # Of those before them it is not known: they are late, not used again.
    (*_, last) = tester.test("w", [row_at(3, 3), row_at(6, 6), row_at(7, 7)])
    assert (last.used, last.duplicate, last.quarantined) == (11, 2, 2)
