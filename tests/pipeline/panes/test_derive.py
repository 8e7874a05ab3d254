"""Facts of single records, by the plan for many and by that for few."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from stormwright.perflog import Landing
from stormwright.pipeline.measurement.panes import panes, summed_facts
from stormwright.pipeline.parsing.clean import accepted
from stormwright.pipeline.parsing.source import read_files
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.backfill import NEVER_LATE_S
from tests.perflog.samples import RECORD, encoded

pytestmark = pytest.mark.spark


@pytest.fixture(params=[panes, summed_facts])
def summed(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[[Path], DataFrame]:
    """Facts of a file's records, summed per pane."""

    def of_file(path: Path) -> DataFrame:
        records = accepted(read_files(spark, [path], NEVER_LATE_S))
        facts: DataFrame = request.param(records, StreamSettings())
        return facts

    return of_file


def test_an_interval_is_cut_at_full_seconds(summed: Callable[[Path], DataFrame], tmp_path: Path) -> None:
    """Intervals that begin or end with a second, at moments whose nanoseconds no float holds."""
    starts_ms = [1_763_000_000_000 + 1000 * n + offset for n in range(40) for offset in (0, 1, 999)]
    lengths_ns = [1, 1_000_000, 999_000_000, 1_000_000_000, 1_000_000_001, 2_500_000_000]
    cases = [(start_ms, length_ns) for start_ms in starts_ms for length_ns in lengths_ns]
    # No two facts are of the same worker and second.
    lines = [
        encoded(
            RECORD
            | {
                "worker": RECORD["worker"] | {"port": 1 + seq},
                "seq": seq,
                "start_ms": start_ms,
                "length_ns": length_ns,
                "process_cpu_ns": length_ns,
            }
        )
        for seq, (start_ms, length_ns) in enumerate(cases)
    ]
    path = Landing(tmp_path).write(lines)
    assert path is not None
    rows = summed(path).collect()
    found = sorted((r["first"], r["length_ns"], round(r["cpu_ns"])) for r in rows if r["kind"] == "node")
    expected = []
    for start_ms, length_ns in cases:
        begin, end = start_ms * 10**6, start_ms * 10**6 + length_ns
        for second in range(begin // 10**9, (end - 1) // 10**9 + 1):
            inside = min(end, (second + 1) * 10**9) - max(begin, second * 10**9)
            expected.append((second, inside, inside))
    assert found == sorted(expected)


@pytest.mark.slow
def test_latency_counts_and_pairs_become_facts(summed: Callable[[Path], DataFrame], tmp_path: Path) -> None:
    streams = [["a", "default", "b", "fields"], ["a", "default", "c", "none"]]
    pairs = [[5, 9, 0, 10, 0], [5, 9, 0, 4, 44], [6, 7, 1, 3, 30]]
    record = RECORD | {"streams": streams, "pairs": pairs, "complete_latency": {"counts": [0, 3, 1]}}
    path = Landing(tmp_path).write([encoded(record)])
    assert path is not None
    table = summed(path).collect()
    found = [
        (r["kind"], r["component"], r["grouping"], r["first"], r["second"], r["tuples"], r["bytes"], r["sampled"])
        for r in table
        if r["kind"] in ("pair", "flow")
    ]
    assert sorted(found) == [
        ("flow", "c", "none", 6, None, 3, 30, 3),
        ("pair", "b", "fields", 5, 9, 14, 44, 4),
    ]
    assert sorted((r["first"], r["tuples"]) for r in table if r["kind"] == "latency") == [(1, 3), (2, 1)]
