"""``stormwright pipeline backfill`` over what a service has stored."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from stormwright import cli
from stormwright.perflog.records import NOT_A_RECORD
from stormwright.pipeline.parsing.clean import LATE
from tests.pipeline.generator import deliver, dice, encoded, land, make_world, records
from tests.pipeline.oracle import expected_outcome

pytestmark = pytest.mark.spark

START_MS = 1_690_000_000_000


@pytest.mark.slow
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
        expected = expected_outcome(landed, late_s)
        assert {name: ledger[name] for name in expected.ledger} == expected.ledger
        assert ledger["reasons"] == Counter(reason for reason, *_ in expected.quarantine)
        used.append(ledger["used"])
        assert spark.read.parquet(str(into / "records")).count() == ledger["used"]
    assert used[0] + 20 < used[1] == len(delivery.used)


@pytest.mark.slow
@pytest.mark.parametrize(("rejected", "warns"), [(1, False), (2, True)])
def test_backfill_warns_if_more_than_5_percent_of_lines_are_rejected(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rejected: int,
    warns: bool,
) -> None:
    """1 of 20 lines is no more than that, and 2 are; with `--late` all are, as the file was copied a day later."""
    monkeypatch.setattr("stormwright.pipeline.spark.session.spark_session", lambda *_: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    good = list(map(encoded, records(make_world(7), START_MS, 10, dice(7))[: 20 - rejected]))
    path = land(tmp_path / "landing", [*good, *[b"no record"] * rejected])
    os.utime(path, (START_MS // 1000 + 86_400,) * 2)
    into = tmp_path / "into"
    command = ["pipeline", "backfill", str(tmp_path / "landing"), "--into", str(into), "--json"]

    def outcome(*more: str) -> tuple[dict[str, Any], str]:
        assert cli.run([*command, *more]) == 0
        printed = capsys.readouterr()
        return orjson.loads(printed.out), "".join(line for line in printed.err.splitlines() if "warning" in line)

    ledger, warning = outcome()
    assert (ledger["read"], ledger["used"], ledger["reasons"]) == (20, 20 - rejected, {NOT_A_RECORD: rejected})
    assert (ledger["warning"] is not None, warning != "") == (warns, warns)
    ledger, warning = outcome("--late", "30")
    assert ledger["used"] == 0
    assert ledger["reasons"] == {LATE: 20 - rejected, NOT_A_RECORD: rejected}
    assert next(iter(ledger["reasons"])) == LATE
    for part in ("20 of 20 lines", f"{20 - rejected} lines", LATE, str(into / "quarantine")):
        assert part in ledger["warning"]
    assert warning == f"warning: {ledger['warning']}"


def test_backfill_names_a_damaged_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    land(tmp_path / "landing", map(encoded, records(make_world(7), START_MS, 3, dice(7))))
    damaged = tmp_path / "landing" / "2.parquet"
    damaged.write_bytes(b"PAR1 is not all")
    assert cli.run(["pipeline", "backfill", str(tmp_path / "landing"), "--into", str(tmp_path / "into")]) == 2
    assert f"{damaged.as_uri()}: is damaged: move it to another directory" in capsys.readouterr().err


def test_backfill_of_nothing_is_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    (tmp_path / "landing").mkdir()
    command = ["pipeline", "backfill", str(tmp_path / "landing"), "--into", str(tmp_path / "into"), "--json"]
    assert cli.run(command) == 0
    printed = capsys.readouterr()
    assert "no lines were found" in orjson.loads(printed.out)["warning"]
    assert "warning: no lines were found" in printed.err
