"""Ends of a stream at every point where one could leave something half done, and what the next one makes of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from stormwright.pipeline.stream import LoadStream
from tests.pipeline.kills import Victim, assert_exact, booked, finish, supply
from tests.pipeline.victim import POINTS, SETTINGS, set_trap

pytestmark = pytest.mark.spark


class Killed(BaseException):
    """What no code of ours catches."""


def test_nothing_is_lost_or_twice_wherever_a_batch_ends(spark: SparkSession, tmp_path: Path) -> None:
    """In this process: a batch is broken off at each point in turn, and another stream goes on."""
    landing, state = tmp_path / "landing", tmp_path / "state"
    landing.mkdir()
    world, supplied = supply(landing, seed=31, seconds=60, per_file=6, pause_s=0)
    with supplied:
        pass
    for point in POINTS:
        stream = LoadStream(landing, state, SETTINGS, spark)
        with pytest.MonkeyPatch.context() as patch:
            sprung = []

            def spring() -> None:
                sprung.append(point)
                raise Killed(point)

            set_trap(point, spring, patch.setattr)
            with pytest.raises(Killed):
                stream.run_once()
            assert sprung
    with LoadStream(landing, state, SETTINGS, spark) as stream:
        pass
    assert_exact(state, world, supplied)
