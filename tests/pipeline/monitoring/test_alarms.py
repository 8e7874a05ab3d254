"""Alarms while an overload lasts: the running query against what SQL says of the same records afterwards."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stormwright.model import Problem, Supervisor
from stormwright.pipeline.measurement.overload import NodeSeries
from stormwright.pipeline.monitoring.alarm_log import Alarm, AlarmLog
from stormwright.pipeline.monitoring.alarms import AlarmStream, SecondsFeed
from stormwright.pipeline.monitoring.episodes import Capacity, episodes
from stormwright.pipeline.streaming.backfill import backfill
from stormwright.pipeline.streaming.stream import LoadStream, StreamSettings
from tests.perflog.samples import RECORD
from tests.pipeline.generator import Record, dice, encoded, land
from tests.pipeline.monitoring.test_episodes import CAPACITY, episodes_of
from tests.pipeline.oracle import without_short_gaps
from tests.pipeline.waiting import wait, wait_for, wait_until_read

START_S = 1_690_000_000
AFTER_S = 6
LENGTH_S = 140
CORE_HZ = 3e9
NODES = ("a", "b", "c", "d")
SETTINGS = StreamSettings(trigger_s=0.1, alarm_after_s=AFTER_S, max_files_per_batch=25, keep_raw_s=86400 * 10000)
PROBLEM = Problem(
    tuple(Supervisor(node, node, (6700, 6701), cpu_hz=CAPACITY * CORE_HZ) for node in (*NODES, "silent")),
    (),
    core_hz=CORE_HZ,
)

#: Node whose control group counts more than its workers, and allows less than the node declares.
GROUPED, QUOTA = "d", 1.4

Episode = tuple[str, int, int, float]


def worker_second(node: str, port: int, second: int, cores: float) -> Record:
    """The record of a worker over one whole second."""
    worker = RECORD["worker"] | {"topology": "t", "supervisor": node, "port": port}
    return RECORD | {
        "worker": worker, "seq": second, "start_ms": (START_S + second) * 1000, "length_ns": 10**9,
        "written_ms": (START_S + second + 1) * 1000, "process_cpu_ns": round(cores * 1e9), "executors": [], "pairs": [],
        "node": None,
    }  # fmt: skip


def delivered(seed: int) -> list[list[Record]]:
    """What arrives in each second: two workers a node, both busy or both idle for a while.

    Some records are lost, one by one or several of a worker in a row; some come twice, some up to 4 s late.
    """
    rng = dice(seed)
    arriving: list[list[Record]] = [[] for _ in range(LENGTH_S + 8)]
    for node in NODES:
        second, busy = 0, rng.random() < 0.5
        levels: list[bool] = []
        while second < LENGTH_S - 20:
            lasts = rng.choice([1, 3, AFTER_S, AFTER_S + 1, 15, 40])
            levels += [busy] * lasts
            second, busy = second + lasts, not busy
        levels = [*levels[: LENGTH_S - 20], *[False] * 20]
        for port in (6700, 6701):
            silent_until = 0
            for at, is_busy in enumerate(levels):
                if at >= silent_until and rng.random() < 0.04:
                    silent_until = at + rng.choice([1, 2, 3, 4, 9])
                if at < silent_until:
                    continue
                cores = (1.4 if is_busy else 0.3) + rng.uniform(0, 0.1)
                record = worker_second(node, port, at, cores / (4 if node == GROUPED else 1))
                if node == GROUPED:
                    used = (1.5 if is_busy else 0.9) + rng.uniform(0, 0.1)
                    record["node"] = {"used_ns": round(used * 1e9), "millicores": round(QUOTA * 1000)}
                for _ in range(1 + (rng.random() < 0.05)):
                    arriving[at + rng.choice([0, 0, 0, 0, 1, 2, 3, 4])].append(record)
    return arriving


def in_python(arriving: list[list[Record]], settle_s: int) -> list[Episode]:
    """The episodes among all that has arrived, by loops and dictionaries."""
    cores: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    of_group: dict[int, dict[int, float]] = defaultdict(dict)
    for record in (record for records in arriving for record in records):
        worker = record["worker"]["supervisor"], record["worker"]["port"]
        cores[worker][record["seq"]] = record["process_cpu_ns"] / 1e9
        if record["node"]:
            of_group[worker[1]][record["seq"]] = record["node"]["used_ns"] / 1e9
    found = []
    for node in NODES:
        grouped = node == GROUPED
        known = [
            without_short_gaps(of_group[port] if grouped else cores[node, port], settle_s) for port in (6700, 6701)
        ]
        seconds = [[of[at] for of in known if at in of] for at in range(LENGTH_S)]
        sums = [sum(values) / (len(values) if grouped else 1) if values else None for values in seconds]
        runs = episodes_of(sums, AFTER_S, QUOTA if grouped else CAPACITY)
        found += [(node, START_S + begin, START_S + end, peak) for begin, end, peak in runs]
    return sorted(found)


@pytest.mark.slow
@pytest.mark.spark
def test_alarms_of_a_stream_are_the_episodes_of_sql(spark: SparkSession, tmp_path: Path) -> None:
    """Across a restart of the stream in the middle of an episode, with lost, late and repeated records."""
    arriving = delivered(seed=2)
    expected = in_python(arriving, SETTINGS.settle_s)
    assert len(expected) >= 10
    landing, raised = tmp_path / "landing", list[Alarm]()
    landing.mkdir()
    files = [(second, records) for second, records in enumerate(arriving) if records]
    middle = next(n for n, (second, _) in enumerate(files) if START_S + second > expected[5][1] + 12)
    read = 0
    for part in (files[:middle], files[middle:]):
        with LoadStream(landing, tmp_path / "state", SETTINGS, spark, on_alarm=raised.append) as stream:
            stream.note(PROBLEM)
            for second, records in part:
                land(landing, map(encoded, records), (START_S + second + 2) * 1000)
                read += len(records)
            wait_until_read(stream, read)
            if part[-1] is files[-1]:
                wait_for(stream, lambda: len(stream.progress()["alarms"]["ended"]) >= len(expected))
            alarms = stream.progress()["alarms"]
    assert alarms["error"] is None
    assert alarms["up"] == []
    ended = [(a["supervisor"], a["start_s"], a["end_s"], a["peak_cores"]) for a in alarms["ended"]]
    assert sorted(ended) == [(node, begin, end, pytest.approx(peak)) for node, begin, end, peak in expected]
    assert alarms["raised"] == len(expected)
    assert sorted((alarm.supervisor, alarm.start_s) for alarm in raised) == sorted(e[:2] for e in expected)

    backfill(spark, [landing, stream.raw], tmp_path / "into", settings=SETTINGS, late_s=60)
    panes = spark.read.parquet(str(tmp_path / "into" / "panes"))
    capacities = [Capacity(node.id, CAPACITY) for node in PROBLEM.supervisors]
    report = episodes(panes, capacities, AFTER_S, SETTINGS.settle_s).collect()
    assert sorted(tuple(row)[:4] for row in report) == sorted(
        (node, begin, end, pytest.approx(peak)) for node, begin, end, peak in expected
    )
    # Of a stretch it tells what lies inside.
    node, begin, end, _ = expected[0]
    cut = episodes(panes, [Capacity(node, CAPACITY)], 0, SETTINGS.settle_s, begin + 2, end - 1).collect()
    assert [(row.start_s, row.end_s) for row in cut] == [(begin + 2, end - 1)]


def seconds_of(cores: list[float], node: str = "a") -> pa.Table:
    return pa.table(
        {
            "topology": ["t"] * len(cores), "supervisor": [node] * len(cores), "port": [1] * len(cores),
            "at": [START_S + n for n in range(len(cores))], "cpu_ns": [c * 1e9 for c in cores],
            "length_ns": [10**9] * len(cores),
            **{name: pa.nulls(len(cores), pa.float64()) for name in ("used_ns", "quota_ns", "used_known_ns")},
        }
    )  # fmt: skip


@pytest.mark.spark
def test_alarm_is_raised_one_trigger_after_threshold(spark: SparkSession, tmp_path: Path) -> None:
    raised: list[tuple[Alarm, float]] = []
    stream = AlarmStream(tmp_path, AFTER_S, SETTINGS, lambda alarm: raised.append((alarm, time.monotonic())))
    started = time.monotonic()
    stream.start(spark)
    try:
        cores = [0.5, 0.5, *[2.5] * AFTER_S]
        stream.feed.write(NodeSeries(seconds_of(cores), settle_s=0), {"a": CAPACITY})
        directory = tmp_path / "seconds"
        # Spark deletes what it has read two batches ago.
        wait(lambda: (tmp_path / "checkpoint" / "commits" / "0").exists(), stream.status)
        first_s = time.monotonic() - started
        assert not raised
        time.sleep(0.3)
        written = time.monotonic()
        stream.feed.write(NodeSeries(seconds_of([*cores, 2.6]), settle_s=0), {"a": CAPACITY})
        wait(lambda: bool(raised), stream.status)
        ((alarm, at),) = raised
        assert at - written < 1 + max(3, first_s), "one trigger, and what a batch takes: the first one took no less"
        assert alarm == Alarm("a", START_S + 2, START_S + 2 + AFTER_S + 1, 2.6, CAPACITY)
        assert list(directory.iterdir())
        status = stream.status()
        assert [up["supervisor"] for up in status["up"]] == ["a"]
        assert (status["raised"], status["running"], status["error"]) == (1, True, None)
    finally:
        stream.stop()


@pytest.mark.spark
def test_stream_stopped_before_first_batch_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has written about the state by then, and would refuse to begin beside it."""
    state = tmp_path / "checkpoint" / "state" / "0" / "_metadata"
    state.mkdir(parents=True)
    (state / "schema").write_text("of a batch that never was")
    stream = AlarmStream(tmp_path, AFTER_S, SETTINGS, lambda alarm: None)
    stream.start(spark)
    try:
        stream.feed.write(NodeSeries(seconds_of([2.5] * 2), settle_s=0), {"a": CAPACITY})
        wait(lambda: (tmp_path / "checkpoint" / "commits" / "0").exists(), stream.status)
        assert stream.status()["error"] is None
    finally:
        stream.stop()


def lines_in(directory: Path) -> list[tuple[str, int, float | None]]:
    rows = [json.loads(line) for path in sorted(directory.iterdir()) for line in path.read_bytes().splitlines()]
    for path in directory.iterdir():
        path.unlink()
    return [(row["supervisor"], row["at"] - START_S, row["cores"]) for row in rows]


def test_seconds_feed_contains_only_overloaded_or_recently_overloaded_nodes(tmp_path: Path) -> None:
    feed, capacity = SecondsFeed(tmp_path, final_s=3), {"a": CAPACITY, "gone": CAPACITY}

    def raised(cores: list[float]) -> list[tuple[str, int, float | None]]:
        feed.write(NodeSeries(seconds_of(cores), settle_s=0), capacity)
        return lines_in(tmp_path)

    well = [0.5] * 10
    feed.write(NodeSeries(seconds_of(well), settle_s=0), {})
    assert lines_in(tmp_path) == []
    assert raised(well) == [("a", 9, 0.5), ("gone", 9, None)], "it is not known what was followed before"
    assert raised([*well, 1.9]) == []
    over = [*well, 1.9, 2.5]
    assert raised(over) == [("a", 7, 0.5), ("a", 8, 0.5), ("a", 9, 0.5), ("a", 10, 1.9), ("a", 11, 2.5)]
    assert raised(over) == []
    over[-1] = 2.7
    assert raised([*over, 0.1]) == [("a", 11, 2.7), ("a", 12, 0.1)], "a record came late"
    # The feed stood still for long: nothing is left out.
    assert [at for _, at, _ in raised([*over, 0.1, *[2.1] * 30])] == list(range(13, 43))
    well_again = [*over, 0.1, *[2.1] * 30, *[0.2] * 9]
    assert [at for _, at, _ in raised(well_again[:45])] == [43, 44]
    assert [at for _, at, _ in raised(well_again)] == [*range(45, 52)]
    assert [at for _, at, _ in raised([*well_again, 0.2])] == [52]
    assert raised([*well_again, 0.2, 0.2]) == []


class Frame:
    """What a batch of events collects."""

    def __init__(self, *rows: tuple[str, str, int, int]) -> None:
        self._rows = [
            {"event": e, "supervisor": s, "start_s": b, "end_s": end, "peak_cores": 3.0, "capacity_cores": 2.0}
            for e, s, b, end in rows
        ]

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.Table.from_pylist(self._rows)


def test_repeated_batch_does_not_change_alarms(tmp_path: Path) -> None:
    raised: list[Alarm] = []
    log = AlarmLog(tmp_path / "alarms.json", raised.append)
    log(Frame(("raised", "a", 10, 20), ("raised", "b", 5, 15)), 0)  # type: ignore[arg-type]
    # One ends and the next begins in the same batch.
    log(Frame(("raised", "a", 50, 60), ("ended", "a", 10, 30)), 1)  # type: ignore[arg-type]
    again = AlarmLog(tmp_path / "alarms.json", raised.append)
    again(Frame(("raised", "a", 50, 60), ("ended", "a", 10, 30)), 1)  # type: ignore[arg-type]
    assert again.as_dict() == log.as_dict()
    assert [(a.supervisor, a.start_s) for a in raised] == [("b", 5), ("a", 10), ("a", 50)]
    assert {node: alarm.start_s for node, alarm in again.up.items()} == {"a": 50, "b": 5}
    assert [(a.start_s, a.end_s) for a in again.ended] == [(10, 30)]
    assert again.raised == 3

    for content in (b"", b'{"batch": 1, "up": [', b"[]", b'{"batch": 1}'):
        (tmp_path / "alarms.json").write_bytes(content)
        damaged = AlarmLog(tmp_path / "alarms.json", raised.append)
        assert damaged.as_dict() == {"up": [], "ended": [], "raised": 0}
        assert (tmp_path / "alarms.damaged").read_bytes() == content
    damaged(Frame(("raised", "a", 50, 60)), 2)  # type: ignore[arg-type]
    assert list(AlarmLog(tmp_path / "alarms.json", raised.append).up) == ["a"]


def test_new_alarm_in_a_repeated_batch_is_raised(tmp_path: Path) -> None:
    """A checkpoint that lost its newest files repeats a number with other events."""
    raised: list[Alarm] = []
    log = AlarmLog(tmp_path / "alarms.json", raised.append)
    log(Frame(("raised", "a", 10, 20), ("ended", "a", 10, 30)), 5)  # type: ignore[arg-type]
    log(Frame(("raised", "a", 10, 20), ("raised", "b", 12, 22)), 0)  # type: ignore[arg-type]
    assert [(a.supervisor, a.start_s) for a in raised] == [("a", 10), ("b", 12)]
    assert list(log.up) == ["b"]


def test_alarm_is_reported_though_another_one_could_not_be(tmp_path: Path) -> None:
    raised: list[str] = []

    def report(alarm: Alarm) -> None:
        raised.append(alarm.supervisor)
        if alarm.supervisor == "a":
            raise RuntimeError("no answer")

    AlarmLog(tmp_path / "alarms.json", report)(Frame(("raised", "a", 10, 20), ("raised", "b", 12, 22)), 0)  # type: ignore[arg-type]
    assert raised == ["a", "b"]


def test_unsaved_alarm_is_raised_when_its_batch_is_repeated(tmp_path: Path) -> None:
    raised: list[Alarm] = []
    (tmp_path / "state").write_text("in the way")
    log = AlarmLog(tmp_path / "state" / "alarms.json", raised.append)
    batch = Frame(("raised", "a", 10, 20))
    with pytest.raises(OSError, match="Not a directory"):
        log(batch, 0)  # type: ignore[arg-type]
    assert (raised, log.as_dict()) == ([], {"up": [], "ended": [], "raised": 0})
    (tmp_path / "state").unlink()
    (tmp_path / "state").mkdir()
    log(batch, 0)  # type: ignore[arg-type]
    assert [alarm.supervisor for alarm in raised] == ["a"]
    assert list(AlarmLog(tmp_path / "state" / "alarms.json", raised.append).up) == ["a"]


def test_node_leaving_the_cluster_is_written_as_silent(tmp_path: Path) -> None:
    feed = SecondsFeed(tmp_path, final_s=3, followed=["left before"])
    over = NodeSeries(seconds_of([2.5] * 5), settle_s=0)
    feed.write(over, {"a": CAPACITY})
    assert [row for row in lines_in(tmp_path) if row[0] != "a"] == [("left before", 9, None)]
    feed.write(over, {"b": CAPACITY})
    assert lines_in(tmp_path) == [("a", 9, None), ("b", 4, None)]
    feed.write(over, {"b": CAPACITY})
    assert lines_in(tmp_path) == []
