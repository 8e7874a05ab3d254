"""One Spark session for all tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.session import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = spark_session(tmp_path_factory.mktemp("spark"), StreamSettings(niceness=0))
    yield session
    session.stop()
