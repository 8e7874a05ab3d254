"""What the running service does when a part of it has ended."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stormwright.controller.planning.order import MoveBudget
from stormwright.errors import StormwrightError
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service import composition
from stormwright.service.auth.middleware import AuthMiddleware
from stormwright.service.auth.settings import AccessSettings
from stormwright.service.auth.tokens import Tokens
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from tests.schedulers.builders import load, nodes, problem, topology


class EndedLoop:
    running = False
    error = "Spark has ended: connection refused"


def test_the_service_ends_when_spark_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could only look on while records pile up; what supervises it starts it again."""
    service = Service(ServiceSettings(tmp_path, "127.0.0.1", 0), make_scheduler("online"), "online", [])
    monkeypatch.setattr(service.stream, "_loop", EndedLoop())
    with pytest.raises(StormwrightError, match=r"Spark has ended: connection refused; restart the service"):
        service.run(threading.Event(), every_s=0)


@pytest.mark.parametrize(
    ("name", "settings", "percent"),
    [("online", {}, 100), ("online", {"capacity": 80}, 80), ("optimizer", {}, 100), ("even", {}, 100)],
)
def test_overload_threshold_equals_scheduler_cpu_limit(
    tmp_path: Path, name: str, settings: dict[str, object], percent: float
) -> None:
    service = Service(ServiceSettings(tmp_path, "127.0.0.1", 0), make_scheduler(name, settings), name, [])
    assert service.stream.settings.overload_percent == percent
    assert service.stream.settings.alarm_after_s is None


def test_the_initial_scheduler_takes_over_the_options_of_all(tmp_path: Path) -> None:
    """It is the one that places what is new: an order or a limit of the scheduler that decides would be none."""
    settings = ServiceSettings(tmp_path, "127.0.0.1", 0, rules={"order": "priority", "user_slots": "1"})
    service = Service(settings, make_scheduler("online"), "online", [])
    t = [topology(f"t{n}", 1, 1, **{"topology.priority": 9 - n}) for n in range(3)]
    snapshot = problem(nodes(9), *((each, load(1)) for each in t))
    answer = service.bridge.answer(snapshot)
    assert set(answer.assignments) == {"t2"}
    assert "would have 2 of 1 slots" in answer.status["t1"]


def test_running_service_applies_changeable_settings(tmp_path: Path) -> None:
    before = ServiceSettings(tmp_path, "127.0.0.1", 0, triggers=TriggerParams(period_s=60, cool_down_s=60))
    service = Service(before, make_scheduler("online"), "online", [])
    changed = replace(before, triggers=TriggerParams(period_s=5, cool_down_s=7), budget=MoveBudget(2, 3), port=7071)
    service.change(changed, {"default": "suggest", "windows": ("01:00-05:00",)}, [])
    assert service.settings == replace(changed, port=0), "where it listens stays"
    assert (service.guard.modes.default, service.guard.modes.windows) == ("suggest", ("01:00-05:00",))
    assert service.plan_service.history(1).entries[0].who == "serve"


def test_server_enforces_configured_authentication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    server = composition.HttpServer
    monkeypatch.setattr(composition, "HttpServer", lambda *of: [given.extend(of), server(*of)][1])
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.create("nimbus", "bridge")
    settings = ServiceSettings(tmp_path, "127.0.0.1", 0, access=AccessSettings(tokens.path))
    Service(settings, make_scheduler("online"), "online", [])
    (door,) = [each for each in given if isinstance(each, AuthMiddleware)]
    assert door.delivers({b"authorization": f"Bearer {secret}".encode()}, "")
    assert not door.delivers({}, "")


def test_metrics_contain_modes_plans_and_snapshot_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    make_app = composition.make_app
    monkeypatch.setattr(composition, "make_app", lambda *of: [given.extend(of), make_app(*of)][1])
    service = Service(ServiceSettings(tmp_path, "127.0.0.1", 0), make_scheduler("online"), "online", [])
    (figures,) = [each for each in given if isinstance(each, composition.Figures)]
    service.bridge.answer(problem(nodes(2), (topology("t", 1, 1), load(1))))
    found = {each.name: each.samples for each in figures("topology")}
    assert 0 <= found["stormwright_snapshot_age_seconds"][0].value < 60
    assert {"stormwright_mode", "stormwright_plans"} <= set(found)
    assert [each.labels["topology"] for each in found["stormwright_topology_executors"]] == ["t"]
