"""Kafka as a source of records, with a real broker: each message counts once, whatever is interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stormwright.errors import InputError, MissingDependencyError, StormwrightError
from stormwright.perflog.columns import ParsedRows, parsed_rows, read_landed_file
from stormwright.pipeline.measurement.windows import PANES
from stormwright.pipeline.settings import KafkaTopic, StreamSettings
from stormwright.pipeline.streaming.kafka import KafkaStream, stream_topic
from stormwright.pipeline.streaming.kafka_connector import connector_conf
from stormwright.pipeline.streaming.kafka_landing import MessageLanding
from stormwright.pipeline.streaming.stream import LoadStream
from stormwright.pipeline.streaming.structured import StructuredStream
from tests.pipeline.kafka_broker import CONNECTOR, Broker, Topic, has_jars
from tests.pipeline.kills import START_MS, Victim, assert_exact_messages, assert_loads, booked, made_messages, messages
from tests.pipeline.victim import KAFKA_POINTS, SETTINGS, of_topic, set_trap
from tests.pipeline.waiting import wait, wait_for, wait_until_read

pytestmark = pytest.mark.spark


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests."""
    if not has_jars():
        pytest.skip("no jars of Kafka for this version of Spark: tools/setup kafka fetches those of the pinned one")
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.mark.slow
def test_messages_count_as_landed_lines_while_broker_restarts(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    world, lines, outcome = made_messages(seed=41, seconds=50)
    topic = Topic(spark, broker, "restarts")
    half, landed = len(lines) // 2, list[ParsedRows]()
    topic.produce(messages(lines[:half]))
    settings = of_topic(broker.address, topic.name)
    with LoadStream(tmp_path / "landing", tmp_path / "state", settings, spark, on_landed=landed.append) as stream:
        wait_until_read(stream, half // 2)
        broker.kill()
        broker.start()
        topic.produce(messages(lines[half:]))
        wait_until_read(stream, len(lines))
        wait_for(stream, lambda: stream.progress()["kafka"]["messages_behind"] == 0)
        progress = stream.progress()
    assert progress["kafka"]["running"]
    assert progress["kafka"]["error"] is None
    assert progress["queries"]["kafka"]["batch"] >= len(lines) // 40
    expected = parsed_rows([line.body for line in lines], [line.arrived_ms for line in lines], settings.late_s)
    assert [record for parsed in landed for record in parsed.records] == expected.records
    assert min(outcome.ledger.values()) > 5
    assert {reason.partition(":")[0] for reason, *_ in outcome.quarantine} >= {"late", "version"}
    assert_exact_messages(tmp_path / "state", world, outcome)


def test_failed_batch_is_repeated_without_loss_or_duplicates(
    spark: SparkSession, tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each point once, in a query that Spark starts again."""
    world, lines, outcome = made_messages(seed=42, seconds=24)
    topic = Topic(spark, broker, "fails", partitions=2)
    for partition in range(2):
        topic.produce(messages(lines[partition::2]), partition)
    due = set(KAFKA_POINTS)

    def fail(point: str) -> None:
        if point in due:
            due.remove(point)
            raise OSError(point)

    for point in KAFKA_POINTS:
        set_trap(point, partial(fail, point), monkeypatch.setattr)
    settings = of_topic(broker.address, topic.name)
    with LoadStream(tmp_path / "landing", tmp_path / "state", settings, spark) as stream:
        wait_until_read(stream, len(lines))
        wait_for(stream, lambda: not due)
        restarts = stream.progress()["queries"]["kafka"]["restarts"]
    assert restarts == len(KAFKA_POINTS)
    assert_exact_messages(tmp_path / "state", world, outcome)


@pytest.mark.slow
def test_nothing_is_lost_or_twice_after_kills(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    """Killed with its JVM at each point, and by the way at some moment while the broker is away."""
    world, lines, outcome = made_messages(seed=43, seconds=60)
    topic = Topic(spark, broker, "kills")
    landing, state = tmp_path / "landing", tmp_path / "state"
    landing.mkdir()
    of = (broker.address, topic.name)
    share = len(lines) // len(KAFKA_POINTS)
    for number, point in enumerate(KAFKA_POINTS):
        end = len(lines) if number == len(KAFKA_POINTS) - 1 else (number + 1) * share
        topic.produce(messages(lines[number * share : end]))
        with Victim(landing, state, point, of) as victim:
            victim.wait(lambda: False)
    before = booked(state)["batch"]
    with Victim(landing, state, topic=of) as victim:
        assert victim.next_commit_s(before) is not None
        broker.kill()
        victim.kill()
    broker.start()
    with Victim(landing, state, topic=of) as victim:
        victim.wait(lambda: booked(state)["ledger"]["read"] >= len(lines))
        assert victim.process.poll() is None, "the stream has ended by itself"
    assert_exact_messages(state, world, outcome)


@pytest.mark.slow
def test_messages_in_two_partitions_count_once_in_state_of_spark(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    world, lines, outcome = made_messages(seed=44, seconds=50)
    topic = Topic(spark, broker, "state", partitions=2)
    half = len(lines) // 2
    for part in (lines[:half], lines[half:]):
        for partition in range(2):
            topic.produce(messages(part[partition::2]), partition)
        rows = stream_topic(spark, KafkaTopic(broker.address, topic.name, {"maxOffsetsPerTrigger": "40"}), SETTINGS)
        stream = StructuredStream(rows, tmp_path, SETTINGS)
        stream.start(until_empty=True)
        stream.follow()
        stream.stop()
    assert asdict(stream.counts()) == outcome.ledger
    assert_loads(stream.panes().toArrow().select(PANES.names).cast(PANES), world, outcome)
    expected = sorted((reason, landed_ms) for reason, _, _, landed_ms in outcome.quarantine)
    found = stream.quarantine().collect()
    assert sorted((row["reason"], row["landed_ms"]) for row in found) == expected
    assert {row["file"] for row in found} == {"0", "1"}


def test_error_names_missing_topic(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    topic = KafkaTopic(broker.address, "missing")
    stream = KafkaStream(topic, tmp_path / "landing", tmp_path / "kafka", SETTINGS)
    stream.start(spark)
    try:
        wait(lambda: stream.error is not None, stream.status)
        assert "the topic missing is not at" in stream.status()["error"]
        Topic(spark, broker, "missing").produce([(b"{}", START_MS)])
        wait(lambda: list((tmp_path / "landing").glob("*.parquet")), stream.status)
        wait(lambda: stream.error is None, stream.status)
    finally:
        stream.stop()


def test_error_names_broker_that_does_not_answer(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    options = {"kafka.request.timeout.ms": "1000", "kafka.default.api.timeout.ms": "1000"}
    stream = KafkaStream(KafkaTopic("127.0.0.1:1", "any", options), tmp_path / "landing", tmp_path / "kafka", SETTINGS)
    stream.start(spark)
    try:
        wait(lambda: stream.error is not None, stream.status)
        assert "no Kafka broker answers at 127.0.0.1:1" in stream.status()["error"]
    finally:
        stream.stop()


def table(*places: tuple[int, int], value: bytes | None = b"{}") -> pa.Table:
    """Messages at places (partition, offset), a second apart by offset."""
    return pa.table(
        {
            "partition": pa.array([partition for partition, _ in places], pa.int32()),
            "offset": pa.array([offset for _, offset in places], pa.int64()),
            "timestamp": pa.array([(START_MS + 1000 * o) * 1000 for _, o in places], pa.timestamp("us", "UTC")),
            "value": pa.array([value] * len(places), pa.binary()),
        }
    )


def landed_ms(landing: Path) -> list[list[int]]:
    """Return by file, in the order of landing, when its lines landed."""
    return [read_landed_file(path)["landed_ms"].to_pylist() for path in sorted(landing.glob("*.parquet"))]


@pytest.fixture
def landing(tmp_path: Path) -> MessageLanding:
    """Of messages, without a query."""
    return new_landing(tmp_path)


def new_landing(directory: Path) -> MessageLanding:
    return MessageLanding(directory / "landing", directory / "kafka", 30, lambda values: None)


def seconds(*offsets: int) -> list[int]:
    return [START_MS + 1000 * offset for offset in offsets]


def test_message_may_hold_lines_or_nothing(tmp_path: Path, landing: MessageLanding) -> None:
    landing.land(0, table((0, 0), value=None))
    landing.land(1, table((0, 1), value=b"\n \n"))
    assert landed_ms(tmp_path / "landing") == []
    landing.land(2, table((0, 2), (0, 3), value=b"{}\n\n[]\n"))
    assert landed_ms(tmp_path / "landing") == [seconds(2, 2, 3, 3)]


def test_message_of_a_clock_that_is_ahead_lands_now(tmp_path: Path, landing: MessageLanding) -> None:
    ahead = table((0, 0), (0, 1))
    later = pa.array([START_MS * 1000, 2 * round(time.time() * 1e6)], pa.timestamp("us", "UTC"))
    landing.land(0, ahead.set_column(2, "timestamp", later))
    ((first_ms, second_ms),) = landed_ms(tmp_path / "landing")
    assert first_ms == START_MS
    assert time.time() * 1000 - 60_000 < second_ms <= time.time() * 1000


def test_repeated_batch_with_other_limits_lands_only_what_is_new(tmp_path: Path, landing: MessageLanding) -> None:
    """As Spark makes it after a power failure that cost it the newest files of its checkpoint."""
    landing.land(0, table((0, 0), (0, 1), (1, 0)))
    landing.land(1, table((0, 2), (1, 1)))
    again = new_landing(tmp_path)
    again.land(1, table((0, 0), (0, 1), (1, 0)))
    again.land(1, table((0, 1), (1, 1), (1, 2)))
    again.land(2, table((0, 3), (1, 3)))
    assert landed_ms(tmp_path / "landing") == [seconds(0, 1, 0), seconds(2, 1), seconds(2), seconds(3, 3)]


def test_offsets_that_begin_again_are_an_error(tmp_path: Path, landing: MessageLanding) -> None:
    landing.land(0, table((0, 5)))
    with pytest.raises(StormwrightError, match="begin again"):
        landing.land(1, table((0, 0)))
    assert landed_ms(tmp_path / "landing") == [seconds(5)]


def test_damaged_mark_is_an_error(tmp_path: Path, landing: MessageLanding) -> None:
    landing.land(0, table((0, 0)))
    (tmp_path / "kafka" / "mark.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        landing.land(1, table((0, 1)))


def test_connector_is_fetched_or_in_directory(tmp_path: Path) -> None:
    fetched = connector_conf(KafkaTopic("kafka:9092", "perflog"), tmp_path)
    assert fetched["spark.jars.packages"].startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:")
    (tmp_path / "other.jar").touch()
    with pytest.raises(MissingDependencyError, match=r"spark-sql-kafka-0-10_2.13-.* is missing"):
        connector_conf(KafkaTopic("kafka:9092", "perflog", jars=tmp_path), tmp_path)
    if has_jars():
        jars = connector_conf(KafkaTopic("kafka:9092", "perflog", jars=CONNECTOR), tmp_path)
        assert jars["spark.jars"].count(".jar") == 4


@pytest.mark.parametrize(
    ("brokers", "name", "option", "path"),
    [
        ("kafka", "perflog", "startingOffsets", "$.brokers"),
        ("a:1,b:2 ,c:3", "perflog", "startingOffsets", "$.brokers"),
        ("kafka:9092", "per flog", "startingOffsets", "$.name"),
        ("kafka:9092", "..", "startingOffsets", "$.name"),
        ("kafka:9092", "perflog", "Subscribe", "$.options"),
        ("kafka:9092", "perflog", "kafka.bootstrap.servers", "$.options"),
    ],
)
def test_invalid_topic_is_refused(brokers: str, name: str, option: str, path: str) -> None:
    with pytest.raises(InputError) as error:
        KafkaTopic(brokers, name, {option: "x"})
    assert [fault.path for fault in error.value.faults] == [path]


def test_addresses_of_brokers() -> None:
    assert KafkaTopic("a:1,[::1]:2", "t").addresses == [("a", 1), ("::1", 2)]
    assert StreamSettings().kafka is None
