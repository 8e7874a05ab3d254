"""``stormwright schedule``: exit codes, what is printed, what is written."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from stormwright import __version__, cli, place
from stormwright.formats import read_assignment, read_problem, write_problem
from stormwright.model import UNPLACED, Assignment, LoadProfile, violations
from stormwright.model.humanize import readable
from stormwright.model.problem import size_of, sizes
from stormwright.predict.evaluate import steady_states
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.templates import by_rates
from stormwright.schedulers.templates.by_rates import RateSearch
from stormwright.testing.word_counts import two_word_counts
from tests.case_files import all_cases
from tests.formats.documents import SMALL, small
from tests.formats.files.test_files import RUBBISH

CASES = all_cases()
PLACEABLE = str(CASES["m03_5topo100_n12_r2"])
TOO_SMALL = str(CASES["m11-isolation-not-enough"])
PARTLY_RUNNING = str(CASES["m37-two-lost-executors"])

PROGRAM = [sys.executable, "-m", "stormwright"]


@pytest.fixture
def small_file(tmp_path):
    path = tmp_path / "small.json"
    path.write_bytes(orjson.dumps(SMALL))
    return path


@pytest.mark.parametrize("scheduler", ["even", "online"])
def test_all_placed(run, scheduler):
    code, out, err = run("schedule", PLACEABLE, "--scheduler", scheduler)
    assert (code, err) == (0, "")
    assert f"{scheduler} took" in out
    assert "unplaced" not in out


@pytest.mark.parametrize("scheduler", ["even", "online"])
def test_some_unplaced(run, scheduler):
    code, out, err = run("schedule", TOO_SMALL, "--scheduler", scheduler)
    assert (code, err) == (1, "")
    assert "unplaced: " in out
    assert "of t" in out


def test_an_assignment_is_no_problem(run, tmp_path, small_file):
    written = tmp_path / "assignment.json"
    assert run("schedule", small_file, "--scheduler", "even", "--output", written)[0] in (0, 1)
    code, _, err = run("schedule", written)
    assert code == 2
    fault = "  is an assignment ('stormwright-assignment/1'), and a problem should be here\n"
    assert err == f"stormwright: {written}: 1 fault\n{fault}"
    code, _, err = run("explain", small_file, small_file)
    assert code == 2
    assert err.endswith("is a problem ('stormwright-problem/1'), and an assignment should be here\n")


def test_node_without_cpu_is_reported_as_text(run, tmp_path):
    of = read_problem(Path(PLACEABLE))
    nodes = tuple(
        replace(node, cpu_hz=0.0, resources={**node.resources, "cpu.pcore.percent": 0.0}) for node in of.supervisors
    )
    write_problem(tmp_path / "none.json", replace(of, supervisors=nodes))
    out = run("schedule", tmp_path / "none.json", "--scheduler", "even")[1]
    line = next(line for line in out.splitlines() if line.startswith("CPU of executors, fullest node"))
    assert line.endswith("  it has none")


def test_schedule_reports_assumed_load_and_fullest_node(run, tmp_path):
    of = read_problem(Path(PLACEABLE))
    write_problem(tmp_path / "assumed.json", replace(of, load=None))
    known = dict(list(of.load.topologies.items())[1:])
    write_problem(tmp_path / "partly.json", replace(of, load=LoadProfile(known)))
    note = "was not measured, but assumed: "
    for path, whose in (
        (tmp_path / "assumed.json", "the load "),
        (tmp_path / "partly.json", "the load of 1 topology "),
    ):
        assert whose + note in run("schedule", path, "--scheduler", "even")[1]
        assert whose + note in run("compare", path, "--schedulers", "even")[1]
        assert whose + note in place(read_problem(Path(path)), "even").summary()
    out = run("schedule", PLACEABLE, "--scheduler", "even")[1]
    assert note not in out
    slots = make_scheduler("even").schedule(of).slot_of_executor
    used = np.bincount(of.slot_node[slots], of.executor_cpu_hz, len(of.supervisors)) / of.node_cpu_hz
    assert f"{used.max():.1%}" in next(line for line in out.splitlines() if "CPU of executors, fullest node" in line)


@pytest.mark.parametrize("kind", RUBBISH)
def test_broken_files(run, tmp_path, kind):
    path = tmp_path / "problem.json"
    path.write_bytes(RUBBISH[kind][0])
    code, out, err = run("schedule", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"stormwright: {path}: 1 fault\n")


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        (small("supervisors", 0, "id", value=1), ["$.supervisors[0].id"]),
        (small("topologies", 0, "num_workers", drop=True), ["$.topologies[0].num_workers"]),
        ([], ["1 fault\n  should be an object"]),
        ({**small("extra", value=1), "name": 3}, ["$.extra", "$.name"]),
    ],
)
def test_faults_of_the_content(run, tmp_path, document, faults):
    path = tmp_path / "problem.json.gz"
    path.write_bytes(gzip.compress(orjson.dumps(document)))
    code, out, err = run("schedule", path)
    assert (code, out) == (2, "")
    assert all(fault in err for fault in faults)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule", "no-such-file"], "cannot be read: No such file"),
        (["schedule", "/"], "cannot be read: Is a directory"),
        (["schedule"], "Missing argument 'FILE'"),
        (["schedule", PLACEABLE, "--scheduler", "onlin"], "did you mean 'online'?"),
        (["schedule", PLACEABLE, "--set", "alpha=2", "--set", "gama=1"], "scheduler parameters: 2 faults"),
        (["schedule", PLACEABLE, "--set", "alpha"], "alpha: should be key=value"),
        (["schedule", PLACEABLE, "--seed", "x"], "'x' is not a valid integer"),
        (
            ["schedule", PLACEABLE, "--scheduler", "even", "--seed", "0"],
            "--seed: has no effect: even uses no random numbers",
        ),
        (["schedule", PLACEABLE, "--output", "/dev/null/out.json"], "cannot be written: /dev/null: "),
        (["schedule", PLACEABLE, "--output", "/"], "/: is a directory, and a file is to be written"),
        (["schedule", PLACEABLE, "--output", PLACEABLE], "is read here, and would be overwritten"),
        (["shedule", PLACEABLE], "No such command 'shedule'; did you mean 'schedule'?"),
        (["history", "reprot"], "No such command 'reprot'; did you mean 'report'?"),
        (["help"], "No such command 'help'."),
        (["--nonsense"], "No such option '--nonsense'"),
    ],
)
def test_bad_arguments(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.long
def test_schedule_summary_shows_before_and_after(run):
    code, out, _ = run("schedule", PARTLY_RUNNING)
    assert code == 0
    assert "before" in out
    assert "after" in out
    assert "moved: " in out


def test_violated_limits_ignored_by_scheduler_are_reported(run):
    _, out, _ = run("schedule", PLACEABLE, "--scheduler", "even")
    assert "violations: 5\n  node-00002: CPU 14.46 of 12.8 GHz" in out


def test_every_worker_is_a_line(run):
    _, out, _ = run("schedule", PLACEABLE, "--scheduler", "even", "--all")
    lines = [line.rstrip().split(maxsplit=2) for line in out.splitlines()]
    listed = lines[lines.index(["topology", "worker", "executors"]) + 1 :]
    problem = read_problem(CASES["m03_5topo100_n12_r2"])
    answer = make_scheduler("even").schedule(problem).by_topology(problem)
    host = {node.id: node.host for node in problem.supervisors}
    workers = {(name, f"{host[slot.supervisor]}:{slot.port}") for name, of in answer.items() for slot in of.slots}
    assert {(name, place) for name, place, _ in listed} == workers
    assert len(listed) == len(workers)
    first = next(topology for topology in problem.topologies if len(topology.components) <= 8)
    parts = [part.split() for name, _, text in listed for part in text.split(", ") if name == first.id]
    counts: Counter[str] = Counter()
    for number, component in parts:
        counts[component] += int(number)
    assert counts == Counter(first.components[c].id for c in first.executor_component)
    _, out, _ = run("schedule", PLACEABLE, "--scheduler", "even")
    assert out.splitlines()[-1] == f"and {len(workers) - 3} more workers; --all shows them, --output writes them"


@pytest.mark.long
def test_supervisors_on_one_host_are_distinguished(run, tmp_path):
    document = small("supervisors", 0, "host", value="h")
    document["supervisors"][1]["host"] = "h"
    (tmp_path / "small.json").write_bytes(orjson.dumps(document))
    _, out, _ = run("schedule", tmp_path / "small.json")
    first = document["supervisors"][0]
    assert f"{first['id']}@h:{first['ports'][0]}" in out


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_output_is_an_assignment(run, tmp_path, name):
    code, _, _ = run("schedule", PLACEABLE, "--scheduler", "online", "--output", tmp_path / name)
    problem = read_problem(CASES["m03_5topo100_n12_r2"])
    answer = read_assignment(tmp_path / name, problem)
    assert code == 0
    assert violations(problem, answer.slot_of_executor) == []
    assert (answer.scheduler, answer.parameters["alpha"]) == ("online", 1.0)


def test_schedule_json_is_one_document(run):
    code, out, err = run("schedule", TOO_SMALL, "--scheduler", "even", "--json")
    document = json.loads(out)
    assert (code, err, out.count("\n")) == (1, "", 1)
    assert document["schema"] == "stormwright-assignment/1"
    assert document["seconds"] > 0
    assert len(document["unplaced"]) == 12
    assert document["cost"]["total"] > 0


@pytest.mark.parametrize(("scheduler", "cores"), [("round_robin", 4.0), ("even", 0.4)])
def test_schedule_json_contains_every_printed_figure(run, tmp_path, scheduler, cores):
    """Each number of the table and of the lines below it stands under `figures`."""
    problem = two_word_counts(cores=cores)
    write_problem(tmp_path / "words.json", problem.with_current(place(problem, "even").by_topology(problem)))
    arguments = ("schedule", tmp_path / "words.json", "--scheduler", scheduler, "--from-scratch")
    text, figures = run(*arguments)[1], json.loads(run(*arguments, "--json")[1])["figures"]
    assert size_of(problem) in text
    assert {name: figures[name] for name in sizes(problem)} == sizes(problem)
    sides = (figures["before"], figures["after"])
    for label, shown in (
        ("cost", [readable(side["cost"]["total"]) for side in sides]),
        ("workers", [f"{side['workers']:,}" for side in sides]),
        ("nodes used", [f"{side['nodes_used']:,}" for side in sides]),
        ("CPU of executors, fullest node", [f"{side['fullest_cpu']:.1%}" for side in sides]),
    ):
        row = next(line for line in text.splitlines() if line.startswith(f"{label}  "))
        assert row.removeprefix(label).split() == shown
    assert text.splitlines()[1].startswith(f"All {sides[1]['executors_placed']} executors are placed")
    moved, broken = figures["moved"], [one for one in figures["violations"] if one["limit"] != "number of workers"]
    assert f"moved: {moved['executors']} executor" in text
    assert f"{moved['workers_kept']} run on, {moved['workers_stopped']} stop, {moved['workers_started']} start" in text
    assert (f"violations: {len(broken)}\n" in text) == bool(broken)


def test_schedule_json_reports_assumed_load_and_missing_current_placement(run, tmp_path):
    write_problem(tmp_path / "words.json", replace(two_word_counts(), load=None).with_current({}))
    figures = json.loads(run("schedule", tmp_path / "words.json", "--scheduler", "even", "--json")[1])["figures"]
    assert figures["assumed"].startswith("the load was not measured, but assumed")
    assert (figures["before"], figures["moved"]) == (None, None)


def test_parameters_reach_the_scheduler(run):
    _, out, _ = run("schedule", PLACEABLE, "--scheduler", "online", "--json", "--set", "alpha=0", "--set", "gamma=1.25")
    parameters = json.loads(out)["parameters"]
    assert (parameters["alpha"], parameters["gamma"]) == (0.0, 1.25)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["throughput", "latency", "nodes"])
def test_schedule_shows_predicted_rates_before_and_after(run, tmp_path, objective):
    """As `predict` has it for both placements."""
    path, answer = tmp_path / "words.json", tmp_path / "answer.json"
    problem = two_word_counts(cores=0.4)  # of which one runs
    problem = problem.with_current(Assignment(np.array([0, 2, 4] * 4 + [UNPLACED] * 12)).by_topology(problem))
    write_problem(path, problem)
    arguments = ("--set", f"objective={objective}", "--set", "iterations=3000")
    _, out, _ = run("schedule", path, *arguments, "--output", answer)
    expected = orjson.loads(run("predict", path, answer, "--json")[1])
    predicted = orjson.loads(run("schedule", path, *arguments, "--json")[1])["parameters"]["predicted"]
    for when, column, count in (("before", "today", 1), ("after", "then", 2)):
        topologies = expected[column]["topologies"][:count]
        assert [one["topology"] for one in predicted[when]] == [one["topology"] for one in topologies]
        for mine, its in zip(predicted[when], topologies, strict=True):
            assert mine["bottleneck"] == its["bottleneck"]
            assert mine["rate_tps"] == its["rate_tps"]
            for name in ("highest_tps", "pending_tps", "latency_ms"):
                assert mine[name] == pytest.approx(its[name]["value"])
    lines = out.splitlines()
    first, second = lines[lines.index("predicted:") + 1 :][:2]
    first_then, first_now = first.split("; now ")
    assert first_then.startswith(f"  one-1-0: at most {predicted['after'][0]['pending_tps']:,.0f} trees/s by ")
    assert f"{predicted['before'][0]['latency_ms']:,.1f} ms at 1,000" in first_now
    assert predicted["before"][0]["bottleneck"]["text"] in first_now
    assert "now" not in second
    assert "predicted:\n  one-1-0: at most " in place(problem, objective=objective, iterations=3000).summary()


@pytest.mark.slow
def test_predictions_of_search_are_reused(monkeypatch):
    problem = two_word_counts(cores=0.4)
    problem = problem.with_current(Assignment(np.array([0, 2, 4] * 4 + [1, 3, 5] * 4)).by_topology(problem))
    searched, requests = [], []
    original_reaches = RateSearch.reaches
    monkeypatch.setattr(by_rates, "steady_states", lambda *given: searched.append(1) or steady_states(*given))

    def reaches(self, slots):
        before = len(searched)
        found = original_reaches(self, slots)
        requests.append(len(searched) - before)
        return found

    monkeypatch.setattr(RateSearch, "reaches", reaches)
    place(problem, "optimizer", objective="throughput", iterations=3000, bound=True)
    assert searched
    assert requests
    assert not any(requests)


def test_from_scratch_replaces_running_topologies(run, tmp_path):
    problem = read_problem(Path(PLACEABLE))
    even = make_scheduler("even").schedule(problem)
    file = tmp_path / "running.json"
    write_problem(file, problem.with_current(even.by_topology(problem)))
    _, out, _ = run("schedule", file, "--scheduler", "binpack", "--json")
    assert run("schedule", file, "--scheduler", "binpack", "--keep-running", "--json")[0] == 0
    assert json.loads(out)["cost"]["total"] == place(problem, "even").cost.total
    code, out, _ = run("schedule", file, "--scheduler", "binpack", "--from-scratch", "--json")
    assert code == 0
    assert json.loads(out)["cost"]["total"] == pytest.approx(place(problem, "binpack").cost.total)
    assert (
        "executors of 5 topologies; workers: " in run("schedule", file, "--scheduler", "binpack", "--from-scratch")[1]
    )


@pytest.mark.long
def test_problem_file_alone(run, small_file):
    code, out, _ = run("schedule", small_file)
    assert code == 0
    assert out.startswith("small: 1 topology, 4 executors, 2 nodes, 3 slots; optimizer took")


def test_version(run):
    assert run("--version") == (0, f"stormwright, version {__version__}\n", "")


def test_help_lists_every_command_without_importing_modules(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(verb in out for verb in cli.VERBS)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(run, verb):
    code, out, error = run("--debug", verb, "--help")
    assert (code, error) == (0, "")
    assert out.startswith(f"Usage: stormwright {verb}")
    assert " ".join(out.split()).count(cli.VERBS[verb]) == 1, "its summary is not repeated"
    assert run(verb, "--help") == (code, out, ""), "nor when it is asked for again"


def test_internal_error_prints_one_line_or_traceback_with_debug(run, monkeypatch, small_file):
    def fail(*_):
        raise ValueError("surprise")

    monkeypatch.setattr("stormwright.cli.schedule.read_problem", fail)
    code, _, err = run("schedule", small_file)
    assert (code, err) == (70, "stormwright: ValueError: surprise (a bug; --debug shows the traceback)\n")
    code, _, err = run("--debug", "schedule", small_file)
    assert code == 70
    assert "Traceback" in err


def test_traceback_of_bad_input_on_request(run):
    code, _, err = run("--debug", "schedule", "no-such-file")
    assert code == 2
    assert "Traceback" in err


@pytest.mark.parametrize(("module", "extra"), [("pyspark.sql", "spark"), ("httptools", "service")])
def test_missing_extra_names_pip_command(run, monkeypatch, small_file, module, extra):
    def fail(*_):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("stormwright.cli.schedule.read_problem", fail)
    code, _, err = run("schedule", small_file)
    assert code == 2
    assert f"pip install 'stormwright[{extra}]'" in err


@pytest.mark.slow
def test_closed_output_pipe_ends_with_exit_code_141(small_file):
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [*PROGRAM, "schedule", small_file, "--scheduler", "even", "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.long
def test_full_disk(small_file):
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [*PROGRAM, "schedule", small_file, "--scheduler", "even", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == b"stormwright: No space left on device\n"


@pytest.mark.slow
def test_interrupt_is_quiet(tmp_path):
    pipe = tmp_path / "never-written"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*PROGRAM, "schedule", pipe],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with pipe.open("wb"):  # opens once the program reads, so it is where it should be
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
