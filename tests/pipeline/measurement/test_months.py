"""What a stream leaves behind does not grow with how long it has run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stormwright.pipeline.measurement.windows import PANES, with_more, worker_seconds
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming import sink
from stormwright.pipeline.streaming.progress import SOURCE_RECORDS, LiveState
from stormwright.pipeline.streaming.stream import LoadStream
from tests.pipeline.generator import dice, encoded, land, make_world, records
from tests.pipeline.streaming.test_stream import SETTINGS, START_MS, assert_profile, wait_until_read

BATCHES = 1200


def batches(settings: StreamSettings) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Of one record each 2.5 s from three workers: its facts, and its audit."""
    slide_ms = settings.slide_s * 1000
    keys = {"kind": "node", "topology": "t", "supervisor": "s", "length_ns": 10**9, "cpu_ns": 5e8}
    for number in count():
        start_ms = START_MS + number * 2500
        facts = [keys | {"first": start_ms // 1000, "second": port} for port in (1, 2, 3)]
        facts += [
            {"kind": "worker", "topology": "t", "supervisor": "s", "second": port, "records": 1} for port in (1, 2, 3)
        ]
        pane = dict.fromkeys(PANES.names) | {"pane_ms": start_ms // slide_ms * slide_ms}
        table = pa.Table.from_pylist([pane | fact for fact in facts], PANES)
        source_records = {"worker_topology": "t", "worker_supervisor": "s", "worker_pid": 1, "worker_start_ms": 1}
        audit = [source_records | {"worker_port": port, "seq": number, "start_ms": start_ms} for port in (1, 2, 3)]
        columns = pa.Table.from_pylist(audit, SOURCE_RECORDS)
        for name in ("reason", "file"):
            columns = columns.append_column(
                name, pa.array([f"{number}.jsonl"] * 3 if name == "file" else [None] * 3, pa.string())
            )
        yield table, columns


@pytest.mark.slow
def test_state_size_is_bounded_over_many_batches(tmp_path: Path) -> None:
    """Most of an hour of batches: as much is stored, in memory and on disk, as after some minutes."""
    settings = StreamSettings()
    state, seconds = LiveState(), worker_seconds(PANES.empty_table())
    sizes = {}
    for number, (facts, audit) in zip(range(BATCHES), batches(settings), strict=False):
        audit = state.deduplicated(audit, settings)
        state = state.after(number, facts, audit, [], settings)
        seconds = with_more(seconds, worker_seconds(facts), settings.history_s)
        if number % 100 == 99:
            sink.save(state, tmp_path)
            rows = sum(pane.source_records.num_rows + pane.facts.num_rows for pane in state.panes.values())
            chunks = seconds["at"].num_chunks + max(
                pane.source_records["seq"].num_chunks for pane in state.panes.values()
            )
            sizes[number] = (len(state.panes), rows, seconds.num_rows, chunks)
    early, late = sizes[199], sizes[BATCHES - 1]
    assert all(after <= before * 1.2 + 2 for before, after in zip(early, late, strict=True)), sizes
    # What closed panes were in is deleted.
    assert len(list(tmp_path.iterdir())) <= 2 * late[0] + 1
    assert state.ledger.used == state.ledger.read == 3 * BATCHES
    assert sink.load(tmp_path).facts().equals(state.facts())


@pytest.mark.parametrize("damage", ["state.json", ".arrow", None])
def test_unreadable_state_is_set_aside(tmp_path: Path, damage: str | None) -> None:
    """Cut short, or a part of it gone: the service comes up all the same."""
    settings, directory = StreamSettings(), tmp_path / "panes"
    state = LiveState()
    for number, (facts, audit) in zip(range(3), batches(settings), strict=False):
        state = state.after(number, facts, state.deduplicated(audit, settings), [], settings)
    sink.save(state, directory)
    assert sink.load(directory).facts().equals(state.facts())
    path = next(path for path in sorted(directory.iterdir()) if path.name.endswith(damage or ".arrow"))
    if damage:
        path.write_bytes(path.read_bytes()[:-20])
    else:
        path.unlink()
    assert sink.load(directory) == LiveState()
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith("panes-damaged-")
    sink.save(state, directory)
    assert sink.load(directory).facts().equals(state.facts())


def test_state_of_the_version_before_is_taken_over(tmp_path: Path) -> None:
    """Its facts lack columns, which are unknown; those of later batches have them."""
    settings, (older, newer) = StreamSettings(), (tmp_path / "v3", tmp_path / "v4")
    made = batches(settings)
    facts, audit = next(made)
    lacking = (
        *("waited_ns", "waited_known_ns", "runs", "runs_known_ns", "pending_ns", "pending_known_ns"),
        *("used_ns", "quota_ns", "used_known_ns"),
    )
    state = LiveState().after(0, facts, LiveState().deduplicated(audit, settings), [], settings)
    panes = {start: replace(pane, facts=pane.facts.drop_columns(list(lacking))) for start, pane in state.panes.items()}
    sink.save(replace(state, panes=panes), older / "panes")
    sink.take_over(older, newer)
    assert not older.exists()
    taken = sink.load(newer / "panes")
    assert taken.facts().equals(state.facts())
    facts, audit = next(made)
    table = facts.set_column(facts.schema.get_field_index("used_ns"), "used_ns", pa.array([5.0] * len(facts)))
    after = taken.after(1, table, taken.deduplicated(audit, settings), [], settings)
    assert sorted(map(str, after.facts()["used_ns"].to_pylist())) == ["5.0"] * 6 + ["None"] * 6

    sink.save(after, older / "panes")
    sink.take_over(older, newer)
    assert older.exists(), "there is state of this version already"


@pytest.mark.spark
@pytest.mark.slow
def test_new_state_version_starts_from_last_retained_minutes(spark: SparkSession, tmp_path: Path) -> None:
    """Here another length of panes does it: the state of the one before says nothing about those."""
    world = make_world(18)
    written = records(world, START_MS, 10, dice(18))
    landing, state = tmp_path / "landing", tmp_path / "state"
    settings = replace(SETTINGS, keep_raw_s=10**9)
    with LoadStream(landing, state, settings, spark) as running:
        land(landing, map(encoded, written), max(record["written_ms"] for record in written))
        wait_until_read(running, len(written))
    with LoadStream(landing, state, replace(settings, window_s=20, slide_s=5), spark) as running:
        assert_profile(running, world, written)
        assert running.progress()["ledger"]["used"] == len(written)
