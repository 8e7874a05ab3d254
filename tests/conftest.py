"""Settings of all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from stormwright.cli import progress
from tests.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Two busy cores make any deadline of a single example a coin toss; in CI the examples are the same every time.
# The contract suite is inherited: its tests run for several schedulers, and an example of one harms no other.
settings.register_profile(
    "stormwright",
    deadline=None,
    max_examples=examples(),
    derandomize=bool(os.environ.get("CI")) and "EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors],
)
settings.load_profile("stormwright")


def pytest_configure() -> None:
    """Let Ctrl-C be heard, by what tests start as well: a shell starts what it runs in the background without it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks which tests belong together
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, those that share a cluster or a session run in one: it is started once."""
    for item in items:
        shared = next((mark for mark in ("storm", "spark", "zookeeper") if item.get_closest_marker(mark)), None)
        if shared:
            item.add_marker(pytest.mark.xdist_group(shared))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Of more than two processes, those that do not begin with the cluster give way to it."""
    if not _begun and int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)) > 2 and not item.get_closest_marker("storm"):
        _give_way()
    _begun.add(True)


#: Whether this process has begun a test.
_begun: set[bool] = set()

#: Of a process that gives way: a little less than a local cluster, which gives way to whoever watches it, and not so
#: much less than what else the machine runs that tests would wait for minutes.
_NICENESS = 7


def _give_way() -> None:
    """Linux shares CPU between sessions before it looks at the niceness of their processes."""
    os.setsid()
    with suppress(OSError):  # a kernel without autogroups
        Path("/proc/self/autogroup").write_text(str(_NICENESS), encoding="ascii")


@pytest.fixture(autouse=True, scope="session")
def _silent_progress() -> Iterator[None]:
    """What a verb prints does not depend on how busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "REPORTED_AFTER_S", 3600.0)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests that need it."""
    # Others are not to wait for the import.
    from stormwright.pipeline.settings import StreamSettings
    from stormwright.pipeline.spark.session import spark_session
    from tests.pipeline.kafka_broker import CONNECTOR, has_jars

    jars = {"spark.jars": ",".join(map(str, CONNECTOR.glob("*.jar")))} if has_jars() else {}
    session = spark_session(tmp_path_factory.mktemp("spark"), StreamSettings(niceness=0), jars)
    yield session
    session.stop()
