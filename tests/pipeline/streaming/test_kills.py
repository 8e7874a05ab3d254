"""Ends of a stream at every point where one could leave something half done, and what the next one makes of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stormwright.pipeline.plan import BatchPlan
from stormwright.pipeline.streaming.sink import ProfileSink
from tests.pipeline.kills import Victim, assert_exact, booked, finish, supply
from tests.pipeline.victim import POINTS, SETTINGS, set_trap

pytestmark = pytest.mark.spark


class KilledError(BaseException):
    """What no code of ours catches."""


def test_nothing_is_lost_or_twice_wherever_a_batch_ends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process: after each end a new sink knows only what is on disk, and gets what still waits."""
    landing, state = tmp_path / "landing", tmp_path / "state"
    landing.mkdir()
    world, supplied = supply(landing, seed=31, seconds=24, per_file=6, pause_s=0)
    with supplied:
        pass

    def started() -> ProfileSink:
        return ProfileSink(landing, state / "raw", state / SETTINGS.state_name, state / "latest.json", SETTINGS)

    plan = BatchPlan(spark, tmp_path / "plan", SETTINGS)

    def take_oldest(sink: ProfileSink) -> None:
        sink.take(plan(sink.waiting(5), sink.state))

    def end(point: str) -> None:
        raise KilledError(point)

    take_oldest(started())
    for point in POINTS:
        sink = started()
        with monkeypatch.context() as patch:
            set_trap(point, partial(end, point), patch.setattr)
            with pytest.raises(KilledError, match=point):
                take_oldest(sink)
    sink = started()
    while sink.waiting(1):
        take_oldest(sink)
    outcome = assert_exact(state, world, supplied)
    assert min(outcome.ledger.values()) > 5


@pytest.mark.slow
def test_killed_stream_process_resumes_without_loss(tmp_path: Path) -> None:
    """At the moment when a state was written that Spark knew nothing of, and at some moment."""
    landing, state = tmp_path / "landing", tmp_path / "state"
    landing.mkdir()
    world, supplied = supply(landing, seed=32, seconds=60, per_file=4, pause_s=0.05)
    with supplied:
        with Victim(landing, state, "after the state is written") as victim:
            victim.wait(lambda: False)
        first = booked(state)["batch"]
        with Victim(landing, state) as victim:
            assert victim.next_commit_s(first) is not None
            victim.kill()
        supplied.all_at_once()
    with Victim(landing, state) as victim:
        finish(victim, supplied)
    assert_exact(state, world, supplied)
