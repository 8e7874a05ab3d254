"""``stormwright tune``: by hand, as a plan of a service, and by trials."""

from __future__ import annotations

import json

import pytest
import yaml

from stormwright.client import Client
from stormwright.client.shapes import Tunings
from stormwright.plans.figures import Range
from stormwright.plans.tuning import Tuning, TuningAim, TuningTrial
from tests.service.http.test_api import HOST, nimbus, port, running  # noqa: F401 (fixtures)
from tests.service.plans.nimbus import Nimbus

PENDING = "topology.max.spout.pending"


@pytest.mark.long
def test_configuration_is_changed_as_a_plan_and_reverted(run, nimbus: Nimbus, port: int, running: None) -> None:  # noqa: F811
    of = nimbus.now().topologies[0]
    where = ("--service", f"http://{HOST}:{port}", "--by", "anna")
    code, out, err = run("tune", of.name, *where, "--set", f"{PENDING}=1000", "--reason", "for more", "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    shown = run("plan", "--show", plan["id"], *where)
    assert f"{of.name}: {PENDING} unset → 1000" in shown[1], shown
    before = nimbus.where()
    code, out, err = run("apply", plan["id"], *where)
    assert (code, err) == (0, "")
    assert nimbus.now().topologies[0].conf[PENDING] == 1000
    assert nimbus.where() == before
    assert run("tune", of.name, *where, "--set", f"{PENDING}=1000")[1].count("everything is where it should be") == 1
    code, out, err = run("revert", 1, *where)
    assert (code, err) == (0, "")
    assert nimbus.now().topologies[0].conf[PENDING] is None


def test_wrong_changes_are_refused_with_the_reason(run, nimbus: Nimbus, port: int) -> None:  # noqa: F811
    of = nimbus.now().topologies[0]
    where = ("--service", f"http://{HOST}:{port}")
    assert "should be KEY=VALUE, got 'x'" in run("tune", of.name, *where, "--set", "x")[2]
    assert "should be an integer of at least 1, got 'many'" in run("tune", of.name, *where, "--executors", "a=many")[2]
    code, _, err = run("tune", of.name, *where, "--set", "topology.producer.batch.size=20000")
    assert code == 2
    assert "topology.producer.batch.size 20,000 is above half of topology.executor.receive.buffer.size 32,768" in err
    assert "no such topology" in run("tune", "nothing", *where, "--set", f"{PENDING}=10")[2]
    assert "no such component" in run("tune", of.name, *where, "--executors", "nothing=2")[2]
    assert not json.loads(run("plan", "--list", *where, "--json")[1])["plans"]


TUNING = Tuning(
    id="ab12",
    topology="words-1-0",
    name="words",
    by="anna",
    reason="faster",
    begun_ms=0,
    aim=TuningAim(latency_ms=20.0),
    max_trials=6,
    max_pause_s=600.0,
    state="done",
    why="no further change is left to try",
    trials=(
        TuningTrial(
            plan="p1",
            executors={"split": 3},
            conf={PENDING: 400},
            predicted=Range(value=1.5, low=1.2, high=1.8),
            measured=Range(value=1.4, low=1.3, high=1.5),
            latency=0.8,
            pause_s=9.0,
            state="better",
        ),
        TuningTrial(
            plan="p2", predicted=Range(value=1.1, low=1.0, high=1.2), state="taken back", placed=True, why="it is worse"
        ),
    ),
)


def test_trials_are_shown_as_they_come_and_as_a_table(run, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter([TUNING.model_copy(update={"state": "running", "trials": ()}), TUNING])
    calls: list[tuple[object, ...]] = []

    def tune(_: Client, *arguments: object, **more: object) -> Tuning:
        calls.append((*arguments, more))
        return next(steps)

    monkeypatch.setattr(Client, "tune", tune)
    monkeypatch.setattr(Client, "tuning", lambda *_: next(steps))
    monkeypatch.setattr("stormwright.cli.tune._POLL_S", 0.0)
    code, out, err = run("tune", "words", "--p99-ms", "50", "--trials", "3", "--all")
    assert code == 0
    more = {"any_latency": False, "trials": 3, "pauses_s": 600.0, "dry_run": False}
    assert calls == [("words", "a better configuration", TuningAim(p99_ms=50.0), more)]
    assert "`stormwright tune words --stop` ends it" in err
    assert "split 3, max.spout.pending 400" in out
    assert "×1.40 (1.30 to 1.50)" in out
    assert "rate ×1.40, latency ×0.80, paused for 9 s in all" in out
    assert "trial 2: it is worse" in out


def test_tuning_is_shown_and_stopped(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "tuning", lambda *_: TUNING)
    monkeypatch.setattr(Client, "stop_tuning", lambda *_: TUNING.model_copy(update={"state": "stopped", "trials": ()}))
    code, out, err = run("tune", "words", "--show", "--json")
    assert (code, err, json.loads(out)["trials"][1]["placed"]) == (0, "", True)
    assert "its configuration is as before" in run("tune", "words", "--stop")[1]
    stopped = {"state": "stopped", "plan": "p1", "trials": (TUNING.trials[0].model_copy(update={"state": "running"}),)}
    monkeypatch.setattr(Client, "stop_tuning", lambda *_: TUNING.model_copy(update=stopped))
    out = run("tune", "words", "--stop")[1]
    assert "is being taken back" in out
    assert "as before" not in out
    assert "9.0 s" not in out, "a trial under way has no pause yet"


def test_changes_are_exported_for_flux(run, monkeypatch: pytest.MonkeyPatch) -> None:
    first = TUNING.trials[0].model_copy(update={"executors": {"lines": 1, "split": 4, "__acker": 1}})
    older = TUNING.model_copy(update={"id": "0", "trials": (first,)})
    other = older.model_copy(update={"name": "other"})
    newest = TUNING.model_copy(update={"spouts": ("lines",)})
    monkeypatch.setattr(Client, "tuning", lambda *_: newest)
    monkeypatch.setattr(Client, "tunings", lambda _: Tunings(tunings=(newest, other, older)))
    code, out, err = run("tune", "words", "--export")
    assert (code, err) == (0, "")
    assert yaml.safe_load(out) == {
        "name": "words",
        "config": {PENDING: 400, "topology.acker.executors": 1},
        "spouts": [{"id": "lines", "parallelism": 1}],
        "bolts": [{"id": "split", "parallelism": 3}],
    }
    assert json.loads(run("tune", "words", "--export", "--json")[1]) == yaml.safe_load(out)
    monkeypatch.setattr(Client, "tunings", lambda _: Tunings(tunings=()))
    code, out, err = run("tune", "words", "--export")
    assert (code, out) == (2, "")
    assert "no trial of a tuning stayed" in err


def test_options_without_effect_are_faults(run) -> None:
    for given, text in (
        (("--rate", "100"), "--rate: has a meaning with --least-cores only"),
        (("--set", "a=1", "--trials", "3"), "--trials: has no effect: --set and --executors change it by hand"),
        (("--stop", "--dry-run"), "--dry-run: has no effect: --stop begins no tuning"),
        (("--latency-ms", "0"), "--latency-ms"),
        (("--latency-ms", "nan"), "nan"),
        (("--any-latency", "--p99-ms", "9"), "--any-latency: contradicts --latency-ms and --p99-ms"),
    ):
        code, _, err = run("tune", "words", *given)
        assert code == 2
        assert text in err


def test_topology_without_measurements_waits(run, nimbus: Nimbus, port: int) -> None:  # noqa: F811
    of = nimbus.now().topologies[0]
    where = ("--service", f"http://{HOST}:{port}")
    assert "no topology nothing" in run("tune", "nothing", *where)[2]
    assert "there is no tuning" in run("tune", of.name, *where, "--show")[2]
    client = Client(f"http://{HOST}:{port}", "anna")
    begun = client.tune(of.name, "faster")
    assert client.tunings().tunings == (begun,)
    nimbus.plan_service.tunings.advance()
    found = client.tuning(of.name)
    assert (found.state, found.why) == ("running", "waits until it is measured for 50 s")
    assert "-" in of.id, "names have dashes as well"
    assert client.tuning(of.id) == found
    assert client.stop_tuning(begun.id, "enough").state == "stopped"
