"""Jars of object stores, and errors of file systems: settings and texts alone, without Spark."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pyspark
import pytest

from stormwright.errors import InputError, MissingDependencyError
from stormwright.pipeline.spark.file_systems import (
    HADOOP,
    S3_PACKAGES,
    file_system_error,
    jars_error,
    renames_at_once,
    with_jars,
)
from stormwright.pipeline.spark.target import SparkTarget

BUCKET = "s3a://bucket/history"
PACKAGES, EXCLUDES = "spark.jars.packages", "spark.jars.excludes"


def test_s3_client_has_the_version_of_hadoop_in_spark() -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert jar.name == f"hadoop-client-api-{HADOOP}.jar"


def test_jars_are_fetched_for_object_stores_only() -> None:
    for locations in ([], ["/data"], [Path("/data"), "hdfs://name/x"]):
        assert with_jars(SparkTarget(), locations).conf == {}
    conf = with_jars(SparkTarget("local[2]"), ["/data", BUCKET]).conf
    assert conf[PACKAGES] == ",".join(S3_PACKAGES)
    assert "software.amazon.awssdk:bundle" in conf[EXCLUDES].split(",")


def test_no_exclusion_holds_for_a_fetched_package() -> None:
    delta = ("io.delta:delta-spark_4.2_2.13:4.4.0",)
    conf = with_jars(SparkTarget(), [BUCKET], delta).conf
    fetched = [package.split(":")[:2] for package in conf[PACKAGES].split(",")]
    assert len(fetched) == len(S3_PACKAGES) + 1
    for exclusion in conf[EXCLUDES].split(","):
        group, name = (re.compile(re.escape(part).replace(r"\*", ".*")) for part in exclusion.split(":"))
        assert not [package for package in fetched if group.fullmatch(package[0]) and name.fullmatch(package[1])]


def test_jars_that_the_user_names_replace_fetched_ones() -> None:
    for own in ({"spark.jars": "/jars/*"}, {PACKAGES: "a:b:1"}):
        found = with_jars(SparkTarget(conf=own), [BUCKET], ("c:d:1",), {"spark.sql.extensions": "x"})
        assert found.conf == {**own, "spark.sql.extensions": "x"}


def test_a_cluster_has_file_systems_of_its_own() -> None:
    for master in ("spark://host:7077", "sc://host:15002"):
        assert with_jars(SparkTarget(master), [BUCKET]).conf == {}


def test_an_s3_server_that_does_not_answer_is_reported_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        listening = {"spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}"}
        assert PACKAGES in with_jars(SparkTarget(conf=listening), [BUCKET]).conf
    with pytest.raises(InputError, match="nothing answers") as caught:
        with_jars(SparkTarget(conf=listening), [BUCKET])
    assert str(port) in caught.value.faults[0].path
    proxied = listening | {"spark.hadoop.fs.s3a.proxy.host": "proxy"}
    assert PACKAGES in with_jars(SparkTarget(conf=proxied), [BUCKET]).conf
    assert with_jars(SparkTarget(conf=listening), ["/data"]).conf == listening


def test_jars_that_cannot_be_fetched_are_named() -> None:
    target = SparkTarget(conf={PACKAGES: "a:b:1"})
    assert jars_error(target, "OutOfMemoryError") is None
    error = jars_error(target, ":: UNRESOLVED DEPENDENCIES ::")
    assert isinstance(error, MissingDependencyError)
    assert "a:b:1" in str(error)


def test_only_file_systems_with_atomic_renames_count_as_such() -> None:
    assert [renames_at_once(uri) for uri in ("file:///x", "hdfs://name/x")] == [True, True]
    assert [renames_at_once(uri) for uri in (BUCKET, "gs://bucket/x", "abfss://x@y/z")] == [False] * 3


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        (
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "foo"',
            InputError,
            "spark.hadoop.fs.foo.impl",
        ),
        ('No FileSystem for scheme "s3"', InputError, "write s3a://"),
        (
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            MissingDependencyError,
            f"hadoop-aws:{HADOOP}",
        ),
        ("Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem not found", MissingDependencyError, "hadoop-gcp"),
        ("Class org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem not found", MissingDependencyError, "hadoop-azure"),
        (
            "java.lang.NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException",
            MissingDependencyError,
            "software.amazon.awssdk.core.exception.SdkException",
        ),
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://bucket/history/facts': getFileStatus on …",
            InputError,
            "s3a://bucket: no such bucket",
        ),
        (
            "AccessDeniedException: s3a://bucket/x: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS …",
            InputError,
            "s3a://bucket/x: no credentials",
        ),
        (
            "java.nio.file.AccessDeniedException: s3a://bucket/x: getFileStatus on s3a://bucket/x: software.amazon.…",
            InputError,
            "s3a://bucket/x: access is denied",
        ),
    ],
)
def test_errors_of_file_systems_state_what_to_do(text: str, kind: type[Exception], wanted: str) -> None:
    """Texts as Hadoop 3.5 writes them, with a stack trace after them."""
    error = file_system_error(RuntimeError(f"An error occurred while calling o1.parquet.\n: {text}\n\tat org.apache"))
    assert type(error) is kind
    assert wanted in str(error)


def test_other_errors_are_not_of_file_systems() -> None:
    assert file_system_error(RuntimeError("java.nio.file.AccessDeniedException: /srv/x")) is None
