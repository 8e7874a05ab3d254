"""Reading the file again while a service runs."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading

import pytest

from stormwright.cli.serve import command
from stormwright.cli.serve.reload import ConfigReloader


class Quiet:
    """A service that records its configuration."""

    def __init__(self):
        self.changes = []
        self.heard = threading.Event()
        self.renewed = 0

    def change(self, settings, modes, notify):
        self.changes.append((settings, modes))
        self.notify = notify
        self.heard.set()

    def renew(self):
        self.renewed += 1


@pytest.fixture
def running(tmp_path, monkeypatch):
    """A service, what reads its file again, and what writes that."""
    monkeypatch.setattr("stormwright.storm.gateway.gateway_command", lambda home: [])
    file, service = tmp_path / "serve.toml", Quiet()

    def write(text):
        file.write_text(f'storm-home = "{tmp_path}"\nstate = "{tmp_path}/state"\nscheduler = "even"\n{text}')

    write("period = 60\n")
    given = ("--config", str(file), "--gain", "15")
    params = command.make_context("serve", list(given)).params
    return service, ConfigReloader(command, given, params, service), write


def test_triggers_budget_hook_and_mode_change(running, caplog):
    service, again, write = running
    write('period = 5\nmax-executors = 7\nmode = "auto"\non-failure = "true"\n')
    with caplog.at_level(logging.INFO):
        again.once()
    [(settings, mode)] = service.changes
    assert (settings.triggers.period_s, settings.triggers.min_gain_percent) == (5, 15)
    assert (settings.budget.max_executors, mode, service.notify) == (7, {"default": "auto"}, None)
    assert settings.on_failure is not None
    assert caplog.messages == ["read again: max-executors 7; mode auto; on-failure true; period 5.0"]
    again.once()
    assert len(service.changes) == 1, "nothing has changed since"
    assert service.renewed == 2, "certificates may have"


def test_reload_log_hides_notification_addresses(running, caplog):
    service, again, write = running
    write('period = 60\nnotify = ["all=slack:https://hooks.example/very-secret"]\n')
    with caplog.at_level(logging.DEBUG):
        again.once()
    assert caplog.messages == ["read again: notify"]
    (target,) = service.notify
    assert "very-secret" not in target.shown
    write("period = 60\n")
    again.once()
    assert service.notify == (), "nobody is told any more"


def test_reload_changes_windows_and_anomaly_responses(running, caplog):
    service, again, write = running
    write('moves-only = ["01:00-05:00"]\ntime-zone = "Europe/Berlin"\non = ["slow-node=fix"]\n')
    with caplog.at_level(logging.INFO):
        again.once()
    [(_, modes)] = service.changes
    assert modes == {
        "windows": ("01:00-05:00",),
        "time_zone": "Europe/Berlin",
        "responses": {"slow-node": "fix"},
    }
    write("")
    again.once()
    assert service.changes[1][1] == {}, "what is said no more stays as it is"


def test_changed_restart_only_settings_are_warned_about_on_each_reload(running, caplog):
    service, again, write = running
    write("port = 7071\nperiod = 60\n[triggers]\nalarm-after = 5\n")
    for _ in range(2):
        caplog.clear()
        again.once()
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
            "alarm-after 5.0 changes only at a restart of the service",
            "port 7071 changes only at a restart of the service",
        ]
    assert service.changes == []


@pytest.mark.parametrize("text", ["period = nan\n", "period 5", 'initial = "nobody"\nperiod = 5\n', "perod = 5\n"])
def test_reload_with_faulty_file_keeps_previous_settings(running, caplog, text):
    service, again, write = running
    write(text)
    again.once()
    assert service.changes == []
    assert "configuration not reloaded: " in caplog.text


def test_configuration_is_reloaded_on_every_request(running):
    service, again, write = running
    requested = threading.Event()
    again.start(requested)
    for period in (5, 6):
        write(f"period = {period}\n")
        service.heard.clear()
        requested.set()
        assert service.heard.wait(20)
    assert [settings.triggers.period_s for settings, _ in service.changes] == [5, 6]


#: A process that serves with a service that only tells what it is told.
PROCESS = """
import sys
import stormwright.service.composition as wiring
import stormwright.storm.gateway as gateway
from stormwright import cli

class Quiet:
    def __init__(self, *_): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def change(self, settings, modes, notify): print("period", settings.triggers.period_s, flush=True)
    def renew(self): pass
    def run(self, stop): stop.wait()

wiring.Service, gateway.gateway_command = Quiet, lambda home: []
sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.mark.slow
def test_sighup_reloads_configuration_without_restart(tmp_path):
    file = tmp_path / "serve.toml"
    same = f'storm-home = "{tmp_path}"\nstate = "{tmp_path}/state"\nscheduler = "even"\nlog-format = "json"\n'
    file.write_text(same)
    command = [sys.executable, "-c", PROCESS, "serve", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert json.loads(process.stderr.readline())["scheduler"] == "even"
            assert json.loads(process.stdout.readline())["message"] == "serving at http://127.0.0.1:7070"
            assert "nothing will ever move" in json.loads(process.stdout.readline())["message"]
            for period in (5.0, 6.0):
                file.write_text(f"{same}period = {period}\n")
                process.send_signal(signal.SIGHUP)
                assert process.stdout.readline() == f"period {period}\n"
                assert json.loads(process.stdout.readline())["message"] == f"read again: period {period}"
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
