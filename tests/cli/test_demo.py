"""``stormwright demo``, but for the cluster."""

from __future__ import annotations

import signal
from dataclasses import replace
from types import SimpleNamespace

import orjson
import pytest

from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.workbench.demo import run as running
from tests.workbench.demo.results import demo_result, rolled_back


@pytest.fixture
def calls(monkeypatch):
    """The settings that a demonstration was run with."""
    found = []
    monkeypatch.setattr(running, "run_demo", lambda settings, then: found.append(settings) or better())
    monkeypatch.setattr(running, "why_no_cpu_limits", lambda cores: "only root can make control groups")
    return found


def better():
    result = demo_result()
    (topology,) = result.topologies
    before = replace(topology.before, inter_node_per_acked=15.0)
    return replace(result, topologies=[replace(topology, before=before)])


@pytest.mark.long
def test_demo_prints_and_writes_all_results(run, calls, tmp_path):
    code, out, _ = run("demo", "--output", tmp_path / "new")
    assert code == 0
    assert "nodes share the machine's cores: only root can make control groups" in out
    assert "under even: fullest was the CPU of node n0, 95%; predicted limit: the CPU of node n0 (words)" in out
    assert (calls[0].scheduler_name, calls[0].cluster.link) == (DEFAULT_SCHEDULER, "40mbit")
    assert [len(each.submissions) for each in calls] == [1, 2], "a lone topology, then two together"
    assert all((tmp_path / "new" / scene / "report.html").exists() for scene in ("alone", "together"))
    options = ("--scheduler", "even", "--link", "1mbit", "--json")
    code, out, _ = run("demo", "--output", tmp_path, *options, "--topology", "word-count")
    assert code == 0
    assert orjson.loads(out) == orjson.loads((tmp_path / "result.json").read_bytes())
    assert (calls[2].scheduler_name, calls[2].cluster.link) == ("even", "1mbit")
    code, out, _ = run("demo", "--output", tmp_path, *options)
    assert [*orjson.loads(out)] == ["alone", "together"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "from_scratch", "expected"),
    [
        (["--scheduler", "even"], True, ""),
        (
            ["--scheduler", "even", "--keep-running"],
            False,
            "even moves no running executor, so nothing will ever move",
        ),
        (["--scheduler", "online"], False, ""),
        (["--scheduler", "online", "--from-scratch"], True, ""),
    ],
)
def test_demo_moves_even_placement_regardless_of_gain(run, calls, tmp_path, arguments, from_scratch, expected):
    code, out, _ = run("demo", "--output", tmp_path, *arguments)
    assert code == 0
    assert isinstance(calls[0].scheduler, FromScratchScheduler) == from_scratch
    assert (calls[0].adapts.gains == ()) == from_scratch
    assert calls[0].adapts.on_period
    assert expected in out
    assert ("nothing will ever move" in out) == bool(expected)


@pytest.mark.slow
def test_demo_looks_back_only_for_own_scheduler_unless_overridden(run, calls, tmp_path):
    for arguments, look_back in (
        ([], True),
        (["--no-look-back"], False),
        (["--scheduler", "online"], False),
        (["--scheduler", "online", "--look-back", "--rounds", 5, "--decisions", 1], True),
    ):
        assert run("demo", "--output", tmp_path, *arguments)[0] == 0
        assert calls[-1].look_back == look_back
    assert (calls[0].rounds, calls[0].decisions) == (2, 2)
    assert (calls[-1].rounds, calls[-1].decisions) == (5, 1)


@pytest.mark.parametrize("option", ["--rounds", "--decisions"])
@pytest.mark.parametrize("number", [0, 6])
def test_number_of_rounds_and_decisions_has_limits(run, calls, option, number):
    assert run("demo", option, number)[0] == 2
    assert not calls


@pytest.mark.long
def test_demo_reports_rollback_as_success(run, calls, monkeypatch, tmp_path):
    result = rolled_back()
    monkeypatch.setattr(running, "run_demo", lambda settings, then: result)
    code, out, _ = run("demo", "--output", tmp_path, "--topology", "word-count")
    assert code == 0
    assert result.trials[0].text in out
    found = orjson.loads((tmp_path / "result.json").read_bytes())
    assert (found["verdict"], found["improved"]) == ("rolled back", False)
    assert found["decisions"][0]["cpu_us_per_tree"]["corrected_us"] == 52
    assert "corrected from 36 to 52 µs" in out


@pytest.mark.long
@pytest.mark.parametrize(("lost", "expected"), [(0, "nothing improved"), (3, "tuples were lost")])
def test_demo_exit_code_reports_failure(run, calls, monkeypatch, tmp_path, lost, expected):
    result = demo_result()
    first = result.topologies[0]
    topologies = [replace(first, after=first.before, lost=lost)]
    monkeypatch.setattr(running, "run_demo", lambda settings, then: replace(result, topologies=topologies))
    code, out, _ = run("demo", "--output", tmp_path)
    assert code == 1
    assert expected in out


def test_demo_rejects_invalid_sizes(run, calls):
    code, _, err = run("demo", "--nodes", 0, "--link", "fast")
    assert code == 2
    assert "$.nodes" in err
    assert "must be a rate such as 40mbit" in err


@pytest.mark.long
def test_demo_keep_serves_dashboard_until_interrupted(run, calls, monkeypatch, tmp_path):
    done = []
    nimbus = SimpleNamespace(activate=lambda name: done.append(f"activate {name}"))
    settings = SimpleNamespace(host="10.9.8.7", port=7171)
    service = SimpleNamespace(nimbus=nimbus, settings=settings, run=lambda stop: done.append("run"))

    def demonstrate(_, then):
        result = better()
        then(result, service)
        assert (tmp_path / "report.html").exists(), "what was found is told before it goes on"
        return result

    monkeypatch.setattr(running, "run_demo", demonstrate)
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        code, _, err = run("demo", "--output", tmp_path, "--topology", "word-count", "--keep")
    finally:
        for each, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(each, handler)
    assert code == 0
    assert done == [*(f"activate {topology.name}" for topology in better().topologies), "run"]
    assert "the dashboard is at http://10.9.8.7:7171; Ctrl-C stops cluster and service" in err
    code, _, err = run("demo", "--keep", "--simulated")
    assert (code, "--keep: a virtual cluster ends with the demonstration" in err) == (2, True)
