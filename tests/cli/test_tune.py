"""``stormwright tune``: by hand, as a plan of a service."""

from __future__ import annotations

import json

import pytest

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
    code, _, err = run("tune", of.name, *where)
    assert code == 2
    assert "nothing to change: give --set KEY=VALUE or --executors COMPONENT=N" in err
    assert "should be KEY=VALUE, got 'x'" in run("tune", of.name, *where, "--set", "x")[2]
    assert "should be an integer of at least 1, got 'many'" in run("tune", of.name, *where, "--executors", "a=many")[2]
    code, _, err = run("tune", of.name, *where, "--set", "topology.producer.batch.size=20000")
    assert code == 2
    assert "topology.producer.batch.size 20,000 is above half of topology.executor.receive.buffer.size 32,768" in err
    assert "no such topology" in run("tune", "nothing", *where, "--set", f"{PENDING}=10")[2]
