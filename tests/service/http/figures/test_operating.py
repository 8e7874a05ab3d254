"""Metrics of modes and plans."""

from __future__ import annotations

import sqlite3

import pytest

from stormwright.plans.modes import Modes
from stormwright.service.dashboard.scene import Scene
from stormwright.service.http.metrics import Figures, of_modes, of_state
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, State
from tests.controller.builders import on, problem, topology
from tests.service.http.figures.test_cluster import samples


@pytest.fixture
def state(tmp_path):
    opened = State(tmp_path / FILE)
    yield opened
    opened.close()


def test_modes():
    modes = Modes(default="suggest", topologies={"pay-*": "observe"}, frozen="the sale")
    found = samples(of_modes(modes, [("pay-1", "pay-roll"), ("wc-1", "wc")]))
    assert [found["stormwright_mode", (mode,)] for mode in ("observe", "suggest", "auto")] == [0, 1, 0]
    assert found["stormwright_frozen", ()] == 1
    own = {labels for name, labels in found if name == "stormwright_topology_mode"}
    assert own == {("pay-1", "observe"), ("wc-1", "suggest")}


def test_plans_and_history_are_counted(state):
    plans, journal = PlanStore(state), Journal(state)
    ids = [plans.add("person", "throughput", "anna", "why", {}) for _ in range(3)]
    plans.transition(ids[0], "failed", "no")
    journal.add_entry("modes", "anna", "why")
    found = samples(of_state(state))
    assert found["stormwright_plans", ("person", "planning")] == 2
    assert found["stormwright_plans", ("person", "failed")] == 1
    assert found["stormwright_done", ("modes",)] == 1


def test_unreadable_state_omits_its_metrics(state, monkeypatch, caplog):
    def locked(*_: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(state, "read", locked)
    assert not list(of_state(state))
    assert "database is locked" in caplog.text


def test_metrics_contain_modes_before_first_poll_and_cluster_afterwards(state):
    wanted = topology("t")
    scenes = iter([None, Scene.of(problem([wanted], current={wanted.id: on("n0")}))])
    ages = iter([float("inf"), 0.0])
    figures = Figures(lambda: next(scenes), lambda: next(ages), Modes, state)
    before, after = samples(figures("topology")), samples(figures("worker"))
    assert before["stormwright_mode", ("observe",)] == 1
    assert not any(name.startswith("stormwright_topology") for name, _ in before)
    assert before["stormwright_snapshot_age_seconds", ()] > after["stormwright_snapshot_age_seconds", ()] == 0
    assert after["stormwright_topology_executors", (wanted.id,)] == 4
    assert after["stormwright_worker_executors", (wanted.id, "host0", "6700")] == 4
