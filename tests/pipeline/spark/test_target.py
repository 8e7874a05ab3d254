"""Where Spark runs: what is refused before anything starts, and what is tried in vain only for a while."""

from __future__ import annotations

import ast
import socket
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stormwright
from stormwright.errors import InputError, MissingDependencyError, StormwrightError
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark import remote
from stormwright.pipeline.spark import session as spark_options
from stormwright.pipeline.spark.file_systems import exists
from stormwright.pipeline.spark.location import address, inside, is_uri, local_path
from stormwright.pipeline.spark.session import batch_session
from stormwright.pipeline.spark.target import FIRST_ROW_SETTING, SparkTarget
from stormwright.pipeline.streaming.stream import LoadStream

ROOT = Path(stormwright.__file__).parent


@pytest.mark.parametrize(
    "master",
    [
        None,
        "local",
        "local[*]",
        "local[2]",
        "local[4,3]",
        "spark://host:7077",
        "spark://a:7077,b:7077",
        "spark://[::1]:7077",
        "sc://host",
        "sc://host:15002",
        "sc://host:443/;use_ssl=true;token=x",
    ],
)
def test_masters(master: str | None) -> None:
    target = SparkTarget.parsed(master, ["spark.sql.shuffle.partitions=8", "spark.x=a=b"])
    assert target.conf == {"spark.sql.shuffle.partitions": "8", "spark.x": "a=b"}
    kinds = [target.local, bool(target.addresses), target.connect]
    assert kinds.count(True) == 1


def test_addresses() -> None:
    assert SparkTarget("spark://a:1,[::1]:2").addresses == [("a", 1), ("::1", 2)]


@pytest.mark.parametrize(
    "master",
    [
        "",
        "lokal",
        "local[0]",
        "local[x]",
        "spark://host",
        "spark://:7077",
        "sc://",
        "http://x",
        "yarn",
        "k8s://https://x",
    ],
)
def test_no_masters(master: str) -> None:
    with pytest.raises(InputError, match="--master: should be local") as caught:
        SparkTarget(master)
    assert ("spark-submit" in str(caught.value)) == master.startswith(("yarn", "k8s"))


def test_all_faults_name_their_option() -> None:
    settings = ["spark.master=local", "spark.sql.x", "heap=3", "spark.y="]
    with pytest.raises(InputError) as caught:
        SparkTarget.parsed("lokal", settings)
    assert sorted(fault.path for fault in caught.value.faults) == ["--master", *["--spark-conf"] * 4]


def test_unreachable_spark_master_is_reported() -> None:
    with pytest.raises(StormwrightError, match=r"no Spark master answers at spark://127\.0\.0\.1:9.*refused"):
        remote.require_master(SparkTarget("spark://127.0.0.1:9"))


def test_one_reachable_master_of_several_suffices() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote.require_master(SparkTarget(f"spark://127.0.0.1:9,127.0.0.1:{server.getsockname()[1]}"))


@pytest.mark.long
def test_foreign_server_at_spark_connect_address_is_reported_hiding_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ANSWERS_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"sc://127.0.0.1:{server.getsockname()[1]}/;token=secret"
        with pytest.raises(
            StormwrightError, match=r"no Spark Connect server answers at sc://127.* within 0\.5 s"
        ) as error:
            remote.connect_session(SparkTarget(url))
    assert "secret" not in str(error.value)


def test_a_malformed_connect_address_names_the_option() -> None:
    with pytest.raises(InputError, match="--master"):
        remote.connect_session(SparkTarget("sc://host:port"))


def test_classic_spark_master_requires_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for master in (None, "local[2]", "spark://127.0.0.1:9"):
        with pytest.raises(MissingDependencyError, match="Java 17 or later"):
            batch_session(tmp_path, SparkTarget(master))


def test_master_option_is_rejected_under_spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(InputError, match="--master: is set by spark-submit"):
        batch_session(tmp_path, SparkTarget("local[2]"))


class _Waits:
    """A session that never finds cores for its rows."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def range(self, _: int) -> _Waits:
        return self

    def count(self) -> int:
        self.stopped.wait()
        return 0

    def stop(self) -> None:
        self.stopped.set()


def test_a_cluster_without_free_cores_is_waited_for_as_long_as_a_user_wants(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote, "_REPORT_EVERY_S", 0.5)
    session = _Waits()
    with pytest.raises(StormwrightError, match=r"spark://x:1 ran nothing within 1 s: has it workers"):
        remote.require_row(session, SparkTarget("spark://x:1", {FIRST_ROW_SETTING: "1"}))  # type: ignore[arg-type]
    assert session.stopped.is_set()
    assert "spark://x:1: waiting for executors, for" in caplog.text


def test_only_streams_of_live_records_save_cores_and_compilers(tmp_path: Path) -> None:
    live, high = (spark_options.live(tmp_path, StreamSettings(rate=rate)) for rate in (None, "high"))
    batch = spark_options.batch(tmp_path)
    java = "spark.driver.extraJavaOptions"
    assert live["spark.sql.shuffle.partitions"] == "1"
    assert batch["spark.sql.shuffle.partitions"] == "4"
    assert "TieredStopAtLevel" in live[java]
    assert not any("TieredStopAtLevel" in options[java] for options in (high, batch))
    assert high["spark.master"] == "local[*]"
    assert all("java.io.tmpdir" in options[java] for options in (live, high, batch))


def test_locations(tmp_path: Path) -> None:
    assert is_uri("hdfs://name/x")
    assert is_uri("file:///x")
    assert not is_uri("x/y")
    assert not is_uri(tmp_path)
    assert inside("s3a://bucket/x/", "panes") == "s3a://bucket/x/panes"
    assert address(inside(tmp_path, "panes")) == str(tmp_path / "panes")
    assert address("s3a://bucket/x") == "s3a://bucket/x"
    assert local_path(str(tmp_path), "state") == tmp_path


def test_stream_state_must_be_a_local_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has to be a path on this machine"):
        LoadStream(tmp_path, Path("hdfs://name/state"))


@pytest.mark.spark
def test_path_existence_is_checked_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    assert exists(spark, tmp_path)
    assert exists(spark, tmp_path.as_uri())
    assert not exists(spark, tmp_path / "missing")
    assert not exists(spark, f"{tmp_path.as_uri()}/missing")


@pytest.mark.slow
def test_package_avoids_apis_missing_in_spark_connect() -> None:
    unknown, uses = {"rdd", "sparkContext", "_jvm", "_sc", "_jdf", "_jsparkSession"}, {}
    for module in ROOT.rglob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Attribute)}
        uses[str(module.relative_to(ROOT))] = sorted(names & unknown)
    assert len(uses) > 500
    assert {module: names for module, names in uses.items() if names} == {}
