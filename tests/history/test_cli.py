"""The verbs `history` and `replay`, on what a service has staged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from stormwright.cli import BAD_INPUT, run
from stormwright.cli.history import retain as retain_command
from stormwright.errors import InputError
from stormwright.formats import read_problem
from stormwright.history.tables import session as session_module
from stormwright.history.tables.definitions import EVALUATIONS, FACTS
from stormwright.history.tables.ingest import retain
from stormwright.history.tables.staging import Staging
from tests.history.recorded import START_MS, Clockwork, record_looks
from tests.history.samples import facts

LOOKS = 3


@pytest.fixture
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs use the session of the tests, and leave it as it is."""
    monkeypatch.setattr(session_module, "batch_session", lambda *_: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    found, output = run(arguments), capsys.readouterr()
    assert found == code, output.err
    return output.out if code == 0 else output.err


@pytest.mark.parametrize("moment", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "9999-12-31"])
@pytest.mark.parametrize("verb", [["report"], ["at"], ["decisions"], ["overloads"]])
def test_moments_out_of_the_calendar_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str], moment: str
) -> None:
    output = printed(capsys, "history", *verb, moment, "--state", str(tmp_path), code=BAD_INPUT)
    assert f"{moment}: is not a day or time" in output


@pytest.mark.parametrize("days", [0, 36_526, 3_652_059, 99_999_999_999])
def test_retention_beyond_the_maximum_day_count_is_rejected(days: int) -> None:
    with pytest.raises(InputError, match=r"from 1 to 36,525 are possible"):
        retain(MagicMock(), {"facts": days})


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("shared_session")
def test_history_commands_run_from_ingest_to_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hadoop and a shell have their own ideas of such a name.
    state_dir = tmp_path / "the state, 100 %"
    staging = Staging(state_dir / "history")
    staging.write(FACTS, "facts", facts(2, 2, seed=1))
    with monkeypatch.context() as patch:
        looks = record_looks(state_dir / "history", Clockwork(patch), LOOKS)
    evaluation = {"decision_ms": looks[1][0], "topology": "measured-1-0", "quantity": "throughput", "predicted": 1.0}
    staging.write(
        EVALUATIONS,
        "judged",
        [{"at_ms": START_MS + 600_000, "measured": 1.02, "verdict": "as predicted", **evaluation}],
    )
    state = ["--state", str(state_dir)]

    def as_json(*arguments: str) -> Any:
        return json.loads(printed(capsys, *arguments, *state, "--json"))

    assert "nothing is recorded there" in printed(capsys, "history", "report", *state, code=BAD_INPUT)
    assert as_json("history", "ingest")["rows"]["facts"] == 72
    assert [path.name for path in tmp_path.iterdir()] == [state_dir.name]
    assert {path.name for path in (state_dir / "history" / "tables").iterdir()} >= {"facts", "decisions"}
    assert printed(capsys, "history", "ingest", *state).startswith("nothing was staged")
    summaries = {table["table"]: table["rows"] for table in as_json("history", "tables")["tables"]}
    assert summaries == {
        "facts": 72, "snapshots": 2, "profiles": LOOKS, "decisions": LOOKS, "moves": 0, "evaluations": 1,
        "experiments": 0,
    }  # fmt: skip
    reports = as_json("history", "report", "2023-07-22", "--by-day")["topologies"]
    assert [(found["topology"], found["day"]) for found in reports] == [
        ("clicks", "2023-07-22"),
        ("words", "2023-07-22"),
    ]
    assert "clicks" in printed(capsys, "history", "report", "..2023-07-23", *state)
    decisions = as_json("history", "decisions")["decisions"]
    assert [found["at_ms"] for found in decisions] == [at_ms for at_ms, _, _ in looks]
    assert [len(found["evaluations"]) for found in decisions] == [0, 1, 0]
    assert "throughput × 1.02 (1 predicted): as predicted" in printed(capsys, "history", "decisions", *state)
    count = as_json("history", "sql", "SELECT kind, count(*) AS rows FROM facts GROUP BY kind ORDER BY kind")["rows"]
    assert count[0] == {"kind": "executor", "rows": 16}
    assert printed(capsys, "history", "sql", "SELECT max(at_ms) FROM decisions", *state).split()[-1] == str(
        looks[-1][0]
    )

    for statement, why in (
        ("SELECT nothing FROM facts", "UNRESOLVED_COLUMN"),
        ("SELECT 1 / sum(0) FROM facts", "Spark failed: [DIVIDE_BY_ZERO]"),
    ):
        assert why in printed(capsys, "history", "sql", statement, *state, code=BAD_INPUT)
    odd = "SELECT map(array(1), 2) AS a, cast(1e20 AS decimal(38, 0)) AS b, x'ff' AS c, array(NULL, 1.5) AS d"
    assert {"{[1]", "->", "2}", "100000000000000000000"} <= {*printed(capsys, "history", "sql", odd, *state).split()}
    assert as_json("history", "sql", "SELECT cast(1e20 AS decimal(38, 0)) AS b, 1 AS b")["rows"] == [{"b": 1}]
    assert '"b":100000000000000000000,' in printed(
        capsys, "history", "sql", "SELECT cast(1e20 AS decimal(38, 0)) AS b, 1 AS c", *state, "--json"
    )
    overloads = as_json("history", "overloads", "2023-07-22", "--after", "0")["overloads"]
    assert overloads == []  # of those days no capacity is known

    output = tmp_path / "then.json"
    printed(capsys, "history", "at", "2026-11-21T00:30", *state, "--output", str(output))
    assert read_problem(output).current == looks[-1][1].current
    replayed = as_json("replay", "2026-11-20..2026-11-21", "--scheduler", "online")
    assert [each["cost"] for each in replayed["decisions"]] == pytest.approx(
        [each["cost_decided"] for each in replayed["decisions"]]
    )
    assert "mean of 3 decisions" in printed(capsys, "replay", "2026-11-20..", "--scheduler", "online", *state)

    assert "facts of 2023-07-22: compacted" in printed(capsys, "history", "compact", *state)
    assert "deleted" in printed(capsys, "history", "retain", "facts=1", *state)
    assert as_json("history", "report")["topologies"] == []

    (damaged, *_) = (state_dir / "history" / "tables" / "decisions").rglob("*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:200])
    error = printed(capsys, "history", "decisions", *state, code=BAD_INPUT)
    assert damaged.name in error
    assert "Exception" not in error.partition("Encountered")[2]


@pytest.mark.parametrize(
    ("keep", "faulty"),
    [
        (["99999999999"], ["99999999999"]),
        (["9" * 5000], ["9" * 5000]),
        (["facts=0", "30", "moves=36526"], ["facts=0", "moves=36526"]),
        (["facts=٣", "٣"], ["facts=٣", "٣"]),
        (["fact=3", "=3"], ["fact=3", "=3"]),
    ],
)
def test_invalid_retention_is_rejected_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: list[str], faulty: list[str]
) -> None:
    started = MagicMock()
    monkeypatch.setattr(session_module, "batch_session", started)
    arguments = [*keep, "--state", str(tmp_path)]
    with pytest.raises(InputError) as caught:
        retain_command.main(arguments, standalone_mode=False)
    assert [fault.path for fault in caught.value.faults] == faulty
    assert run(["history", "retain", *arguments]) == BAD_INPUT
    started.assert_not_called()


@pytest.mark.parametrize("arguments", [["--limit", "٣"], ["overloads", "--after", "٣", "--state", "."], ["at", "٢٠٢٦"]])
def test_options_of_history_take_no_other_digits_than_0_to_9(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert arguments[-1 if arguments[0] != "overloads" else 2] in printed(capsys, "history", *arguments, code=BAD_INPUT)


def test_ingest_without_staged_rows_is_reported_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stormwright.cli.history.opened", None)
    output = printed(capsys, "history", "ingest", "--state", str(tmp_path))
    assert output == "nothing was staged; a simulated service (serve --simulated) keeps no tables\n"
    assert json.loads(printed(capsys, "history", "ingest", "--state", str(tmp_path), "--json")) == {"rows": {}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["history", "tables"], "--state or --history: is required"),
        (["history", "tables", "--state", "/no/such/place"], "no such directory"),
        (["history", "report", "2026-13-01", "--history", "file:///somewhere"], "not a day or time"),
        (["history", "report", "2026-11-02..2026-11-01", "--history", "file:///somewhere"], "ends before it begins"),
        (["history", "report", "9999-12-31", "--history", "file:///somewhere"], "not a day or time"),
        (["history", "overloads", "0001-01-01..", "--history", "file:///somewhere"], "not a day or time"),
        (["history", "at", "noon", "--history", "file:///somewhere"], "not a day or time"),
        (["history", "retain", "facts=", "ten", "--history", "file:///somewhere"], "2 faults"),
        (["history", "ingest", "--history", "file:///somewhere"], "--state: is required"),
        (["history", "tables", "--history", "file:///somewhere", "--history-format", "orc"], "orc: unknown"),
        (["replay", "yesterday", "--history", "file:///somewhere"], "not a day or time"),
    ],
)
def test_invalid_arguments_are_reported_before_spark_starts(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in printed(capsys, *arguments, code=BAD_INPUT)
