"""Tests that share a Spark session or a Storm cluster run in one process of several."""

from __future__ import annotations

import os

import pytest


@pytest.mark.spark
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there is one process")
def test_tests_of_one_spark_session_run_in_the_spark_group(request: pytest.FixtureRequest) -> None:
    assert request.node.nodeid.endswith("@spark")
