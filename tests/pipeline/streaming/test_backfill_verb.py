"""``stormwright pipeline backfill`` over what a service has kept."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from stormwright import cli
from tests.pipeline.generator import deliver, dice, land, make_world, records
from tests.pipeline.oracle import expected_outcome

pytestmark = pytest.mark.spark

START_MS = 1_690_000_000_000


def test_late_records_of_a_service_become_history(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some files wait in the landing directory, some have been processed; one was delivered an hour late.

    Once of the state directory, and once of what is in it, by URIs.
    """
    monkeypatch.setattr("stormwright.pipeline.spark.session.spark_session", lambda *_: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    rng = dice(41)
    delivery = deliver(records(make_world(41), START_MS, 20, rng), rng, spoil=0.1)
    directories = tmp_path / "landing", tmp_path / "stream" / "raw"
    directories[1].parent.mkdir()
    landed = {}
    for number, lines in enumerate(delivery.in_files(40)):
        landed_ms = lines[-1].arrived_ms + (3_600_000 if number == 2 else 0)
        landed[land(directories[number % 2], (line.body for line in lines), landed_ms).name] = (landed_ms, lines)
    used = []
    for late_s, places, scheme in ((30, [tmp_path], ""), (7200, directories, "file://")):
        into = tmp_path / f"late-{late_s}"
        where = [*(f"{scheme}{place}" for place in places), "--into", f"{scheme}{into}"]
        assert cli.run(["pipeline", "backfill", *where, "--late", str(late_s), "--json"]) == 0
        ledger = orjson.loads(capsys.readouterr().out)
        assert ledger == expected_outcome(landed, late_s).ledger
        used.append(ledger["used"])
        assert spark.read.parquet(str(into / "records")).count() == ledger["used"]
    assert used[0] + 20 < used[1] == len(delivery.used)
