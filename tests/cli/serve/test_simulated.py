"""``stormwright serve --simulated``: faults are reported, and a service runs without Storm, Java and Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from stormwright.formats import write_problem
from stormwright.model import Problem
from stormwright.testing.word_counts import two_word_counts
from tests.cli.serve.test_trying import free_port


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, two_word_counts())
    return path


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--storm-home", "."], "--storm-home: has no effect: no Storm runs under --simulated: leave out one of them"),
        (["--keep-raw", 2], "--keep-raw: has no effect: a virtual cluster is measured without Spark: leave it out"),
        (["--trace", "nowhere.csv"], "nowhere.csv: 1 fault\n  cannot be read: No such file or directory"),
        (["--trace", "TRACE"], "line 2: no such topology: oter; did you mean other?"),
        (["--speed", 0], "Invalid value for '--speed': 0.0 is not in the range above 0 to 1,000,000."),
        (["--speed", "nan"], "Invalid value for '--speed': nan"),
        (["--scheduler", "onlin"], "onlin"),
    ],
)
def test_invalid_simulation_options_are_reported(run, file, tmp_path, options, expected):
    (tmp_path / "trace.csv").write_text("1,2\n2,2,oter\n", encoding="utf-8")
    given = [tmp_path / "trace.csv" if each == "TRACE" else each for each in options]
    code, _, err = run("serve", "--simulated", file, "--port", free_port(), *given)
    assert code == 2
    assert expected in err


def test_kafka_with_simulated_cluster_is_one_fault(run, file):
    code, out, _ = run("serve", "--simulated", file, "--kafka", "h:1", "--port", free_port(), "--check")
    assert code == 2
    assert out.count("--kafka") == 1


def test_faults_are_refused_before_the_service_logs_its_start(run, file):
    code, out, err = run("serve", "--simulated", file, "--keep-raw", 2, "--port", free_port())
    assert (code, out) == (2, "")
    assert err.startswith("stormwright: serve: 1 fault")


@pytest.mark.slow
def test_signal_during_start_is_logged_and_ends_the_service_at_once(tmp_path, file):
    """The simulated service first compiles, or loads, the search and the simulator."""
    command = [sys.executable, "-m", "stormwright", "serve", "--simulated", file, "--port", str(free_port())]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, **streams) as process:
        assert "stormwright" in process.stderr.readline()
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "SIGTERM" in out or "serving" in out
    assert time.monotonic() - begin < 30


def test_simulation_only_options_require_simulated_option(run, tmp_path):
    code, _, err = run("serve", "--storm-home", tmp_path, "--state", tmp_path / "state", "--speed", 2, "--trace", "t")
    assert code == 2
    for option in ("--speed", "--trace"):
        assert f"{option}: has no effect: only a virtual cluster has one: name it with --simulated" in err
    code, _, err = run("serve", "--speed", 2)
    assert code == 2
    assert "Missing option '--state'." in err
    assert "Missing option '--storm-home'." in err


def test_problem_without_topologies_or_nodes_is_rejected_for_simulation(run, tmp_path):
    words = two_word_counts()
    for what, problem in (("topologies", Problem(words.supervisors, ())), ("nodes", Problem((), ()))):
        write_problem(tmp_path / "empty.json", problem)
        code, _, err = run("serve", "--simulated", tmp_path / "empty.json")
        assert code == 2
        assert f"there are no {what}, so there is nothing to simulate" in err


def test_check_option_covers_simulated_cluster(run, file):
    code, out, _ = run("serve", "--simulated", file, "--port", free_port(), "--check")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == ["configuration:", "address:", "state:"]
    assert f"a virtual cluster of {file}" in out


@pytest.mark.slow
def test_simulated_cluster_runs_without_java_and_removes_temporary_state(file, tmp_path):
    port, environment = free_port(), {**os.environ, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    command = [sys.executable, "-m", "stormwright", "serve", "--simulated", file, "--port", str(port), "--speed", "20"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert _status(port, process)["pipeline"]["running"]
            until = time.monotonic() + 60
            while _status(port, process)["decision"] is None and time.monotonic() < until:
                time.sleep(0.5)
            assert "twice its measured rate" in _status(port, process)["decision"]
        finally:
            process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"serving at http://127.0.0.1:{port}" in out
    assert not list(Path(tmp_path).glob("stormwright-simulated-*"))


def _status(port, process):
    until = time.monotonic() + 60
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/v1/status", timeout=10) as answer:
                return json.load(answer)
        except (URLError, ConnectionError):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.3)
