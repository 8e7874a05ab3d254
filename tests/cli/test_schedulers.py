"""``stormwright schedulers``."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest

from stormwright.schedulers.toolkit import registry
from stormwright.schedulers.toolkit.registry import SCHEDULERS


def test_table_has_a_line_a_scheduler(run):
    code, out, err = run("schedulers", "--all")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == [*SCHEDULERS, "java:CLASS[:STRATEGY]"]
    assert all(len(line.split(maxsplit=1)[1]) > 20 for line in lines)


def test_list_for_programs(run):
    code, out, _ = run("schedulers", "--json")
    assert code == 0
    rules = {entry["name"]: entry["rule"] for entry in json.loads(out)["schedulers"]}
    lines = run("schedulers", "--all")[1].splitlines()
    assert [[name, rule] for name, rule in rules.items()] == [line.split(maxsplit=1) for line in lines], (
        "as people read it"
    )


def test_schedulers_command_describes_one_scheduler(run):
    code, out, err = run("schedulers", "--all", "online")
    assert (code, err) == (0, "")
    assert "alpha=1.0  (number from 0 to 1)" in out
    assert "keep_running=false  (true or false)" in out
    assert "\nWhen to use: A running topology" in out
    assert "\nIgnores: Streams, " in out
    assert "\nHonours: CPU, memory, executors per worker, traffic, racks\n" in out
    assert out.count("L. Aniello") == 1
    assert "\nSource: L. Aniello" in out
    assert "\nDifferences from the paper" in out
    assert "Class: stormwright.schedulers.online:OnlineScheduler" in out


def test_parameter_choices_are_listed(run):
    _, out, _ = run("schedulers", "--all", "offline")
    assert "order=given  (given | priority | first_come | shortest_first | fair_share | pools)" in out


def test_scheduler_without_parameters(run):
    _, out, _ = run("schedulers", "--all", "spread")
    assert "It has no parameters." in out


def test_scheduler_description_lists_raised_errors(run):
    _, out, _ = run("schedulers", "--all", "cost_aware")
    assert "\nRaises:\n  InputError\n      On scheduling: prices" in out


@pytest.mark.parametrize("name", ["java:CLASS[:STRATEGY]", "java:ResourceAwareScheduler"])
def test_java_classes_share_a_description(run, name):
    code, out, err = run("schedulers", "--all", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}: Runs a Java `IScheduler`")
    assert "\nIgnores: Measured load and traffic" in out
    assert "  stormwright.java.time.limit.s=1800.0  (number at least 0)\n      seconds" in out
    assert "  KEY=VALUE  (text or JSON)\n      a key of Storm's configuration" in out
    assert "--set 'isolation.scheduler.machines=" in out
    assert "no parameters" not in out


def test_schedulers_json_describes_one_scheduler(run):
    _, out, _ = run("schedulers", "--all", "online", "--json")
    document = json.loads(out)
    assert document["honours"] == ["CPU", "memory", "executors per worker", "traffic", "racks"]
    assert document["when_to_use"]
    assert document["ignores"]
    alpha = next(parameter for parameter in document["parameters"] if parameter["name"] == "alpha")
    assert (alpha["low"], alpha["high"], alpha["default"]) == (0, 1, 1.0)


def test_unknown_name(run):
    code, out, err = run("schedulers", "--all", "onlin")
    assert (code, out) == (2, "")
    assert "onlin: unknown scheduler; did you mean 'online'?" in err
    assert "--scheduler" not in err
    assert "\n  nope: unknown scheduler; there are annealing, " in run("schedulers", "--all", "nope")[2]


@pytest.mark.parametrize("problem", ["no_such_package_at_all:Scheduler", "json:no_such_class"])
def test_broken_plugin_does_not_hide_other_schedulers(run, monkeypatch, problem):
    point = EntryPoint("broken", problem, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    code, out, _ = run("schedulers", "--all")
    assert code == 0
    assert "broken" in out
    assert "cannot be loaded" in out
    assert run("schedulers", "--all", "broken")[0] == 2
