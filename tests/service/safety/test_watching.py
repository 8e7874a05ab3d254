"""Anomalies: noted, reported, acted on where that is allowed, also when it is allowed only later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stormwright.client.shapes import ModesChange
from stormwright.controller.safety.slowness import SlowNode
from stormwright.service.notifications.notifier import ServiceEvent
from stormwright.service.safety.anomalies import SLOW_NODE_EXPIRY_S, AnomalyMonitor
from tests.service.plans.nimbus import Nimbus
from tests.service.safety.test_drains import begun, cluster, hosts

SLOW = {"n0": SlowNode("n0", 0.6, "CPU per tuple", 30.0)}


class Slow:
    """What a detector has found."""

    def __init__(self) -> None:
        self.nodes: dict[str, SlowNode] = {}

    def slow(self) -> dict[str, SlowNode]:
        return self.nodes

    def forget(self, nodes: list[str]) -> None:
        pass


class WatchedCluster:
    """A watch over a virtual Nimbus, with a clock."""

    def __init__(self, nimbus: Nimbus, clock: list[float]) -> None:
        self.nimbus, self.slow, self.events, self._clock = nimbus, Slow(), list[ServiceEvent](), clock
        self.begin()

    def begin(self) -> None:
        of = self.nimbus
        self.anomalies = AnomalyMonitor(
            of.guard, of.plan_service.nodes, of.look, self.slow, self.events.append, of.state
        )  # type: ignore[arg-type]

    def look(self, after_s: float = 10.0) -> None:
        self._clock[0] += after_s
        while self.nimbus.look() is None:
            pass
        self.anomalies.look()

    def modes(self, **modes: object) -> None:
        self.nimbus.plan_service.change_modes(ModesChange(by="anna", reason="a try", **modes))  # type: ignore[arg-type]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedCluster]:
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    nimbus = Nimbus(tmp_path, cluster())
    yield WatchedCluster(nimbus, clock)
    nimbus.end()


def anomalies_of(watched: WatchedCluster) -> list[tuple[str, str, str, str]]:
    return [(each.kind, each.node, each.action, each.waits) for each in watched.anomalies.all().anomalies]


def test_slow_node_is_only_reported_by_default(watched: WatchedCluster) -> None:
    watched.modes(default="auto")
    watched.slow.nodes = SLOW
    watched.look()
    watched.look()
    assert anomalies_of(watched) == [("slow-node", "host0", "", "")]
    (event,) = watched.events
    assert event.text == "host0: CPU per tuple is up by 60% for 30 s, beyond its past and its peers"
    assert watched.nimbus.guard.drains.hosts == set()
    watched.slow.nodes = {}
    watched.look()
    assert anomalies_of(watched) == []
    assert [(each.kind, each.subject, each.over) for each in watched.events[1:]] == [("slow-node", "host0", True)]


def test_slow_node_is_drained_once_mode_permits(watched: WatchedCluster) -> None:
    nimbus = watched.nimbus
    watched.slow.nodes = SLOW
    watched.modes(default="observe", responses={"slow-node": "fix"})
    watched.look()
    assert anomalies_of(watched) == [("slow-node", "host0", "", "mode observe")]
    watched.modes(default="auto", responses={"slow-node": "fix"}, frozen="month end")
    watched.look()
    assert anomalies_of(watched) == [("slow-node", "host0", "", "frozen: month end")]
    watched.modes(default="auto", responses={"slow-node": "fix"}, topologies={"b": "suggest"})
    watched.look()
    assert anomalies_of(watched) == [("slow-node", "host0", "", "mode suggest")]
    nimbus.rebalanced = ["b"]
    watched.modes(default="auto", responses={"slow-node": "fix"})
    watched.look()
    assert anomalies_of(watched)[0][3].startswith("another client rebalances b")
    nimbus.rebalanced = []
    watched.look()
    assert anomalies_of(watched) == [("slow-node", "host0", "host0 was drained", "")]
    (plan,) = nimbus.plans.summaries()
    begun(nimbus, plan.id)
    nimbus.run()
    assert "n0" not in hosts(nimbus)
    assert plan.reason.startswith("host0 is drained: it is slow: host0: CPU per tuple is up by 60%")


def test_automatic_drains_are_limited_to_one_node_in_ten(watched: WatchedCluster) -> None:
    watched.modes(default="auto", responses={"slow-node": "fix"})
    watched.slow.nodes = SLOW | {"n1": replace(SLOW["n0"], node="n1")}
    watched.look()
    begun(watched.nimbus, watched.nimbus.plans.summaries()[0].id)
    watched.nimbus.run()
    watched.look()
    assert anomalies_of(watched)[1] == (
        "slow-node",
        "host1",
        "",
        "1 are drained like this already: a person has to look",
    )


def test_ignored_anomaly_is_neither_notified_nor_fixed(watched: WatchedCluster) -> None:
    watched.modes(default="auto", responses={"slow-node": "ignore"})
    watched.slow.nodes = SLOW
    watched.look()
    assert watched.events == []
    assert anomalies_of(watched) == [("slow-node", "host0", "", "")]


def test_missing_node_and_its_return_are_reported(watched: WatchedCluster) -> None:
    nimbus, start = watched.nimbus, watched.nimbus._start  # noqa: SLF001
    watched.look()
    nimbus._start = replace(start, supervisors=start.supervisors[:3])  # noqa: SLF001
    watched.look(20)
    assert anomalies_of(watched) == []
    watched.look(20)
    assert [(each.kind, each.subject, each.text) for each in watched.events] == [
        ("node-lost", "host3", "host3 has been away for 40 s")
    ]
    nimbus._start = start  # noqa: SLF001
    watched.look()
    assert watched.events[-1].over


def test_detected_anomaly_survives_restart_for_one_hour(watched: WatchedCluster) -> None:
    watched.slow.nodes = SLOW
    watched.look()
    watched.slow.nodes = {}
    watched.begin()
    watched.look()
    assert anomalies_of(watched) == [("slow-node", "host0", "", "")]
    watched.modes(default="auto", responses={"slow-node": "fix"})
    watched.look()
    assert anomalies_of(watched) == [("slow-node", "host0", "host0 was drained", "")]
    watched.look(SLOW_NODE_EXPIRY_S)
    assert anomalies_of(watched) == []
