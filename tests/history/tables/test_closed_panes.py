"""What the stream leaves in the history is what a batch makes of the same files, each pane once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.ingest import ClosedPanes, ingest
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import ParquetStore
from stormwright.pipeline.streaming import sink
from stormwright.pipeline.streaming.backfill import backfill
from stormwright.pipeline.streaming.progress import LiveState
from stormwright.pipeline.streaming.stream import LoadStream, StreamSettings
from tests.history.samples import START_MS, by_key, stored
from tests.pipeline.generator import deliver, dice, land, make_world, records
from tests.pipeline.streaming.test_stream import wait_for, wait_until_read

pytestmark = pytest.mark.spark

SETTINGS = StreamSettings(trigger_s=0.1, window_s=6, late_s=5, max_files_per_batch=2, keep_raw_s=10**9)


FLOATS = [name for name, kind in FACTS.columns.items() if kind == "double"]


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums of floats may come out otherwise in another order."""
    return [row | {name: pytest.approx(row[name] or 0.0, rel=1e-12) for name in FLOATS} for row in rows]


@pytest.mark.slow
def test_each_pane_is_stored_exactly_once_after_a_failed_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch fails between the panes' writing and the state's; rows are taken in before the stream is restarted."""
    rng, world = dice(21), make_world(21)
    delivery = deliver(records(world, START_MS, 40, rng), rng)
    files, read = delivery.in_files(40), 0
    landing, state, staging = tmp_path / "landing", tmp_path / "state", Staging(tmp_path / "history")
    store = ParquetStore(spark, (tmp_path / "tables").as_uri())
    saves: list[int] = []

    def failing(saved: LiveState, directory: Path) -> None:
        saves.append(saved.batch)
        if len(saves) == 3:
            raise OSError("no space left on device")
        save(saved, directory)

    save = sink.save
    monkeypatch.setattr(sink, "save", failing)
    half = len(files) * 3 // 4
    for some in (files[:half], files[half:]):
        with LoadStream(landing, state, SETTINGS, spark, ClosedPanes(staging)) as stream:
            for file in some:
                land(landing, (line.body for line in file), file[-1].arrived_ms)
                read += len(file)
            wait_until_read(stream, read)
            wait_for(stream, lambda: stream.progress()["error"] is None)
            assert stream.closed_panes_error() is None
        ingest(spark, store, staging)
    assert len(saves) > len(set(saves)) > 3, "a batch was repeated"
    found = stored(store, FACTS)
    still_open = sink.load(state / SETTINGS.state_name / "panes").facts()
    rows = by_key(found + still_open.to_pylist(), FACTS)
    everything = [row | {name: row[name] or 0.0 for name in FLOATS} for row in rows]
    backfill(spark, [landing, stream.raw], tmp_path / "batch", settings=SETTINGS, late_s=SETTINGS.late_s)
    in_batch: pa.Table = spark.read.parquet(str(tmp_path / "batch" / "panes")).toArrow()
    assert everything == rounded(by_key(in_batch.to_pylist(), FACTS))
    assert len(found) > 200
