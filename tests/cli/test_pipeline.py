"""``stormwright pipeline``: what is refused before Spark starts, and what lies in quarantine."""

from __future__ import annotations

import orjson
import pytest


def test_backfill_rejects_invalid_time_bounds(run, tmp_path):
    code, _, err = run("pipeline", "backfill", tmp_path, "--into", tmp_path / "x", "--from", "noon", "--to", "1e3")
    assert code == 2
    assert "2 faults" in err
    assert "--from: 'noon' is neither an ISO time" in err
    code, _, err = run("pipeline", "backfill", tmp_path, "--into", tmp_path / "x", "--from", "2026-01-02", "--to", 5)
    assert (code, "--to: is not after --from" in err) == (2, True)
    code, _, err = run("pipeline", "backfill", tmp_path, "--into", tmp_path / "x", "--to", "9" * 30)
    assert (code, "nor a number of ms" in err) == (2, True)
    assert not (tmp_path / "x").exists()


def test_backfill_rejects_invalid_settings_before_writing(run, tmp_path):
    for option, value, expected in (
        ("--slide", 7, "no multiple"),
        ("--late", 0, "not in the range"),
        ("--master", "x", "x"),
    ):
        code, _, err = run("pipeline", "backfill", tmp_path, "--into", tmp_path / "x", option, value)
        assert (code, expected in err) == (2, True)
    assert not (tmp_path / "x").exists()


def test_backfill_rejects_missing_directories_before_writing(run, tmp_path):
    missing = tmp_path / "a", tmp_path / "b"
    code, _, err = run("pipeline", "backfill", missing[0], tmp_path, missing[1], "--into", tmp_path / "x")
    assert code == 2
    assert [f"{path}: no such directory" in err for path in (*missing, tmp_path)] == [True, True, False]
    assert not (tmp_path / "x").exists()


def test_tables_go_into_a_directory(run, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run("pipeline", "backfill", tmp_path, "--into", tmp_path / "file")
    assert (code, "is a file" in err) == (2, True)


def test_backfill_refuses_to_replace_foreign_tables_or_landed_files(run, tmp_path):
    """Nor do tables go where landed files are read."""
    landing, into = tmp_path / "landing", tmp_path / "into"
    landing.mkdir()
    (into / "records").mkdir(parents=True)
    (into / "panes" / "_temporary" / "0").mkdir(parents=True)
    for name in ("part-0.snappy.parquet", "_SUCCESS", ".part-0.snappy.parquet.crc"):
        (into / "records" / name).touch()
    for own in ("records/precious.txt", "notes.txt", ".git/config", "quarantine/part-0/x"):
        path = into / own
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        code, _, err = run("pipeline", "backfill", landing, "--into", into)
        assert (code, "contains other files than a backfill" in err) == (2, True), own
        assert path.read_text() == "mine"
        path.unlink()
        for parent in path.parents[: len(path.relative_to(into).parts) - 1]:
            if not any(parent.iterdir()):
                parent.rmdir()
    (tmp_path / "link").symlink_to(landing)
    for read in (landing, landing / "below", tmp_path / "link"):
        code, _, err = run("pipeline", "backfill", landing, "--into", read)
        assert (code, "is the directory of landed files" in err) == (2, True)
    code, _, err = run("pipeline", "backfill", landing, "--into", into, "--master", "spark://127.0.0.1:1")
    assert (code, "no Spark master answers" in err) == (2, True), "an earlier backfill's tables are"


def row(reason, landed_ms, number, line="x"):
    return orjson.dumps(
        {
            "reason": reason,
            "file": "f.jsonl",
            "line_number": number,
            "landed_ms": landed_ms,
            "line": line,
            "line_base64": None,
        }
    )


def test_quarantine_is_summarized_by_reason_with_newest_lines(run, tmp_path):
    """Of a service with two versions of state, one of whose files was set aside whole."""
    for version, rows in {
        "v2": [row("late", 1000, 1), row("seq", 3000, 2), row("late", 2000, 3)],
        "v3": [row("late", 4000, 7, "newest"), row("the whole file", 3500, None, None)],
    }.items():
        directory = tmp_path / "stream" / version / "quarantine"
        directory.mkdir(parents=True)
        (directory / "batch-1.jsonl").write_bytes(b"\n".join(rows))
    code, out, _ = run("pipeline", "quarantine", tmp_path, "--json", "--lines", 2)
    assert code == 0
    assert orjson.loads(out) == {
        "reasons": {
            "late": {"lines": 3, "first_ms": 1000, "last_ms": 4000},
            "seq": {"lines": 1, "first_ms": 3000, "last_ms": 3000},
            "the whole file": {"lines": 1, "first_ms": 3500, "last_ms": 3500},
        },
        "newest": [orjson.loads(row("the whole file", 3500, None, None)), orjson.loads(row("late", 4000, 7, "newest"))],
    }
    code, out, _ = run("pipeline", "quarantine", tmp_path)
    assert code == 0
    assert "1970-01-01 00:00:04" in out
    assert "newest" in out
    # A line may be anything.
    (directory / "batch-2.jsonl").write_bytes(row("[/reason]", 5000, 1, '{"a": [/b], [bold]c'))
    code, out, _ = run("pipeline", "quarantine", tmp_path)
    assert code == 0
    assert "[/reason]" in out
    assert '{"a": [/b], [bold]c' in out


def test_an_empty_quarantine_is_no_error_and_a_missing_directory_is(run, tmp_path):
    for name in ("landing", "quarantine"):
        (tmp_path / name / name).mkdir(parents=True)
        assert run("pipeline", "quarantine", tmp_path / name, "--json")[:2] == (0, '{"reasons":{},"newest":[]}\n')
        assert run("pipeline", "quarantine", tmp_path / name)[:2] == (0, "nothing is in quarantine\n")
    code, _, err = run("pipeline", "quarantine", tmp_path / "none")
    assert (code, "no such directory" in err) == (2, True)


def test_directory_without_quarantine_is_an_error(run, tmp_path):
    code, _, err = run("pipeline", "quarantine", tmp_path)
    assert (code, "neither the state directory of a service nor the output of a backfill" in err) == (2, True)
    (tmp_path / "file").touch()
    for verb in (["quarantine"], ["backfill", "--into", tmp_path / "x"]):
        code, _, err = run("pipeline", *verb, tmp_path / "file")
        assert (code, "file: is a file; a directory is required" in err) == (2, True)


def test_line_that_is_no_text_is_shown_as_base64(run, tmp_path):
    (tmp_path / "quarantine").mkdir()
    rejected = orjson.loads(row("no record", 1000, 1, None)) | {"line_base64": "//4="}
    (tmp_path / "quarantine" / "batch-0.jsonl").write_bytes(orjson.dumps(rejected))
    assert "base64: //4=" in run("pipeline", "quarantine", tmp_path)[1]


def test_quarantine_skips_files_being_written_and_reports_damaged_ones(run, tmp_path):
    directory = tmp_path / "quarantine"
    directory.mkdir()
    (directory / "part-0.json").write_bytes(row("late", 1000, 1))
    (directory / ".part-0.json.crc").write_bytes(b"crc\x00\x00")
    (directory / ".batch-1.jsonl").write_bytes(b'{"reas')
    code, out, _ = run("pipeline", "quarantine", tmp_path, "--json")
    assert (code, list(orjson.loads(out)["reasons"])) == (0, ["late"])
    for content in (b'{"reas', b"[]", b'{"reason": "late"}', b'"text"'):
        (directory / "batch-2.jsonl").write_bytes(content)
        code, _, err = run("pipeline", "quarantine", tmp_path)
        assert (code, "batch-2.jsonl: is not a quarantine table" in err) == (2, True)


def test_quarantine_reports_rows_with_invalid_columns(run, tmp_path):
    directory = tmp_path / "quarantine"
    directory.mkdir()
    right = orjson.loads(row("late", 1000, 1))
    for column, values in {
        "landed_ms": (10**17, -1, 1.5, True, None, "1"),
        "file": (None, 5, []),
        "line_number": ("1", [1], 1.5),
        "line": (5, {"a": 1}),
        "reason": (None, 5, {}),
    }.items():
        for value in values:
            rows = [row("late", 1000, 1), orjson.dumps(right | {column: value})]
            (directory / "batch-1.jsonl").write_bytes(b"\n".join(rows))
            code, _, err = run("pipeline", "quarantine", tmp_path)
            assert (code, f"{column} of row 2 is missing or wrong" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass either a directory of landed files or --kafka with --kafka-topic"),
        (["none"], "none: no such directory"),
        ([".", "--kafka", "127.0.0.1:1", "--kafka-topic", "records"], "pass either a directory"),
        (["--kafka", "127.0.0.1:1"], "--kafka: needs a topic"),
        ([".", "--kafka-topic", "records"], "--kafka-topic: has no effect without --kafka"),
        (["--kafka", "127.0.0.1:1", "--kafka-topic", "records"], "no Kafka broker answers (127.0.0.1:1"),
    ],
)
def test_stream_requires_one_source_that_is_there(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("pipeline", "stream", *arguments, "--into", tmp_path / "into")
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "into").exists()
