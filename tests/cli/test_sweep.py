"""``stormwright sweep``: what ends it before Spark starts. (Whole sweeps: tests/spark.)"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stormwright.pipeline.spark import remote, session

SPEC = {"schema": "stormwright-sweep/1", "problems": ["ready:top-storm-word-count-1"], "schedulers": {"even": None}}


@pytest.fixture
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "batch_session", fail)


def spec_file(directory: Path, **changes: object) -> Path:
    path = directory / "sweep.json"
    path.write_text(json.dumps({**SPEC, **changes}))
    return path


@pytest.mark.usefixtures("_no_spark")
def test_bad_files_and_options_end_with_2(run, tmp_path):
    good = spec_file(tmp_path)
    for arguments, expected in (
        ([tmp_path / "missing.yaml"], "cannot be read"),
        ([good, "--master", "lokal"], "--master: should be local[N]"),
        ([good, "--spark-conf", "memory"], "--spark-conf: should be KEY=VALUE"),
        ([good, "--output", tmp_path], "is a directory"),
        ([good, "--csv", good], "would be overwritten"),
    ):
        code, out, err = run("sweep", *arguments)
        assert (code, out) == (2, "")
        assert expected in err


@pytest.mark.usefixtures("_no_spark")
def test_sweep_reports_all_faults_of_specification(run, tmp_path):
    spec = spec_file(tmp_path, schedulers={"evn": None, "online": {"alpha": 7}}, problems=["nothing-*.json"])
    code, _, err = run("sweep", spec)
    assert code == 2
    assert "3 faults" in err
    for place in ("$.problems[0]", "$.schedulers.evn", "$.schedulers.online.alpha"):
        assert place in err


def test_spark_master_is_read_from_environment(run, tmp_path, monkeypatch):
    monkeypatch.setenv("STORMWRIGHT_SPARK_MASTER", "nowhere")
    code, _, err = run("sweep", spec_file(tmp_path))
    assert code == 2
    assert "'nowhere'" in err


@pytest.mark.long
def test_unreachable_spark_master_is_one_message(run, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "ANSWERS_S", 0.5)
    for master in ("spark://127.0.0.1:9", "sc://127.0.0.1:9"):
        code, out, err = run("sweep", spec_file(tmp_path), "--master", master, "--table", tmp_path / "cells")
        assert (code, out) == (2, "")
        assert "answers at " + master in err
        assert len([line for line in err.splitlines() if line.startswith("stormwright:")]) == 1


def test_interrupted_sweep_reports_stored_cells(run, tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "batch_session", interrupted)
    code, out, err = run("sweep", spec_file(tmp_path), "--table", tmp_path / "cells")
    assert (code, out) == (130, "")
    assert f"stopped; decided cells are stored in {tmp_path}/cells; the same command continues from there" in err
