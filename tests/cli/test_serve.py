"""``stormwright serve``: what ends it before anything is started."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from stormwright.base.file_lock import exclusive_lock
from stormwright.cli.serve import LOCK, command
from stormwright.controller.planning.order import MoveBudget
from stormwright.plans.modes import Modes
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.schedulers.toolkit.params import MAX_SECONDS
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.triggers import ONLINE, TriggerParams
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.history import HistorySettings


def test_serve_option_defaults_match_settings():
    """Settings import PySpark, so the options, which a shell completes, cannot take them from there."""
    service, history, triggers = ServiceSettings(Path(), "", 0), HistorySettings(), TriggerParams()
    options = {option.name: option for option in command.params}
    defaults = {
        "initial": service.initial,
        "least_measured_s": service.least_measured_s,
        "forecast_min": service.forecast_min,
        "most_missing_percent": service.most_missing * 100,
        "keep_raw_h": service.stream.keep_raw_s / 3600,
        "max_executors": MoveBudget().max_executors,
        "history_format": history.format,
        "keep_history_days": history.keep_days,
    }
    assert {name: options[name].default for name in defaults} == defaults
    for name in ("overload_s", "period_s", "cool_down_s"):
        assert options[name].default == getattr(triggers, name)
        assert options[name].type.max == MAX_SECONDS


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--keep-raw", "inf"], "'--keep-raw': inf must be finite"),
        (["--keep-raw", "nan"], "'--keep-raw': nan must be finite"),
        (["--keep-raw", -1], "'--keep-raw': -1.0 is not in the range"),
        (["--alarm-after", "inf"], "'--alarm-after': inf must be finite"),
        (["--forecast", 0], "'--forecast': 0 is not in the range"),
        (["--period", "nan"], "'--period': nan must be finite"),
        (["--cool-down", -1], "'--cool-down': -1.0 is not in the range"),
        (["--gain", 101], "'--gain': 101.0 is not in the range"),
        (["--history-format", "orc"], "orc: unknown; there are parquet, delta"),
        (["--history-conf", "spark.a"], "--history-conf: should be KEY=VALUE"),
        (["--history-conf", "fs.s3a.endpoint=a"], "--history-conf: 'fs.s3a.endpoint' is no setting of Spark"),
        (["--scheduler", "nobody"], "nobody: unknown scheduler"),
        (["--initial", "nobody"], "--initial nobody: unknown scheduler"),
        (["--on-failure", "no.such:hook"], "--on-failure no.such:hook: cannot be loaded"),
        (["--forecast", 20], "--forecast: has no effect: optimizer uses no forecast"),
        (["--storm-home", "."], "--storm-home: . is no Storm installation"),
        (
            ["--from-scratch", "--scheduler", "online", "--set", "keep_running=true"],
            "online: stays near the current placement",
        ),
        (["--set", "objective=nodes"], "says nodes, and --objective says throughput: name one of them"),
        (
            ["--scheduler", "online", "--set", "period_s=5", "--period", 6],
            "--set period_s: says 5, and --period says 6",
        ),
        (["--scheduler", "online", "--set", "overload_s=-1"], "overload_s: should be from 0 to 1e+06, got -1.0"),
        (["--set", "period_s=5"], "period_s: unknown parameter"),
        (["--storm-home", "/no/such/place"], "'/no/such/place' does not exist"),
        (["--kafka-topic", "perflog"], "--kafka-topic: has no effect without --kafka"),
        (["--kafka", "kafka:9092"], "--kafka: needs a topic: pass --kafka-topic"),
        (["--kafka", "kafka", "--kafka-topic", "perflog"], "--kafka: 'kafka' should be HOST:PORT"),
        (["--kafka", "kafka:9092", "--kafka-topic", "per flog"], "--kafka-topic: 'per flog' is no name of a topic"),
        (["--kafka", "kafka:9092", "--kafka-topic", "a", "--kafka-conf", "a"], "--kafka-conf: should be KEY=VALUE"),
        (
            ["--kafka", "kafka:9092", "--kafka-topic", "a", "--kafka-conf", "subscribe=b"],
            "--kafka-conf: subscribe follows from the topic: leave it out",
        ),
    ],
)
def test_bad_options_end_with_2(run, tmp_path, arguments, expected):
    code, out, err = run("serve", "--storm-home", tmp_path, "--state", tmp_path / "state", *arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert not (tmp_path / "state").exists()


def test_serve_reports_all_faults_at_once(run, tmp_path):
    faults = {
        ("--scheduler", "nobody"): "--scheduler nobody: unknown scheduler",
        ("--initial", "none"): "--initial none: unknown scheduler",
        ("--on-failure", "no-such-program"): "--on-failure no-such-program: is neither",
        ("--history-format", "orc"): "--history-format orc: unknown",
        ("--storm-home", tmp_path): "--storm-home: ",
    }
    code, _, err = run("serve", "--state", tmp_path / "state", *(part for option in faults for part in option))
    assert code == 2
    assert f"serve: {len(faults)} faults" in err
    assert [text for text in faults.values() if text not in err] == []
    wrong = ("--set", "alpha=x", "--initial", "no")
    _, _, err = run("serve", "--state", tmp_path / "state", "--storm-home", tmp_path, *wrong)
    assert "--set alpha: " in err
    assert "--initial no: " in err
    assert not (tmp_path / "state").exists()


def test_serve_reports_all_invalid_option_values_at_once(run, tmp_path):
    code, _, err = run("serve", "--period", "nan", "--gain", 101, "--port", "x", "--storm-home", "/no/such/place")
    assert code == 2
    for option in ("--period", "--gain", "--port", "--storm-home"):
        assert f"Invalid value for '{option}': " in err
    assert "Missing option '--state'" in err


def test_serve_ends_with_2_and_touches_nothing(run, tmp_path, monkeypatch):
    state = tmp_path / "state"
    monkeypatch.setattr("stormwright.storm.gateway.storm_command", lambda *_, **__: [])
    with exclusive_lock(state, "", LOCK):
        code, out, err = run("serve", "--storm-home", tmp_path, "--state", state, "--mode", "observe", "--port", 7071)
    assert (code, out) == (2, "")
    assert f"another service uses it: stop that, or name another --state (process {os.getpid()})" in err
    assert [path.name for path in state.iterdir()] == [LOCK]


@pytest.fixture
def served(run, monkeypatch, tmp_path):
    """What a service is made of that is started with these options, and its messages."""
    made = []

    class Quiet:
        guard = SimpleNamespace(modes=Modes())

        def __init__(self, settings, scheduler, name, command, scheduler_for, trials, loads):
            made.append((settings, scheduler))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def run(self, stop):
            return None

    monkeypatch.setattr("stormwright.service.composition.Service", Quiet)
    monkeypatch.setattr("stormwright.storm.gateway.gateway_command", lambda home: [])
    monkeypatch.setattr("stormwright.cli.serve.signal.signal", lambda *_: None)

    def serve(*options):
        code, out, _ = run("serve", "--storm-home", tmp_path, "--state", tmp_path / "state", *options)
        assert code == 0
        return *made[-1], out

    return serve


@pytest.mark.parametrize("name", ["t_storm", "p_scheduler", "d_storm", "toss"])
def test_adaptive_schedulers_use_triggers_of_their_papers(served, name):
    settings, scheduler, out = served("--scheduler", name)
    assert isinstance(scheduler, FromScratchScheduler)
    assert (settings.adapts, settings.objective) == (traits_of(name).adapts, "traffic")
    assert settings.triggers.min_gain_percent == 20
    assert "will ever move" not in out
    settings, _, _ = served("--scheduler", name, "--objective", "latency")
    assert (settings.adapts, settings.objective) == (traits_of(name).adapts, "latency")


@pytest.mark.parametrize(
    ("options", "from_scratch", "moves"),
    [
        (["--scheduler", "even"], False, False),
        (["--scheduler", "even", "--from-scratch"], True, True),
        (["--scheduler", "t_storm", "--keep-running"], False, False),
        (["--scheduler", "online"], False, True),
        (["--scheduler", "online", "--set", "keep_running=true"], False, False),
        (["--scheduler", "genetic", "--set", "move_running=true"], False, True),
        ([], False, True),
    ],
)
def test_serve_warns_when_scheduler_never_moves_anything(served, options, from_scratch, moves):
    settings, scheduler, out = served(*options)
    assert isinstance(scheduler, FromScratchScheduler) == from_scratch
    assert (settings.adapts, settings.objective) == (ONLINE, "throughput")
    assert ("so nothing will ever move: use --from-scratch" in out) != moves


def test_triggers_are_set_by_options_or_as_parameters_of_online(served):
    """Neither is lost, and what only one says the other does not undo."""
    online = ["--scheduler", "online"]

    def triggers_of(*options):
        return served(*options)[0].triggers

    assert triggers_of(*online) == TriggerParams(overload_s=30, period_s=60, min_gain_percent=10, cool_down_s=60)
    assigned = ["overload_s=11", "period_s=12.5", "min_gain_percent=13", "cool_down_s=14"]
    settings = [word for setting in assigned for word in ("--set", setting)]
    everything = TriggerParams(overload_s=11, period_s=12.5, min_gain_percent=13, cool_down_s=14)
    assert triggers_of(*online, *settings) == everything
    assert triggers_of(*online, *settings, "--gain", 13) == everything
    both = triggers_of(*online, "--set", "period_s=5", "--overload", 7)
    assert (both.period_s, both.overload_s) == (5, 7)
