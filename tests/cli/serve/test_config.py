"""What a file and variables say to ``stormwright serve``, and what is wrong with them."""

from __future__ import annotations

import click
import pytest
from click.core import ParameterSource

from stormwright.cli.serve import command
from stormwright.cli.serve.config import key_of, key_values


@pytest.fixture
def params_of(tmp_path, monkeypatch):
    """The parameters that come of a file, a command line and variables; or the messages about faults."""

    def of(text, *arguments, **variables):
        file = tmp_path / "serve.toml"
        file.write_text(text)
        for name, value in variables.items():
            monkeypatch.setenv(f"STORMWRIGHT_SERVE_{name}", value)
        try:
            context = command.make_context("serve", ["--config", str(file), *map(str, arguments)])
        except click.UsageError as error:
            return error.format_message().replace(str(file), "FILE")
        return context.params

    return of


@pytest.fixture
def needed(tmp_path):
    return f'storm-home = "{tmp_path}"\nstate = "{tmp_path}/state"\n'


def test_precedence_is_command_line_then_environment_then_file_then_default(params_of, needed):
    text = needed + "period = 11\noverload = 12\ncool-down = 13\n"
    params = params_of(text, "--period", 31, PERIOD="21", OVERLOAD="22")
    found = [params[name] for name in ("period_s", "overload_s", "cool_down_s", "least_measured_s")]
    assert found == [31, 22, 13, 30]


def test_every_option_may_stand_in_the_file(params_of, tmp_path):
    """With a value other than its default each, none is left at that."""
    text = f"""
    host = "10.0.0.5"
    port = 7071
    scheduler = "online"
    from-scratch = false
    initial = "round_robin"
    state = "{tmp_path}/state"
    storm-home = "{tmp_path}"
    mode = "suggest"
    on = ["slow-node=fix"]
    moves-only = ["Mon-Fri 01:00-05:00"]
    time-zone = "Europe/Berlin"
    notify = ["all=json:http://127.0.0.1:9"]
    forecast = 11
    on-failure = "page-me"
    keep-raw = 1.5
    kafka = "kafka1:9092,kafka2:9092"
    kafka-topic = "perflog"
    kafka-conf = ["startingOffsets=latest"]
    kafka-jars = "/"
    simulated = "cluster.json"
    trace = "rates.csv"
    speed = 2
    history = "file:///history"
    history-format = "delta"
    history-conf = ["spark.hadoop.fs.s3a.endpoint=https://s3.example"]
    keep-history-days = 7
    log-format = "json"
    tokens = "/etc/stormwright/tokens.json"
    pair = "zk1:2181,zk2:2181/us"
    pair-secret = "/etc/stormwright/pair"
    pair-tls-ca = "/etc/stormwright/zookeeper-ca.crt"
    pair-tls-cert = "/etc/stormwright/zookeeper.crt"
    pair-tls-key = "/etc/stormwright/zookeeper.key"
    known-as = "https://one.example:7070"
    without-authentication = false
    tls-cert = "/etc/stormwright/tls.crt"
    tls-key = "/etc/stormwright/tls.key"
    tls-client-ca = "/etc/stormwright/ca.crt"
    [triggers]
    overload = 31
    alarm-after = 32
    period = 33
    objective = "latency"
    gain = 34
    least-measured = 35
    trials = 3
    cool-down = 36.5
    [budget]
    max-topologies = 3
    max-executors = 4
    most-missing = 37
    [set]
    alpha = 0.5
    keep_running = true
    order = "priority"
    """
    params = params_of(text)
    assert isinstance(params, dict), params
    assert params["assignments"] == ("alpha=0.5", "keep_running=true", "order=priority")
    assert (params["alarm_after_s"], params["max_executors"], params["from_scratch"]) == (32, 4, False)
    context = command.make_context("serve", ["--config", str(tmp_path / "serve.toml")])
    options = {option.name for option in command.params if key_of(option) not in ("config", "check")}
    assert {name for name in options if context.get_parameter_source(name) is ParameterSource.DEFAULT} == set()


@pytest.mark.parametrize("in_file", [True, False])
def test_secret_options_need_no_command_line(params_of, needed, in_file):
    name, value = "kafka.sasl.jaas.config", 'a.LoginModule required username="x" password="p=1;";'
    if in_file:
        params = params_of(needed + f"kafka-conf = ['{name}={value}', 'b=c']")
    else:
        params = params_of(needed, KAFKA_CONF=f"{name}={value}\nb=c")
    assert key_values(params["kafka_conf"], "--kafka-conf", []) == {name: value, "b": "c"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("storm-hom = 'x'", "FILE: storm-hom: unknown key: did you mean storm-home?"),
        ("storm_home = 'x'", "FILE: storm_home: unknown key: did you mean storm-home?"),
        ("colour = 'red'", "FILE: colour: unknown key: `stormwright serve --help` lists them"),
        ("keep-running = true", "FILE: keep-running: unknown key: write from-scratch = false"),
        ("check = true", "FILE: check: is allowed on the command line only: pass --check"),
        ("port = 7070.5", "FILE: port: should be a whole number without quotes, got 7070.5"),
        ("port = true", "FILE: port: should be a whole number without quotes, got True"),
        ("period = '5'", "FILE: period: should be a number without quotes, got '5'"),
        ("from-scratch = 1", "FILE: from-scratch: should be true or false, got 1"),
        ("host = 1", "FILE: host: should be a text in quotes, got 1"),
        ("set = 'a=1'", "FILE: set: should be a list of texts, or a section [set]"),
        ("[set]\na = [1]", "FILE: set.a: should be a number, a text in quotes, true or false"),
        ("[trigger]\nperiod = 1", "FILE: [trigger]: unknown section: did you mean [triggers]?"),
        ("[triggers]\nport = 1", "FILE: triggers.port: does not belong in [triggers]: write it above all sections"),
        ("period = 1\n[triggers]\nperiod = 2", "FILE: triggers.period: period sets it, too: remove one of them"),
        ("[triggers]\nperiod = nan", "'FILE: triggers.period': nan must be finite"),
        ("port = 0", "'FILE: port': 0 is not in the range"),
        ("mode = 'on'", "'FILE: mode': 'on' is not one of"),
        ("port 7070", "FILE: is not valid TOML: "),
    ],
)
def test_config_fault_names_file_and_key_with_advice(params_of, needed, text, expected):
    assert expected in params_of(text + "\n" if text.startswith("[") else text + "\n" + needed)


def test_all_faults_of_file_environment_and_command_line_are_reported_at_once(params_of):
    messages = params_of("storm-hom = 'x'\nport = 'y'\nperiod = nan", "--gain", 101, OVERLOAD="nan", PEROID="3")
    for part in (
        "FILE: storm-hom: ",
        "FILE: port: ",
        "'FILE: period': ",
        "'--gain': ",
        "'STORMWRIGHT_SERVE_OVERLOAD': ",
        "STORMWRIGHT_SERVE_PEROID: there is no such variable: did you mean STORMWRIGHT_SERVE_PERIOD?",
        "Missing option '--state'",
    ):
        assert part in messages


@pytest.mark.parametrize(("content", "expected"), [(None, "cannot be read: No such file"), (b"\xff", "is not UTF-8")])
def test_unreadable_config_file_is_reported(run, tmp_path, content, expected):
    file = tmp_path / "serve.toml"
    if content:
        file.write_bytes(content)
    code, out, err = run("serve", "--config", file, "--storm-home", tmp_path, "--state", tmp_path / "state")
    assert (code, out) == (2, "")
    assert f"{file}: {expected}" in err


def test_late_configuration_faults_also_name_their_source(run, tmp_path, needed, monkeypatch):
    file = tmp_path / "serve.toml"
    file.write_text(needed + 'initial = "nobody"\n[set]\nalpha = "x"\n')
    monkeypatch.setenv("STORMWRIGHT_SERVE_HISTORY_FORMAT", "orc")
    code, _, err = run("serve", "--config", file, "--scheduler", "online")
    assert code == 2
    assert f"{file}: initial nobody: unknown scheduler" in err
    assert f"{file}: set alpha: " in err
    assert "STORMWRIGHT_SERVE_HISTORY_FORMAT orc: unknown" in err
    assert not (tmp_path / "state").exists()


def test_trigger_set_twice_in_config_file_is_rejected(run, tmp_path, needed):
    file = tmp_path / "serve.toml"
    file.write_text(needed + 'scheduler = "online"\nperiod = 6\n[set]\nperiod_s = 5\n')
    code, _, err = run("serve", "--config", file)
    assert code == 2
    assert "--set period_s: says 5, and --period says 6: name one of them" in err
