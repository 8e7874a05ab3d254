"""Schedulers of other packages that are broken, in every verb that uses one: reported by name; nothing else breaks."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from stormwright.errors import SchedulerError
from stormwright.formats import read_problem
from stormwright.model import Assignment, Unplaced
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit import registry
from stormwright.schedulers.toolkit.params import NoParams, Params, param
from stormwright.schedulers.toolkit.plugin_guard import PluginScheduler
from stormwright.schedulers.toolkit.traits import declared

WORD_COUNT = Path(__file__).parents[2] / "docs" / "schedulers" / "word-count.json"
TOPOLOGY = "word-count-1-1600000000"


class Plugin:
    """Answers as `even` does; what derives from it goes wrong in one way."""

    params_type: object = NoParams

    def __init__(self, params=None):
        self.params = params

    def schedule(self, problem):
        return self.spoil(make_scheduler("even").schedule(problem))

    def spoil(self, answer):
        return answer


def spoiling(spoil):
    return type("Spoiling", (Plugin,), {"spoil": lambda _, answer: spoil(answer)})


def slots(change):
    return spoiling(lambda answer: replace(answer, slot_of_executor=change(answer.slot_of_executor)))


def raising(error):
    def spoil(_):
        raise error

    return spoiling(spoil)


class GhastlyError(Exception):
    def __str__(self):
        raise ValueError


@dataclass(frozen=True, kw_only=True)
class ListParams(Params):
    weights: tuple = param((1, 2), "of no type that a parameter may have")


#: What is wrong with an answer, or how there is none → what is told of it.
ANSWERS = {
    "dictionary": (spoiling(lambda _: {"slots": []}), "should be an Assignment, not a value of the type dict"),
    "nothing": (spoiling(lambda _: None), "should be an Assignment"),
    "list": (slots(lambda own: own.tolist()), "should be an array of integers, not a value of the type list"),
    "floats": (slots(lambda own: own.astype(float)), "should be an array of integers, not of float64"),
    "short": (slots(lambda own: own[:-1]), "should have the shape (28,), not (27,)"),
    "square": (slots(lambda own: np.stack([own, own])), "should have the shape (28,), not (2, 28)"),
    "negative": (slots(lambda own: own * 0 - 5), "should be from -1 to 11, and is -5 for executor 0 (28 such"),
    "beyond": (slots(lambda own: own + 1000), "should be from -1 to 11, and is 10"),
    "huge": (slots(lambda own: own.astype(np.uint64) + 2**40), "should be from -1 to 11, and is 10995"),
    "parameters": (spoiling(lambda a: replace(a, parameters={"x": {1, 2}})), "parameters are nothing that JSON can"),
    "half a pair": (spoiling(lambda a: replace(a, status={TOPOLOGY: "\ud800"})), "half of a character"),
    "strange status": (spoiling(lambda a: replace(a, status={"nobody": "x"})), "status is about topology 'nobody'"),
    "placed and not": (
        spoiling(lambda a: replace(a, unplaced=(Unplaced(TOPOLOGY, 0, "spout", ("0 reasons",)),))),
        f"executor 0 of {TOPOLOGY!r} has a slot",
    ),
    "strange executor": (
        spoiling(lambda a: replace(a, unplaced=(Unplaced(TOPOLOGY, 99, "spout", ()),))),
        f"executor 99 of {TOPOLOGY!r} is among the unplaced, and not in the problem",
    ),
    "time": (spoiling(lambda a: replace(a, seconds=float("nan"))), "seconds should be a number"),
    "error": (raising(ArithmeticError("as it was told")), "failed: ArithmeticError: as it was told"),
    "exit": (raising(SystemExit(0)), "failed: SystemExit: 0"),
    "generator": (raising(GeneratorExit()), "failed: GeneratorExit"),
    "base": (raising(BaseException("no one's")), "failed: BaseException: no one's"),
    "ghastly": (raising(GhastlyError()), "failed: GhastlyError"),
}

#: Modules whose import goes wrong, or that hold no scheduler → what is told of it.
IMPORTS = {
    "raises": ("raise RuntimeError('no luck today')", "cannot be loaded: RuntimeError: no luck today"),
    "exits": ("import sys; sys.exit(0)", "cannot be loaded: SystemExit: 0"),
    "no_syntax": ("def f(:", "cannot be loaded: SyntaxError"),
    "absent": ("import no_such_package_at_all", "cannot be loaded: No module named 'no_such_package_at_all'"),
    "a_number": ("Scheduler = 7", "should be a class with a method schedule(problem), not 7"),
    "no_method": ("class Scheduler: params_type = int", "should be a class with a method schedule(problem)"),
    "no_params": (
        "class Scheduler:\n    schedule = len",
        "its class should say `params_type = NoParams` (of stormwright.schedulers.toolkit.params), or a type of its",
    ),
    "wrong_params": (
        "class Scheduler:\n    params_type = int\n    schedule = len",
        "its params_type should be a class derived from Params, such as NoParams, not <class 'int'>",
    ),
    "wrong_parameter": (
        "import tests.cli.test_plugins as own\nclass Scheduler(own.Plugin): params_type = own.ListParams",
        "its parameter 'weights' should be made with param()",
    ),
    "traits": (
        "from tests.cli.test_plugins import Plugin\nclass Scheduler(Plugin): heeds_tags = 'gpu'",
        "its attribute 'heeds_tags' should be of the type that Traits says",
    ),
    "cannot_be_made": (
        "from tests.cli.test_plugins import Plugin\nclass Scheduler(Plugin):\n    def __init__(self, params): 1 / 0",
        "cannot be made: ZeroDivisionError",
    ),
}


@pytest.fixture
def offer(monkeypatch):
    """Offer classes as other packages' schedulers, by name."""

    def it(**kinds):
        points = [EntryPoint(name, f"package:{name}", registry.ENTRY_POINT_GROUP) for name in kinds]
        monkeypatch.setattr(registry, "entry_points", lambda group: points)
        monkeypatch.setattr(EntryPoint, "load", lambda point: kinds[point.name])

    return it


@pytest.fixture
def modules(monkeypatch, tmp_path):
    """Offer every module of `IMPORTS`."""
    for name, (text, _) in IMPORTS.items():
        (tmp_path / f"plugin_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(name, f"plugin_{name}:Scheduler", registry.ENTRY_POINT_GROUP) for name in IMPORTS]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


def one_sentence_about(name, text):
    """It names the scheduler and is no list, no traceback and no report of a bug of ours."""
    return f"'{name}'" in text and "Traceback" not in text and "a bug" not in text and text.count("\n") == 1


@pytest.mark.parametrize("wrong", ANSWERS)
def test_schedule_reports_invalid_scheduler_answer(run, offer, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, message = ANSWERS[wrong]
    offer(spoilt=kind)
    code, out, err = run("schedule", WORD_COUNT, "--scheduler", "spoilt", "--json", "--output=answer.json")
    assert (code, out) == (2, "")
    assert message in err
    assert one_sentence_about("spoilt", err)
    assert not Path("answer.json").exists()


def test_compare_continues_after_invalid_scheduler_answer(run, offer):
    offer(**{name.replace(" ", "_"): kind for name, (kind, _) in ANSWERS.items()})
    code, out, _ = run("compare", WORD_COUNT, "--schedulers", f"even,{','.join(ANSWERS).replace(' ', '_')}", "--json")
    rows = {row["scheduler"]: row for row in json.loads(out)["schedulers"]}
    assert code == 1
    assert rows["even"]["error"] is None
    for name, (_, message) in ANSWERS.items():
        assert message in rows[name.replace(" ", "_")]["error"]


@pytest.mark.parametrize("name", IMPORTS)
def test_schedule_reports_plugin_load_failure(run, modules, name):
    code, out, err = run("schedule", WORD_COUNT, "--scheduler", name)
    assert (code, out) == (2, "")
    assert IMPORTS[name][1] in err
    assert one_sentence_about(name, err)


def test_compare_all_continues_after_plugin_load_failure(run, modules):
    """`all` is cut down to one of ours, which takes no seconds."""
    names = ["even", *IMPORTS]
    code, out, _ = run("compare", WORD_COUNT, "--schedulers", ",".join(names), "--json")
    rows = {row["scheduler"]: row["error"] for row in json.loads(out)["schedulers"]}
    assert code == 1
    assert rows.pop("even") is None
    assert all(IMPORTS[name][1] in error and f"'{name}'" in error for name, error in rows.items())
    assert set(rows) == set(IMPORTS)


def test_schedulers_command_lists_broken_plugins(run, modules):
    code, out, _ = run("schedulers", "--all")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert lines["even"].endswith("as possible.")
    for name, (_, message) in IMPORTS.items():
        if name != "cannot_be_made":  # nobody can tell from the class alone
            assert "broken: " in lines[name]
            assert message in lines[name]


def test_broken_plugin_does_not_hide_other_schedulers_in_python_api(modules):
    import stormwright as sw

    listed = sw.schedulers()
    assert listed["even"].rule.startswith("Distributes")
    assert "SystemExit" in listed["exits"].rule


def test_objects_are_checked_at_a_prompt(modules):
    import stormwright as sw

    problem = sw.read_problem(WORD_COUNT)
    with pytest.raises(SchedulerError, match=r"the answer of scheduler 'Spoiling' cannot be used: .* is -5"):
        sw.place(problem, ANSWERS["negative"][0]())
    (row,) = sw.compare(problem, {"mine": ANSWERS["negative"][0]()}).rows
    assert "the answer of scheduler 'mine' cannot be used" in row.error


def test_executors_without_a_slot_and_a_reason(run, offer):
    offer(silent=spoiling(lambda a: Assignment(np.full_like(a.slot_of_executor, -1))))
    code, out, _ = run("schedule", WORD_COUNT, "--scheduler", "silent")
    assert code == 1
    assert f"unplaced: 28 executors\n  28 of {TOPOLOGY}: the scheduler gave no reason\n" in out
    assert json.loads(run("schedule", WORD_COUNT, "--scheduler", "silent", "--json")[1])["scheduler"] == "silent"


def test_plugin_prints_go_to_standard_error(offer, capfd):
    """Nor what a child process of it does."""
    from stormwright import cli

    def talkative(answer):
        import subprocess

        print("from Python")
        subprocess.run(["echo", "from a child"], check=True)
        return answer

    offer(talkative=spoiling(talkative))
    assert cli.run(["schedule", str(WORD_COUNT), "--scheduler", "talkative", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["scheduler"] == "even"
    assert "from Python" in err
    assert "from a child" in err


def test_ctrl_c_is_still_ctrl_c(run, offer):
    offer(slow=raising(KeyboardInterrupt()))
    assert run("schedule", WORD_COUNT, "--scheduler", "slow")[0] == 130


class Leaving(Plugin):
    """Ends the process without a word."""

    def schedule(self, problem):
        os._exit(0)


class Forking(Plugin):
    """Lets a child process end as processes do that were forked."""

    def schedule(self, problem):
        if (child := os.fork()) == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        return super().schedule(problem)


def test_plugin_cannot_end_the_program_without_a_message():
    problem = read_problem(WORD_COUNT)
    guarded = PluginScheduler("leaving", Leaving(), NoParams(), declared(Leaving))
    with pytest.raises(SchedulerError, match=r"'leaving' failed: SystemExit: os._exit\(0\)"):
        guarded.schedule(problem)
    assert os._exit.__module__ == "posix"
    assert PluginScheduler("forking", Forking(), NoParams(), declared(Forking)).schedule(problem).scheduler == "even"
