"""What ``stormwright serve`` says, and how."""

from __future__ import annotations

import json
import logging
import re

import pytest

from stormwright import __version__
from stormwright.base.file_lock import exclusive_lock
from stormwright.cli.serve import LOCK
from stormwright.cli.serve.event_log import as_json, as_line, beginning, stored_mode
from stormwright.formats import write_problem
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, State
from stormwright.testing.word_counts import two_word_counts


@pytest.fixture
def record():
    made = logging.LogRecord("stormwright.x", logging.WARNING, __file__, 1, "two\n  %s", ("lines",), None)
    made.created = 1_700_000_000.25
    return made


def test_text_log_message_is_one_line_with_time_and_level(record):
    assert as_line(record) == "2023-11-14T22:13:20.250Z WARNING two | lines"


def test_json_log_message_is_one_object_per_line(record):
    record.fields = {"mode": "auto"}
    line = as_json(record)
    assert "\n" not in line
    fields = {"at": "2023-11-14T22:13:20.250Z", "level": "warning", "from": "stormwright.x", "mode": "auto"}
    assert fields.items() <= json.loads(line).items()


def test_stored_mode_is_read_from_state_with_observe_as_default(tmp_path):
    assert stored_mode(tmp_path) == "observe"
    assert not (tmp_path / FILE).exists()
    state = State(tmp_path / FILE)
    Guard(state, PlanStore(state), Journal(state), "suggest")
    state.close()
    assert stored_mode(tmp_path) == "suggest"
    (tmp_path / FILE).write_text("damaged")
    assert stored_mode(tmp_path) == "observe"


def test_startup_message_contains_version_and_settings(tmp_path, monkeypatch):
    monkeypatch.delenv("STORM_CONF_DIR", raising=False)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "storm.yaml").write_text("nimbus.seeds: [n1, n2]\nnimbus.thrift.port: 6700\n")
    params = {
        "simulated": None,
        "storm_home": tmp_path,
        "state_dir": tmp_path,
        "mode": None,
        "scheduler_name": "online",
        "host": "h",
        "port": 1,
        "tls_cert": None,
    }
    assert beginning(params) == {
        "version": __version__,
        "mode": "observe",
        "scheduler": "online",
        "nimbus": "n1:6700 n2:6700",
        "state": str(tmp_path),
        "address": "http://h:1",
    }
    assert beginning(params | {"tls_cert": tmp_path})["address"] == "https://h:1"


def test_configuration_faults_precede_startup_message(run, tmp_path):
    options = ("--storm-home", tmp_path, "--state", tmp_path / "state")
    _, out, err = run("serve", *options, "--initial", "nobody")
    assert out == ""
    assert err.startswith("stormwright: serve: ")
    assert "nobody: unknown scheduler" in err
    write_problem(tmp_path / "words.json", two_word_counts())
    (tmp_path / "busy").mkdir()
    with exclusive_lock(tmp_path / "busy", "", LOCK):  # found out after the start was logged
        simulated = ("--simulated", tmp_path / "words.json", "--state", tmp_path / "busy")
        first = run("serve", *simulated, "--log-format", "json")[2].splitlines()[0]
        assert json.loads(first)["address"] == "http://127.0.0.1:7070"
        _, _, err = run("serve", *simulated)
    what = rf"\S+Z INFO    stormwright version {__version__}, mode observe, scheduler optimizer, nimbus .*, state .*"
    assert re.match(what, err)
