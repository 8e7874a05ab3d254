"""Injection of faults: commands and signals on a cluster that is a stand-in."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from stormwright_lab.chaos.catalogue import CATALOGUE
from stormwright_lab.chaos.faults import FaultError, FaultInjector, FaultyMachine, MoveParts
from stormwright_lab.chaos.invariants import WorkerPlace
from stormwright_lab.chaos.scenarios import FaultKind, FaultTarget, PlannedFault
from stormwright_lab.chaos.service_process import CLOCK

from stormwright.errors import ClusterError

MOVING, ARRIVING = WorkerPlace("a-1-0", "node1", 6700), WorkerPlace("a-1-0", "node2", 6701)
PARTS = MoveParts("node1", "node2", "node3", MOVING, ARRIVING, WorkerPlace("a-1-0", "node3", 6700))


@dataclass
class FakeMachine(FaultyMachine):
    """Records commands and signals."""

    commands: list[tuple[str, ...]] = field(default_factory=list)
    signals: list[tuple[int, signal.Signals]] = field(default_factory=list)
    fails: bool = False

    def run(self, *command: str) -> str:
        self.commands.append(command)
        if self.fails:
            raise ClusterError("it fails: Error: no such thing")
        return ""

    def signal(self, pid: int, number: signal.Signals) -> bool:
        self.signals.append((pid, number))
        return True


class FakeService:
    """A service with a state directory."""

    def __init__(self, state: Path) -> None:
        self.state, self.signals = state, list[tuple[signal.Signals, float]]()
        self.resumed = 0

    def signal(self, number: signal.Signals, away_s: float) -> None:
        self.signals.append((number, away_s))

    def resume(self) -> None:
        self.resumed += 1

    def pids(self, part: str = "") -> list[int]:
        return []


class FakeCluster:
    """Three nodes; `limits` records changes."""

    def __init__(self, work: Path, cores: float | None = 2.0) -> None:
        nodes = [
            SimpleNamespace(name=f"node{n}", address=f"198.18.0.1{n}", cores=cores, link="40mbit") for n in (1, 2, 3)
        ]
        self.plan = SimpleNamespace(
            work=work,
            namespaces=True,
            limits_cpu=cores is not None,
            nodes=nodes,
            node=lambda name: next(each for each in nodes if each.name == name),
            service_host="198.18.0.1",
            nimbus_host="198.18.0.2",
            loopback_reason="",
            no_cpu_limit_reason="",
        )
        self.limits: list[tuple[str, dict[str, Any]]] = []

    def daemon_pids(self) -> dict[str, int | None]:
        return {"nimbus": 10, "zookeeper": 11, "node1": 21, "node2": 22, "node3": None}

    def command_beside_nimbus(self) -> tuple[str, ...]:
        return ("beside",)

    def command_on_node(self, node: str) -> tuple[str, ...]:
        return (node,)

    def limit_node(self, node: str, **limits: Any) -> None:
        self.limits.append((node, limits))

    def kill_processes(self, node: str) -> None:
        self.limits.append((node, {"killed": True}))


@dataclass
class Bench:
    injector: FaultInjector
    cluster: FakeCluster
    service: FakeService
    machine: FakeMachine

    def inject(self, kind: FaultKind, target: FaultTarget, duration_s: float = 60.0, **parameters: Any) -> None:
        self.injector.inject(PlannedFault(kind, target, duration_s, parameters=parameters), PARTS)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    cluster, service, machine = FakeCluster(tmp_path), FakeService(tmp_path), FakeMachine()
    return Bench(FaultInjector(cast(Any, cluster), cast(Any, service), machine), cluster, service, machine)


def test_stopped_daemon_is_continued_after_its_duration(bench: Bench) -> None:
    bench.inject(FaultKind.STOP, FaultTarget.NIMBUS, 0.05)
    assert bench.injector.in_force
    time.sleep(0.5)
    assert bench.machine.signals == [(10, signal.SIGSTOP), (10, signal.SIGCONT)]
    assert not bench.injector.in_force
    assert 0.05 <= bench.injector.injected[0].in_force_s < 0.5


def test_everything_is_undone_at_the_end(bench: Bench) -> None:
    bench.inject(FaultKind.CUT, FaultTarget.TARGET_NODE)
    bench.inject(FaultKind.SLOW_CPU, FaultTarget.SOURCE_NODE, cores=0.2)
    bench.inject(FaultKind.SLOW_LINK, FaultTarget.OTHER_NODE, rate="1mbit")
    bench.inject(FaultKind.SET_CLOCK, FaultTarget.SERVICE, seconds=-60)
    assert (bench.service.state / CLOCK).read_text() == "-60.0"
    bench.injector.close()
    bench.injector.close()
    assert bench.machine.commands == [
        ("beside", "ip", "link", "set", "node2", "down"),
        ("beside", "ip", "link", "set", "node2", "up"),
    ]
    assert bench.cluster.limits == [
        ("node1", {"cores": 0.2}),
        ("node3", {"link": "1mbit"}),
        ("node3", {"link": "40mbit"}),
        ("node1", {"cores": 2.0}),
    ]
    assert not (bench.service.state / CLOCK).exists()
    without_effect = [each.without_effect for each in bench.injector.injected]
    assert without_effect == [False, True, True, False], "no worker runs on any node"


def test_killed_node_is_cut_until_it_is_back(bench: Bench) -> None:
    bench.inject(FaultKind.KILL, FaultTarget.SOURCE_NODE, 0.05)
    time.sleep(0.5)
    assert bench.cluster.limits == [("node1", {"killed": True})]
    assert [command[-1] for command in bench.machine.commands] == ["down", "up"]


def test_connections_are_refused_for_nimbus_and_nodes(bench: Bench) -> None:
    bench.inject(FaultKind.REFUSE, FaultTarget.SERVICE)
    route = ("ip", "route", "replace", "unreachable", "198.18.0.1/32")
    assert bench.machine.commands == [(each, *route) for each in ("beside", "node1", "node2", "node3")]


def test_worker_that_has_ended_is_replaced_by_the_new_one(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(FaultError):
        bench.inject(FaultKind.KILL, FaultTarget.MOVING_WORKER, 0.0)
    assert bench.injector.injected == []


def test_service_is_killed_for_the_duration(bench: Bench) -> None:
    bench.inject(FaultKind.KILL, FaultTarget.SERVICE, 7.0)
    assert bench.service.signals == [(signal.SIGKILL, 7.0)]


def test_damaged_record_is_half_of_the_newest(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "7.jsonl").write_bytes(b"12345678")
    bench.inject(FaultKind.DAMAGE, FaultTarget.SERVICE, 1.0, file="landing")
    assert (tmp_path / "landing" / "7.jsonl").read_bytes() == b"1234"
    assert bench.service.signals == [(signal.SIGKILL, 1.0)]


def test_impossible_faults_have_a_reason(tmp_path: Path) -> None:
    cluster, machine = FakeCluster(tmp_path, cores=None), FakeMachine(fails=True)
    injector = FaultInjector(cast(Any, cluster), cast(Any, FakeService(tmp_path)), machine)
    why = {name: injector.why_impossible(known.faults[0]) for name, known in CATALOGUE.items()}
    assert "no control groups" in why["slow-cpu-source-node"]
    assert "no control groups" in why["kill-target-node"]
    assert "netem" in why["lossy-source-node"]
    assert "file system" in why["fill-disk-service"]
    assert why["kill-service"] == why["cut-target-node"] == ""
