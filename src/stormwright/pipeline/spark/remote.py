"""Sessions on a standalone cluster or a Spark Connect server, with fast failure if it is unreachable."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stormwright.errors import Fault, InputError, MissingDependencyError, StormwrightError
from stormwright.pipeline.spark.file_systems import file_system_error
from stormwright.pipeline.spark.target import EVERYWHERE, FIRST_ROW_SETTING, SPARK_ERRORS, SparkTarget, first_line

#: Time limit for a master to accept a connection, and for a Connect server to answer.
ANSWERS_S = 10.0

#: Default time limit for the first row (`FIRST_ROW_SETTING`): executors, and on some clusters machines, have to start.
FIRST_ROW_S = 300.0

#: Time between two messages about that wait.
_REPORT_EVERY_S = 15.0

log = logging.getLogger(__name__)


def connect_session(target: SparkTarget) -> SparkSession:
    """Return a session on the Connect server that `target` names; it needs no local Java.

    Raises
    ------
    InputError
        Its address is malformed, or a setting cannot be made in a session.
    MissingDependencyError
        The packages that Spark Connect needs are not installed.
    StormwrightError
        No server answers, or this process has another kind of session.
    """
    url = target.master or ""
    _require_server(url)
    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
    except PySparkException as error:
        raise StormwrightError(f"no session on {_address(url)}: {first_line(error)}") from error
    faults = []
    for key, value in {**EVERYWHERE, **target.conf}.items():
        try:
            spark.conf.set(key, value)
        except PySparkException as error:
            faults.append(Fault(f"{key} cannot be set over Spark Connect: {first_line(error)}", "--spark-conf"))
    if faults:
        spark.stop()
        raise InputError("where Spark runs", faults)
    require_row(spark, target)
    return spark


def require_master(target: SparkTarget) -> None:
    """Raise unless a master of the standalone cluster accepts connections: Spark takes a minute to give up."""
    failures = []
    for host, port in target.addresses:
        try:
            socket.create_connection((host, port), timeout=ANSWERS_S).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise StormwrightError(f"no Spark master answers at {target.master}: {'; '.join(failures)}")


def require_row(spark: SparkSession, target: SparkTarget) -> None:
    """Raise, and stop the session, unless Spark can process one row; it would wait for cores forever."""
    limit_s = float(target.conf.get(FIRST_ROW_SETTING, FIRST_ROW_S))
    pool = ThreadPoolExecutor(1, thread_name_prefix="stormwright-first-row")
    row = pool.submit(spark.range(1).count)
    begin_s = time.monotonic()
    try:
        while not row.done() and (left_s := begin_s + limit_s - time.monotonic()) > 0:
            if wait([row], min(left_s, _REPORT_EVERY_S)).not_done:
                waited_s = time.monotonic() - begin_s
                log.warning("%s: waiting for executors, for %.0f s by now", _address(target.master or ""), waited_s)
        row.result(0)
    except SPARK_ERRORS as error:
        spark.stop()
        raise StormwrightError(f"{_address(target.master or '')} runs nothing: {first_line(error)}") from error
    except TimeoutError as error:
        spark.stop()
        why = f"has it workers with free cores and memory? To wait longer: --spark-conf {FIRST_ROW_SETTING}=900"
        raise StormwrightError(f"{_address(target.master or '')} ran nothing within {limit_s:g} s: {why}") from error
    except KeyboardInterrupt:
        spark.stop()  # else the thread that waits for the row would keep this process alive
        raise
    finally:
        pool.shutdown(wait=False)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Convert Spark's errors inside the block into one sentence.

    Raises
    ------
    InputError, MissingDependencyError
        A location cannot be accessed, or the jars of its file system are missing.
    StormwrightError
        Spark raised another error.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        known = file_system_error(error) or _damaged_file(error)
        raise (known or StormwrightError(f"Spark failed: {first_line(error)}")) from error


def _damaged_file(error: Exception) -> InputError | None:
    """Return the error about a file that Spark cannot read; None for any other error."""
    found = re.search(r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (\S+?)\. ", str(error))
    if found is None:
        return None
    return InputError("files", [Fault("is damaged: move it to another directory, and repeat", found[1])])


def _require_server(url: str) -> None:
    """Raise unless a server answers: Spark's client would retry for minutes."""
    try:
        import grpc
        from pyspark.sql.connect.client import DefaultChannelBuilder
    except ImportError as error:
        wanted = "Spark Connect needs packages of its own: pip install 'stormwright[connect]'"
        raise MissingDependencyError(f"{wanted} ({first_line(error)})") from error
    try:
        channel = DefaultChannelBuilder(url).toChannel()
    except (PySparkException, ValueError) as error:
        raise InputError("where Spark runs", [Fault(first_line(error), "--master")]) from error
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWERS_S)
    except grpc.FutureTimeoutError as error:
        raise StormwrightError(f"no Spark Connect server answers at {_address(url)} within {ANSWERS_S:g} s") from error
    finally:
        channel.close()


def _address(url: str) -> str:
    """Return scheme and host of a URL, without other parts such as a token."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
