"""Hadoop's file systems: jars of object stores, which Spark lacks, and their errors as advice."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stormwright.errors import Fault, InputError, MissingDependencyError, StormwrightError
from stormwright.pipeline.spark.location import Location, address
from stormwright.pipeline.spark.target import SPARK_ERRORS, SparkTarget, first_line

#: Version of Hadoop in Spark, and of the AWS SDK that it is built with.
HADOOP, AWS_SDK = "3.5.0", "2.35.4"

#: The S3 client of Hadoop. It names the whole AWS SDK, one jar of hundreds of MB, and needs these parts of it (13 MB).
S3_PACKAGES = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    *(f"software.amazon.awssdk:{name}:{AWS_SDK}" for name in ("s3-transfer-manager", "apache-client", "sts")),
)

#: Dependencies of packages that Spark has itself, or that are not used. Not ``org.*``, as it holds for packages, too.
_EXCLUDES = (
    *("at.yawk.lz4:*", "com.*:*", "commons-*:*", "io.airlift:*", "io.netty:*", "jakarta.*:*", "javax.*:*"),
    *("org.antlr:*", "org.apache.hadoop:hadoop-client*", "org.apache.httpcomponents:*"),
    *("org.apache.logging.log4j:*", "org.apache.parquet:*", "org.apache.spark:spark-tags*"),
    *("org.locationtech.jts:*", "org.openapitools:*", "org.roaringbitmap:*", "org.scala-lang*:*", "org.slf4j:*"),
    *("org.wildfly.openssl:*", "org.xerial.snappy:*", "software.amazon.awssdk:bundle"),
)

#: Settings with which a user names jars, so that none are fetched.
_OWN_JARS = ("spark.jars", "spark.jars.packages")

#: In Spark's log, where packages could not be fetched.
_NO_JARS = ("FAILED DOWNLOADS", "UNRESOLVED DEPENDENCIES")

#: Seconds for an S3 server to accept a connection: Hadoop's client would retry for minutes.
_ANSWERS_S = 10.0

#: File systems that rename a directory at once; object stores copy one file after another.
_ATOMIC = frozenset({"file", "hdfs", "viewfs"})

#: Directory in ``org.apache.hadoop.fs`` with the classes of a file system → its scheme, and its package.
_PACKAGES = {"s3a": ("s3a", "hadoop-aws"), "azurebfs": ("abfs", "hadoop-azure"), "gs": ("gs", "hadoop-gcp")}

_UNKNOWN_SCHEME = re.compile(r"No FileSystem for scheme:? \"?([\w+.-]+)")
_NO_FILE_SYSTEM = re.compile(r"Class org\.apache\.hadoop\.fs\.(\w+)\.\w+ not found")
_NO_CLASS = re.compile(r"NoClassDefFoundError: (software/amazon/[\w/]+)")
_NO_BUCKET = re.compile(r"UnknownStoreException: `?(\w+://[^/'\s]+)")
_NO_CREDENTIALS = re.compile(r"AccessDeniedException: (\w+://[^:\s]+): .*NoAuthWithAWSException")
_DENIED = re.compile(r"AccessDeniedException: (\w+://[^:\s]+): ")


def fetching(packages: Sequence[str]) -> dict[str, str]:
    """Return the settings of Spark that fetch packages from a Maven repository, except jars that Spark has.

    Parameters
    ----------
    packages
        Maven coordinates, ``GROUP:ARTIFACT:VERSION``, with their dependencies.
    """
    return {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": ",".join(_EXCLUDES)}


def could_not_fetch(log: str) -> bool:
    """Return whether packages could not be fetched, by the log of a Spark that did not start."""
    return any(mark in log for mark in _NO_JARS)


def with_jars(
    target: SparkTarget,
    locations: Sequence[Location],
    packages: Sequence[str] = (),
    conf: Mapping[str, str] = MappingProxyType({}),
) -> SparkTarget:
    """Return the target with the jars of the file systems of locations, fetched from a Maven repository.

    On a cluster, file systems are those of its own configuration. Where the target names jars itself (``spark.jars``
    or ``spark.jars.packages``) none are fetched.

    Parameters
    ----------
    target
        Spark to run on; its own settings take precedence.
    locations
        Locations that the session will access.
    packages
        Further packages, as Maven coordinates, on any target.
    conf
        Further settings; those of the target take precedence.

    Raises
    ------
    StormwrightError
        Nothing answers at the S3 endpoint that the target names.
    """
    if target.local and any(_scheme(location) == "s3a" for location in locations):
        _require_endpoint(target)
        packages = (*packages, *S3_PACKAGES)
    fetched = fetching(packages) if packages and not target.conf.keys() & set(_OWN_JARS) else {}
    return replace(target, conf={**fetched, **conf, **target.conf})


def jars_error(target: SparkTarget, log: str) -> MissingDependencyError | None:
    """Return the error where Spark did not start because packages could not be fetched, by its log."""
    if not could_not_fetch(log):
        return None
    wanted = target.conf.get("spark.jars.packages", "a package")
    return MissingDependencyError(
        f"{wanted} could not be fetched from any Maven repository of Spark: pass --spark-conf "
        "spark.jars.ivySettings=FILE for a mirror, or copy the jars to a directory and pass --spark-conf "
        "'spark.jars=DIRECTORY/*'"
    )


def _require_endpoint(target: SparkTarget) -> None:
    """Raise unless the configured S3 endpoint accepts connections."""
    endpoint = target.conf.get("spark.hadoop.fs.s3a.endpoint", "")
    parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    if not parts.hostname or "spark.hadoop.fs.s3a.proxy.host" in target.conf:
        return
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        socket.create_connection((parts.hostname, port), timeout=_ANSWERS_S).close()
    except (OSError, ValueError) as error:
        what = (
            f"nothing answers ({getattr(error, 'strerror', None) or error}): start the server, or correct the setting"
        )
        raise InputError("S3", [Fault(what, f"spark.hadoop.fs.s3a.endpoint={endpoint}")]) from error


def _scheme(location: Location) -> str:
    return str(location).partition(":")[0]


def renames_at_once(uri: str) -> bool:
    """Return whether the rename of a directory is atomic on the file system of a URI."""
    return _scheme(uri) in _ATOMIC


def exists(spark: SparkSession, location: Location) -> bool:
    """Return whether Spark finds anything at a location.

    Raises
    ------
    InputError
        Spark cannot look there: it knows no such file system or bucket, or is not let in.
    MissingDependencyError
        The jars of the file system are missing.
    """
    try:
        # Spark looks when it needs the columns.
        return bool(spark.read.format("binaryFile").load(address(location)).columns)
    except SPARK_ERRORS as error:
        if isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND":
            return False
        if (known := file_system_error(error)) is not None:
            raise known from error
        raise InputError("location", [Fault(f"Spark cannot look there: {first_line(error)}", str(location))]) from error


def file_system_error(error: Exception) -> StormwrightError | None:
    """Return an error of a Hadoop file system as a sentence with advice; None for any other error."""
    text = str(error)
    if match := _UNKNOWN_SCHEME.search(text):
        return InputError(
            "location", [Fault(f"Spark has no such file system: {_class_hint(match[1])}", f"{match[1]}://")]
        )
    if match := _NO_FILE_SYSTEM.search(text):
        scheme, package = _PACKAGES.get(match[1], (match[1], "NAME"))
        return MissingDependencyError(
            f"the jars of {scheme}:// are missing: pass --spark-conf "
            f"spark.jars.packages=org.apache.hadoop:{package}:{HADOOP}, or on a cluster configure them there"
        )
    if match := _NO_CLASS.search(text):
        return MissingDependencyError(
            f"the jar with {match[1].replace('/', '.')} is missing: s3a:// needs {', '.join(S3_PACKAGES)} with their "
            "dependencies"
        )
    if match := _NO_BUCKET.search(text):
        return InputError("location", [Fault("no such bucket: create it, or correct the URI", match[1])])
    if match := _NO_CREDENTIALS.search(text):
        what = (
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or spark.hadoop.fs.s3a.access.key and "
            "spark.hadoop.fs.s3a.secret.key"
        )
        return InputError("location", [Fault(what, match[1])])
    if match := _DENIED.search(text):
        return InputError("location", [Fault("access is denied: check the credentials and their rights", match[1])])
    return None


def _class_hint(scheme: str) -> str:
    if scheme in ("s3", "s3n"):
        return "write s3a:// instead"
    return (
        "correct the URI, or pass --spark-conf spark.jars.packages=GROUP:NAME:VERSION and "
        f"--spark-conf spark.hadoop.fs.{scheme}.impl=CLASS"
    )
