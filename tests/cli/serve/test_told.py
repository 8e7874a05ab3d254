"""What ``stormwright serve`` says, and how."""

from __future__ import annotations

import json
import logging
import re

import pytest

from stormwright import __version__
from stormwright.cli.serve.event_log import as_json, as_line, beginning, stored_mode
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, State


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
    told = {"at": "2023-11-14T22:13:20.250Z", "level": "warning", "from": "stormwright.x", "mode": "auto"}
    assert told.items() <= json.loads(line).items()


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
    told = {
        "simulated": None,
        "storm_home": tmp_path,
        "state_dir": tmp_path,
        "mode": None,
        "scheduler_name": "online",
        "host": "h",
        "port": 1,
        "tls_cert": None,
    }
    assert beginning(told) == {
        "version": __version__,
        "mode": "observe",
        "scheduler": "online",
        "nimbus": "n1:6700 n2:6700",
        "state": str(tmp_path),
        "address": "http://h:1",
    }
    assert beginning(told | {"tls_cert": tmp_path})["address"] == "https://h:1"


def test_startup_message_precedes_configuration_faults(run, tmp_path):
    told = ("--storm-home", tmp_path, "--state", tmp_path / "state", "--initial", "nobody")
    _, out, err = run("serve", *told, "--log-format", "json")
    first, *rest = err.splitlines()
    assert out == ""
    assert json.loads(first)["address"] == "http://127.0.0.1:7070"
    assert "nobody: unknown scheduler" in "\n".join(rest)
    _, _, err = run("serve", *told)
    what = rf"\S+Z INFO    stormwright version {__version__}, mode observe, scheduler optimizer, nimbus .*, state .*"
    assert re.match(what, err)
