"""``stormwright advise``."""

from __future__ import annotations

import shlex

import orjson
import pytest

from stormwright.client import Client
from stormwright.formats import read_problem, write_problem
from stormwright.model import LoadProfile
from stormwright.plans.plan import Plan
from stormwright.predict.changes import with_executors
from stormwright.testing.word_counts import WordCount, two_word_counts


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount(cores=16.0, pending=None, rate_tps=20_000.0).problem())
    return path


def test_advice_reports_counts_reasons_and_commands(run, file):
    code, out, err = run("advise", file, "--rate", "200000")
    assert code == 0
    assert "1 × like n0 …" in err, "what it is at"
    assert "words: 200,000 trees/s requested, 20,000 measured" in out
    assert "executors now  advised  of tasks" in out
    assert "tuples/s each" in out
    assert "like n0" in out
    line = next(line for line in out.splitlines() if line.startswith("next: storm rebalance"))
    assert shlex.split(line)[1:4] == ["storm", "rebalance", "words"]


@pytest.mark.long
def test_advice_json_is_complete_and_equals_output_file(run, file, tmp_path):
    written = tmp_path / "advice.json"
    code, out, _ = run("advise", file, "--times", "×3", "--json", "--output", written)
    assert code == 0
    found = orjson.loads(out)
    assert found == orjson.loads(written.read_bytes())
    assert found["topologies"][0]["rate_tps"] == pytest.approx(60_000)
    assert found["headroom"] >= 0.2
    assert {"component", "executors", "executors_now", "tasks", "use"} <= set(found["components"][0])
    assert [order["command"].split()[:2] for order in found["orders"]] == [["storm", "rebalance"]]


def test_prices(run, file):
    kinds = ("--node-kind", "small=3000:4:16384:0.5", "--node-kind", "large=3000:8:65536:0.9", "--no-alternatives")
    code, out, _ = run("advise", file, "--rate", "words=60000", *kinds)
    assert code == 0
    assert "1 × small, 1 of them new) for 0.50 an hour" in out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--rate", "fast"), "--rate: should be a number above 0 as in 9000"),
        (("--rate", "5", "--rate", "6"), "the rate without a topology is given twice"),
        (("--rate", "word=5"), "--rate word: no such topology; did you mean words?"),
        (("--rate", "5", "--times", "2"), "is requested twice"),
        (("--rate", "0"), "should be a number above 0, got 0"),
        (("--rate", "1000000"), "tasks are too few"),
        (("--rate", "60000", "--max-executors", "3"), "--max-executors allows 3"),
        (("--rate", "60000", "--max-nodes", "1", "--node-kind", "a=1000:1:9999:1"), "no allowed number of nodes"),
        (("--node-kind", "a=b"), "should be NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE"),
        (("--node-kind", "a=1000:1:9999:1", "--node-kind", "a=1000:1:9999:1"), "node kind a: is given twice"),
        (("--by", "anna"), "--by: has no effect: it needs --apply"),
        (("--leave-out", "2026-01-01"), "has no effect: it needs --state"),
        (("--p95-ms", "-1"), "--p95-ms"),
        (("--headroom", "nan"), "--headroom"),
    ],
)
def test_invalid_advise_options_exit_with_one_message(run, file, options, why):
    code, out, err = run("advise", file, *options)
    assert (code, out) == (2, "")
    assert why in err
    assert "Traceback" not in err


def test_advise_names_topology_with_unmeasured_load_and_remedy(run, tmp_path):
    path = tmp_path / "words.json"
    write_problem(path, WordCount().problem().with_load(LoadProfile({})))
    for options in ((), ("--rate", "100")):
        code, _, err = run("advise", path, *options)
        assert code == 2
        assert err.count("words-1-0: its load was not measured") == 1
        assert "--ui" in err


def test_rate_option_must_name_topology_when_several_exist(run, tmp_path):
    path = tmp_path / "two.json"
    write_problem(path, two_word_counts(rate_tps=1_000.0))
    code, _, err = run("advise", path, "--rate", "5000")
    assert code == 2
    assert "name the topology, as in NAME=9000; known: one, other" in err
    assert run("advise", path, "--rate", "one=5000", "--no-alternatives")[0] == 0


def test_apply_has_the_service_plan_and_apply_the_advice(run, file, monkeypatch):
    """Executors, workers and slots in one plan; what is printed with --json is the advice, and the plan beside it."""
    requested = {}

    def plan(_, reason, **wanted):
        requested.update(wanted, reason=reason)
        return Plan(id="7", state="planning")

    monkeypatch.setattr(Client, "plan", plan)
    monkeypatch.setattr(Client, "wait_until_planned", lambda _, plan: Plan(id=plan, state="planned"))
    monkeypatch.setattr(Client, "apply", lambda _, *given: requested.update(applied=given))
    monkeypatch.setattr(Client, "show", lambda _, plan: Plan(id=plan, state="done"))
    code, out, _ = run("advise", file, "--rate", "60000", "--apply", "--reason", "peak", "--json")
    found = orjson.loads(out)
    assert (code, found["plan"]["id"], found["plan"]["state"]) == (0, "7", "done")
    (order,) = found["orders"]
    assert requested["executors"] == {"words-1-0": order["executors"]}
    (placed,) = requested["placements"].values()
    running = read_problem(file).topologies[0]
    assert len(placed.slot_of_executor) == with_executors(running, order["executors"]).num_executors
    assert (requested["reason"], requested["applied"]) == ("peak", ("7", "peak"))


def test_apply_is_rejected_when_advised_nodes_are_missing(run, file):
    kinds = ("--node-kind", "large=3000:8:65536:0.9")
    code, _, err = run("advise", file, "--rate", "60000", *kinds, "--apply")
    assert code == 2
    assert "the cluster has not these nodes yet: large-1; add them first" in err


@pytest.mark.long
def test_costs_in_a_file_count(run, file, tmp_path):
    costs = tmp_path / "costs.json"
    costs.write_text('{"schema": "stormwright-calibration/1", "costs": {"worker_cores": 2.5}}')
    dear = orjson.loads(run("advise", file, "--times", "1", "--costs", costs, "--json", "--no-alternatives")[1])
    usual = orjson.loads(run("advise", file, "--times", "1", "--json", "--no-alternatives")[1])
    assert dear["nodes"][0]["cpu"] == pytest.approx(usual["nodes"][0]["cpu"] + (2.5 - 0.031) / 16)
    costs.write_text("{}")
    assert run("advise", file, "--costs", costs)[0] == 2


@pytest.mark.long
def test_ui_answers_in_files_count(run, file, tmp_path):
    answer = {
        "id": "words-1-0",
        "uptimeSeconds": 900,
        "window": "600",
        "spouts": [],
        "bolts": [{"boltId": "split", "emitted": 0, "executed": 12_000_000, "executeLatency": 0.1}],
    }
    path = tmp_path / "ui.json"
    path.write_bytes(orjson.dumps(answer))
    arguments = ("advise", file, "--times", "1", "--json", "--no-alternatives")
    counts = [
        {each["component"]: each["executors"] for each in orjson.loads(run(*command)[1])["components"]}["split"]
        for command in (arguments, (*arguments, "--ui", path))
    ]
    assert counts[0] < counts[1] == 3  # 20,000/s × 0.1 ms are 2 threads, at 80 % 2.5


def test_price_defaults_to_number_of_cores(run, file):
    assert " 16 cores; " in run("advise", file, "--no-alternatives")[1]
