"""``stormwright compare``: exit codes, table, JSON and the report."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib.metadata import EntryPoint

import numpy as np
import orjson
import pytest

from stormwright.explain import drawing
from stormwright.formats import problem_to_dict, read_problem
from stormwright.model import UNPLACED, cost_of, diff
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit import registry
from tests.case_files import all_cases
from tests.formats.documents import small

CASES = all_cases()
PLACEABLE = CASES["m03_5topo100_n12_r2"]
TOO_SMALL = CASES["m11-isolation-not-enough"]
PARTLY_RUNNING = CASES["m37-two-lost-executors"]

VOID = {"meta", "link", "br", "path", "line", "polyline", "circle"}


class Page(HTMLParser):
    """Checks nesting, and collects classes and everything that would load something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.classes, self.loaded = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.classes += [(tag, name) for name in (dict(attributes).get("class") or "").split()]
        self.loaded += [value for key, value in attributes if key in ("src", "href", "data")]

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class Failing:
    """A plugin with a bug."""

    params_type = registry.scheduler_type("even").params_type

    def __init__(self, params):
        self.params = params

    def schedule(self, problem):
        raise ZeroDivisionError("a <b>bug</b>")


@pytest.fixture
def plugins(monkeypatch):
    points = [
        EntryPoint("failing", f"{__name__}:Failing", registry.ENTRY_POINT_GROUP),
        EntryPoint("absent", "no_such_package_at_all:Scheduler", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    load = EntryPoint.load
    monkeypatch.setattr(EntryPoint, "load", lambda self: Failing if self.name == "failing" else load(self))


def test_table_shows_and_is_sorted_by_reachable_rates(run):
    code, out, err = run("compare", PLACEABLE, "--schedulers", "even,online")
    assert code == 0
    lines = out.splitlines()
    assert lines[1].startswith("No placement sustains the measured rates. The highest rates are 0.988 times")
    assert lines[2].split()[:3] == ["rates", "cost", "in"]
    assert [line.split()[0] for line in lines[3:5]] == ["online", "even"]
    assert "5 broken" in lines[4]
    assert lines[3].split()[1] == "!×"
    assert lines[3].split()[3][0].isdigit()
    assert lines[4].split()[3].startswith("*")
    assert "\n! too low: " in out
    assert "\n* not comparable: " in out
    assert "even: node-00002: CPU 14.46 of 12.8 GHz" in out
    assert "1 of 2: even …\n" in err


def test_compare_reports_unplaced_executors_with_reasons(run):
    code, out, _ = run("compare", TOO_SMALL, "--schedulers", "even")
    assert code == 1
    assert "unplaced" in out.splitlines()[2]
    assert re.search(r"even: \d+ of \S+ unplaced: .*\d", out)


@pytest.mark.slow
def test_compare_all_mentions_omitted_java_schedulers(run):
    _, out, _ = run("compare", PARTLY_RUNNING, "--schedulers", "all")
    assert "\nall has no Java schedulers: --schedulers all,java:ResourceAwareScheduler adds one\n" in out
    assert "Java" not in run("compare", PARTLY_RUNNING, "--schedulers", "even")[1]


def test_compare_includes_current_placement_as_row(run):
    _, out, _ = run("compare", PARTLY_RUNNING, "--schedulers", "even,online")
    assert "(current placement)" in out


def test_failing_scheduler_is_reported_as_row_beside_the_others(run, plugins, tmp_path):
    report = tmp_path / "report.html"
    code, out, err = run("compare", PLACEABLE, "--schedulers", "failing,absent,even", "--output", report)
    assert code == 1
    assert [line.split()[0] for line in out.splitlines()[3:6]] == ["even", "absent", "failing"]
    assert "failing failed: scheduler 'failing' failed: ZeroDivisionError: a <b>bug</b>" in out
    assert "absent failed: scheduler 'absent' (no_such_package_at_all:Scheduler) cannot be loaded" in out
    assert "Traceback" not in out + err
    assert "a &lt;b&gt;bug&lt;/b&gt;" in report.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-file"], "cannot be read: No such file"),
        ([PLACEABLE, "--schedulers", "onlin"], "did you mean 'online'?"),
        ([PLACEABLE, "--schedulers", ","], "names no scheduler"),
        ([PLACEABLE, "--schedulers", ""], "1 fault\n  names no scheduler"),
        ([PLACEABLE, "--schedulers", "even", "--set", "alpha=1"], "should be NAME.key=value, NAME one of even"),
        ([PLACEABLE, "--schedulers", "online", "--set", "online.alpha=3"], "should be from 0 to 1"),
        ([PLACEABLE, "--schedulers", "even", "--output", "/"], "/: is a directory, and a file is to be written"),
        ([PLACEABLE, "--schedulers", "even", "--output", PLACEABLE], "is read here, and would be overwritten"),
        ([PLACEABLE, "--schedulers", "even", "--output", "/dev/null/report.html"], "cannot be written: /dev/null: "),
    ],
)
def test_bad_input(run, arguments, message):
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert "of 1: even" not in err, "told before the work"


def test_json_has_every_figure(run):
    options = ["--schedulers", "even,online", "--set", "online.alpha=0", "--keep-running", "--json"]
    code, out, err = run("compare", PARTLY_RUNNING, *options)
    document = json.loads(out)
    problem = read_problem(PARTLY_RUNNING)
    assert "online took" in err
    assert document["problem"]["executors"] == problem.num_executors
    assert document["current"]["cost"]["total"] == cost_of(problem, problem.current_slot).total
    rows = {row["scheduler"]: row for row in document["schedulers"]}
    assert rows["online"]["parameters"]["alpha"] == 0.0
    even = make_scheduler("even").schedule(problem).slot_of_executor
    assert rows["even"]["cost"]["total"] == cost_of(problem, even).total
    assert rows["even"]["unplaced"] == np.count_nonzero(even == UNPLACED)
    assert (code == 0) == all(row["unplaced"] == 0 for row in rows.values())
    assert rows["even"]["error"] is None
    assert rows["even"]["seconds"] > 0


def test_compare_runs_each_scheduler_from_scratch(run):
    """What moves and what is restarted for it is counted against what runs."""
    problem = read_problem(PARTLY_RUNNING)
    _, out, _ = run("compare", PARTLY_RUNNING, "--schedulers", "even,offline,binpack", "--json")
    for row in json.loads(out)["schedulers"]:
        first = make_scheduler(row["scheduler"]).schedule(problem.with_current({})).slot_of_executor
        assert row["cost"]["total"] == pytest.approx(cost_of(problem, first).total)
        assert row["moved_executors"] <= len(diff(problem, problem.current_slot, first).moved_executors)
        assert row["restarted_workers"] <= len(np.unique(problem.current_slot[problem.current_slot != UNPLACED]))


def test_compare_passes_current_placement_to_schedulers_limiting_moves(run):
    near = ["--schedulers", "optimizer", "--set", "optimizer.max_moves=0", "--set", "optimizer.iterations=100"]
    _, out, _ = run("compare", PARTLY_RUNNING, *near, "--json")
    (row,) = json.loads(out)["schedulers"]
    assert row["moved_executors"] == 0
    code, out, err = run("compare", PARTLY_RUNNING, *near, "--from-scratch")
    assert (code, out) == (2, "")
    assert (
        "optimizer: stays near the current placement and cannot also place from scratch: leave out one of them" in err
    )


def test_report_draws_every_executor_of_every_placement(run, tmp_path):
    report = tmp_path / "report.html"
    code, out, _ = run("compare", PARTLY_RUNNING, "--schedulers", "even,online", "--output", report)
    page = Page(report.read_text())
    problem = read_problem(PARTLY_RUNNING)
    assert f"report: {report}" in out
    assert page.loaded == [], "needs no other file"
    assert page.classes.count(("div", "node")) == 3 * len(problem.supervisors)
    placements = [
        problem.current_slot,
        *(make_scheduler(name).schedule(problem).slot_of_executor for name in ("even", "online")),
    ]
    marks = len(re.findall(r'<i style="background: [^"]+" title="[^"]+, executor \d+', report.read_text()))
    assert marks == sum(np.count_nonzero(slots != UNPLACED) for slots in placements)
    assert page.classes.count(("div", "worker")) == sum(len(set(slots.tolist()) - {UNPLACED}) for slots in placements)
    assert code in (0, 1)


def test_report_of_a_big_problem_has_bars(run, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "MAX_EXECUTORS_SHOWN", 10)
    report = tmp_path / "report.html"
    run("compare", PLACEABLE, "--schedulers", "online,even", "--output", report)
    page = Page(report.read_text())
    problem = read_problem(PLACEABLE)
    assert ("div", "node") not in page.classes
    paths = re.findall(r'<path d="([^"]+)"', report.read_text())
    assert [path.count("h1") for path in paths] == [len(problem.supervisors)] * 6
    assert "highest 292% of its capacity" in report.read_text(), "1.1663e10 of 4e9 Hz on sup-00007, see above"
    assert report.read_text().count("<line ") == 2, "where 100 % is, on one scale for both"


def test_names_cannot_break_the_report(run, tmp_path):
    name = "<script>alert(1)</script>"
    document = small("topologies", 0, "components", 0, "id", value=name)
    document["topologies"][0]["components"][1]["inputs"][0]["from"] = name
    document["name"] = "</title><script>"
    document["supervisors"][0]["host"] = '"><script>'
    path = tmp_path / "problem.json"
    path.write_bytes(orjson.dumps(document))
    code, _, _ = run("compare", path, "--schedulers", "even", "--output", tmp_path / "report.html")
    assert code == 0
    assert "<script>" not in (tmp_path / "report.html").read_text()


def test_colours_differ_between_components():
    document = problem_to_dict(read_problem(PLACEABLE))
    assert document["topologies"]
    colours = [colour for own in drawing.component_colours(read_problem(PLACEABLE)) for colour in own]
    assert len(set(colours)) == len(colours)
