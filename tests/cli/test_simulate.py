"""``stormwright simulate``."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import orjson
import pytest

import stormwright as sw
from stormwright.cli import simulate as verb
from stormwright.formats import write_problem
from stormwright.model.humanize import readable
from stormwright.testing.word_counts import WordCount
from stormwright.workbench.simulated.simulation import quantile_ms


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount().problem())
    return path


def simulated(run, *arguments):
    code, out, err = run("simulate", *arguments, "--json")
    assert code == 0, err
    return orjson.loads(out)


def test_simulate_covers_current_placement(run, file):
    code, out, err = run("simulate", file, "--seconds", 2)
    assert code == 0, err
    assert "placed by what runs" in out
    assert "2 s of virtual time in" in out
    assert "words-1-0, from 0 to 2 s:" in out
    assert "no receive queue was ever fuller than 1 %" in out


def test_simulated_rates_follow_measurement_and_trace(run, file, tmp_path):
    (topology,) = simulated(run, file, "--seconds", 4)["topologies"]
    assert topology["trees_per_s"] == pytest.approx(1_000, rel=0.05)
    assert topology["begun"] == topology["completed"] + topology["pending"]
    assert 1 <= topology["p50_ms"] <= topology["p95_ms"] <= topology["p99_ms"]
    trace = tmp_path / "trace.csv"
    trace.write_text("2,0.5\n3,2,words\n", encoding="utf-8")
    (topology,) = simulated(run, file, "--seconds", 4, "--trace", trace)["topologies"]
    timeline = topology["timeline"]["trees_per_s"]
    seconds = [sum(timeline[n : n + 15]) / 15 for n in range(0, 60, 15)]
    assert seconds == pytest.approx([1_000, 1_000, 500, 2_000], rel=0.15)


def test_the_same_seed_has_the_same_outcome(run, file):
    found = [simulated(run, file, "--seconds", 1, "--seed", seed) for seed in (4, 4, 5)]
    for each in found:
        del each["took_s"], each["seed"]
    assert found[0] == found[1] != found[2]


def test_simulate_accepts_scheduler_or_assignment_as_placement(run, file, tmp_path):
    answer = tmp_path / "answer.json"
    assert run("schedule", file, "--scheduler", "even", "--from-scratch", "--output", answer)[0] == 0
    by_assignment = simulated(run, file, "--seconds", 1, "--assignment", answer)
    by_scheduler = simulated(run, file, "--seconds", 1, "--scheduler", "even")
    assert by_assignment["placed_by"] == "answer.json"
    assert by_assignment["topologies"] == by_scheduler["topologies"]


def test_simulate_ignores_current_placement_unless_keep_running(run, tmp_path):
    path, problem = tmp_path / "crowded.json", sw.sketch("a 2 -> b 6 fields", nodes=3, workers=3)
    write_problem(path, problem.with_current(sw.Assignment(np.zeros(8, dtype=np.int32)).by_topology(problem)))
    nodes = {
        arguments: {node["node"] for node in simulated(run, path, "--seconds", 1, *arguments)["nodes"] if node["cpu"]}
        for arguments in ((), ("--scheduler", "even"), ("--scheduler", "even", "--keep-running"))
    }
    assert {arguments: len(used) for arguments, used in nodes.items()} == {
        (): 1,
        ("--scheduler", "even"): 3,
        ("--scheduler", "even", "--keep-running"): 1,
    }


def test_percentiles_below_a_millisecond_are_not_made_up(run, file):
    """Half of all trees were reported to be within 0.5 ms, and 99 of 100 within 0.99 ms, however short they were."""
    quick = np.zeros(258, np.int64)
    quick[0], quick[-1] = 99, 1
    assert [quantile_ms(quick, part) for part in (0.01, 0.5, 0.99)] == [1.0, 1.0, 1.0]
    assert quantile_ms(quick, 0.995) > 1_000
    assert np.isnan(quantile_ms(0 * quick, 0.5))
    (one,) = simulated(run, file, "--seconds", 1)["topologies"]
    _, out, _ = run("simulate", file, "--seconds", 1)
    row = next(line for line in out.splitlines() if line.startswith("words-1-0 "))
    assert one["mean_ms"] < 1
    assert one["p50_ms"] == 1.0
    assert "≤ 1 ms" in row
    assert f"{readable(one['mean_ms'])} ms" in row


def test_unacked_topologies_report_only_begun_trees(run, tmp_path):
    path, words = tmp_path / "words.json", WordCount().problem()
    without_counts = np.zeros(words.num_executors, dtype=np.int32)
    without_counts[2:6] = -1
    write_problem(path, words.with_current(sw.Assignment(without_counts).by_topology(words)))
    code, out, _ = run("simulate", path, "--seconds", 1)
    assert (code, "without ackers" in out) == (1, False)
    assert next(line.split()[1] for line in out.splitlines() if line.startswith("words-1-0 ")) == "0"
    sketched = sw.sketch("a 2 -> b 2")
    write_problem(path, sketched.with_current(sw.place(sketched, "even").by_topology(sketched)))
    assert simulated(run, path, "--seconds", 1)["topologies"][0]["acked"] is False
    _, out, _ = run("simulate", path, "--seconds", 1)
    assert f"without ackers: {sketched.topologies[0].id}; there is no latency" in out


def test_simulate_warns_about_long_runs(run, file, monkeypatch):
    _, _, err = run("simulate", file, "--seconds", 1)
    assert err == ""
    monkeypatch.setattr(verb, "_MANY", 1000.0)
    _, _, err = run("simulate", file, "--seconds", 1)
    assert "tuples, about a million per second; Ctrl-C stops it" in err


def test_saturated_spouts_begin_as_many_as_go(run, file):
    (topology,) = simulated(run, file, "--seconds", 1, "--saturated")["topologies"]
    assert topology["trees_per_s"] > 5_000
    assert topology["pending"] > 0


def test_nothing_runs(run, tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount().problem().with_current({}))
    code, _, err = run("simulate", path)
    assert code == 2
    assert "the problem has no current placement: pass a scheduler" in err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--scheduler", "even", "--assignment", "a.json"], "both determine the placement"),
        (["--set", "a=1"], "require a scheduler: pass --scheduler"),
        (["--keep-running"], "requires --scheduler"),
        (["--seconds", "0"], "--seconds"),
        (["--seconds", "nan"], "--seconds"),
        (["--seed", "-1"], "--seed"),
        (["--trace", "nowhere.csv"], "nowhere.csv"),
        (["--scheduler", "evn"], "even"),
    ],
)
def test_simulate_rejects_invalid_options(run, file, arguments, expected):
    code, out, err = run("simulate", file, *arguments)
    assert (code, out) == (2, "")
    assert expected in err


def test_simulate_reports_trace_faults_by_line(run, file, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("1,2\nx,1\n3\n4,-1\n5,1,wrds\n6,1,words,more\n", encoding="utf-8")
    code, _, err = run("simulate", file, "--trace", trace)
    assert code == 2
    for line in ("line 2", "line 3", "line 4", "line 5", "line 6"):
        assert line in err
    assert "line 1" not in err
    assert "did you mean words?" in err


def test_sets_of_tuples_are_as_large_as_fits(run, file):
    """Two hundred trees may be pending at each spout: eight sets of 25."""
    found = simulated(run, file, "--seconds", 4, "--tuples-at-once", 50)
    assert found["tuples_at_once"] == 25
    assert found["topologies"][0]["trees_per_s"] == pytest.approx(1_000, rel=0.05)
    _, out, _ = run("simulate", file, "--seconds", 1, "--tuples-at-once", 50)
    assert "25 tuples are simulated as one: latencies are longer" in out


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [0, 2], ids=["placed", "partly placed"])
def test_simulation_is_interruptible_however_many_tuples_there_are(tmp_path, left_out):
    """Virtual time hardly advances at 10¹⁸ tuples/s, so signals are looked at after a number of events."""
    problem = sw.sketch("a 2 -> b 3 -> c 2 fields", nodes=2)
    (topology,), (load,) = problem.topologies, problem.loads
    load = replace(load, pair_tps=load.pair_tps * 1e15, flow_tps=load.flow_tps * 1e15)
    problem = problem.with_load(sw.LoadProfile({topology.id: load}))
    slots = sw.place(problem, "even").slot_of_executor.copy()
    slots[len(slots) - left_out :] = -1
    path = tmp_path / "many.json"
    write_problem(path, problem.with_current(sw.Assignment(slots).by_topology(problem)))
    program = [sys.executable, "-m", "stormwright", "simulate", str(path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "Ctrl-C stops it" in running.stderr.readline()
        assert "simulated" in running.stderr.readline(), "progress"
        running.send_signal(signal.SIGINT)
        try:
            assert running.wait(timeout=20) == 130
        finally:
            running.kill()


def test_more_tuples_at_once_than_can_be_followed_are_a_fault(run, tmp_path):
    problem = sw.sketch("a 2 -> b 3 -> c 2", nodes=2)
    (topology,), (load,) = problem.topologies, problem.loads
    many = np.where(load.flow_source >= 2, 1e15, 1.0)
    load = replace(load, pair_tps=load.pair_tps[:0], pair_source=load.pair_source[:0], pair_target=load.pair_target[:0])
    problem = problem.with_load(sw.LoadProfile({topology.id: replace(load, flow_tps=load.flow_tps * many)}))
    write_problem(tmp_path / "many.json", problem)
    code, out, err = run("simulate", tmp_path / "many.json", "--scheduler", "even")
    assert (code, out) == (2, "")
    assert f"{topology.id}/b: sends 1e+15 tuples for each that it handles" in err
