"""A virtual cluster under the service that a real one has, without Spark: looked at, planned and moved over HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import cast

import pytest

from stormwright.client.client import Client
from stormwright.errors import InputError
from stormwright.model import Problem, TopologyAssignment
from stormwright.perflog import LogRecord
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.history import HistorySettings
from stormwright.storm.bridge import NimbusAnswer
from stormwright.testing.word_counts import two_word_counts
from stormwright.workbench.simulated.served_cluster import ServedCluster
from stormwright.workbench.simulated.simulation import RateChange
from tests.pipeline.oracle import expected_profile, found_profile

HOST = "127.0.0.1"

#: Virtual seconds a second: a plan that is judged takes some hundred of them.
SPEED = 40.0


@dataclass
class Served:
    """A service over a virtual cluster, and who asks it."""

    cluster: ServedCluster
    service: Service
    client: Client
    port: int

    def page(self, path: str) -> str:
        """Of the dashboard, once there is one: the first is being made when it is requested."""
        until, status = time.monotonic() + 60, 503
        while status == 503:
            assert time.monotonic() < until
            with closing(HTTPConnection(HOST, self.port, timeout=20)) as connection:
                connection.request("GET", path, headers={"Accept": "text/html"})
                answer = connection.getresponse()
                status, text = answer.status, answer.read().decode()
        assert status == 200
        return text

    def done(self, plan: str) -> None:
        """Follow a plan to its end; what is unclear is taken as good."""
        until = time.monotonic() + 120
        while (now := self.client.show(plan)).state != "done":
            assert time.monotonic() < until, now
            assert now.state not in ("stopped", "rolling_back", "rolled_back"), now
            if now.state == "waiting":
                self.client.resume(plan, "as good")
            time.sleep(0.1)

    def nodes(self, topology: str) -> set[str]:
        problem = self.service.problem()
        assert problem is not None
        return {slot.supervisor for slot in problem.current[topology].slots}


def two() -> Problem:
    """Two word counts, the first of which runs in one worker of the first node."""
    problem = two_word_counts(cores=4.0)
    nodes = tuple(replace(node, ports=tuple(range(6700, 6706))) for node in problem.supervisors)
    return replace(problem, supervisors=nodes)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Of two word counts one runs on the first node; the other one is placed by the service."""
    with socket.socket() as probing:
        probing.bind((HOST, 0))
        port = probing.getsockname()[1]
    cluster, stop = ServedCluster(two(), speed=SPEED), threading.Event()
    settings = ServiceSettings(
        tmp_path,
        HOST,
        port,
        clock=cluster.clock,
        changes_executors=False,
        triggers=TriggerParams(period_s=20, cool_down_s=20),
        history=HistorySettings(tables=False),
    )
    gateway = cluster.storm.gateway()
    with Service(settings, make_scheduler("online"), "online", gateway, loads=cluster.loads) as service:
        cluster.begin(service)
        running = threading.Thread(target=service.run, args=(stop,))
        running.start()
        try:
            yield Served(cluster, service, Client(f"http://{HOST}:{port}", "tester"), port)
        finally:
            stop.set()
            running.join(20)
    assert not list((tmp_path / "history").glob("**/*.parquet")), "nobody takes them in"


def test_other_numbers_of_executors_are_refused_before_anything_is_paused(served: Served) -> None:
    topology = next(iter(two().topologies))
    component = next(each.id for each in topology.components if each.type == "bolt")
    with pytest.raises(InputError, match="a virtual cluster cannot change the executors"):
        served.client.plan("more", executors={topology.id: {component: topology.executor_counts[component] + 1}})
    assert served.client.plans().plans == ()


@pytest.mark.long
def test_plan_moves_virtual_topology_and_measurements_reflect_the_move(served: Served) -> None:
    assert "topolog" in served.page("/topologies")
    assert served.nodes("one-1-0") == {"n0"}
    assert served.nodes("other-1-0") == {"n0", "n1", "n2"}
    plan = served.client.wait_until_planned(served.client.plan("a look", goals=["traffic"]).id)
    assert plan.topologies, plan.why
    served.client.apply(plan.id, "to see")
    served.done(plan.id)
    assert len(served.nodes("other-1-0")) < 3
    assert not served.cluster.storm.engine.lost.sum()  # type: ignore[attr-defined]
    (evaluation,) = [each for each in served.client.show(plan.id).evaluations if "inter-node" in each.quantity]
    assert evaluation.measured is not None
    assert evaluation.measured < 0.9
    assert evaluation.verdict == "as predicted"
    moves = served.client.history(1).entries[0].moves
    assert any(evaluation in move.evaluations for move in moves), (
        "the history has what was promised and what was measured"
    )
    page = served.page("/history")
    assert all(text in page for text in ("to see", evaluation.quantity, "as predicted"))
    back = served.client.revert(served.client.history(1).entries[0].n, "to see")
    served.done(back.id)
    assert served.nodes("other-1-0") == {"n0", "n1", "n2"}


@pytest.mark.slow
def test_a_node_is_drained(served: Served) -> None:
    begun = served.client.drain("n0", "a disk")
    assert begun.plan is not None
    served.done(begun.plan.id)
    assert "n0" not in served.nodes("one-1-0") | served.nodes("other-1-0")
    assert "n0" in served.page("/cluster")


def running(
    problem: Problem, seconds: float, trace: tuple[RateChange, ...] = (), state_dir: Path | None = None
) -> tuple[ServedCluster, list[LogRecord]]:
    """A cluster after some time, and what its workers wrote in it; no scheduler places anything."""
    cluster, records = ServedCluster(problem, trace, speed=1e6), list[LogRecord]()

    def count(lines: list[bytes]) -> None:
        records.extend(each for each in parse_lines(lines) if not isinstance(each, RejectedLine))

    intake = SimpleNamespace(parse=lambda lines: lines, count=count)
    settings = SimpleNamespace(state_dir=state_dir or Path(mkdtemp(prefix="virtual-")))
    silent = SimpleNamespace(bridge=SimpleNamespace(answer=nothing), intake=intake, settings=settings)
    cluster.begin(cast(Service, silent))
    cluster.clock.sleep(seconds)
    return cluster, records


def nothing(_: Problem) -> NimbusAnswer:
    """An empty answer."""
    return NimbusAnswer()


def spread_out() -> Problem:
    """Both run, each worker on a node of its own."""
    problem = two()
    first, second = problem.slots[0::6], problem.slots[1::6]
    spread = tuple(executor % 3 for executor in range(12))
    placed = {"one-1-0": TopologyAssignment(first, spread), "other-1-0": TopologyAssignment(second, spread)}
    return problem.with_current(placed)


def test_measured_loads_match_sums_over_records() -> None:
    """Beside the plain sums that the pipeline is compared with."""
    problem = spread_out()
    cluster, records = running(problem, 60)
    cluster.loads.measure()
    load = cluster.loads.latest(problem)
    assert load is not None
    cluster.clock.sleep(1)  # until the last records of its window are there
    same = [each for each in records if load.start_ms - 1 <= each["start_ms"] < load.end_ms - 1]
    found, expected = found_profile(load, problem), expected_profile(same, problem, 18, 1, 3)
    for name in ("cpu_hz", "pairs", "flows", "pair_bytes", "flow_bytes"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        for topology in ("one-1-0", "other-1-0"):
            assert ours[topology] == pytest.approx(theirs[topology], rel=0.02), name
    for topology in ("one-1-0", "other-1-0"):
        assert found.pending_trees[topology] == pytest.approx(expected.pending_trees[topology], rel=0.02, abs=0.5)
        assert max(found.pending_trees[topology].values()) > 0
        assert found.waited[topology] == expected.waited[topology] == {}, "an engine counts no waits"
        assert found.runs_per_s[topology] == expected.runs_per_s[topology] == {}, "and no runs"
    assert found.node_cpu_hz == pytest.approx(expected.node_cpu_hz, rel=0.05)
    assert found.node_quota_hz == pytest.approx(expected.node_quota_hz)
    assert found.node_overhead_hz == pytest.approx(dict.fromkeys(expected.node_overhead_hz, 0.0))
    for node, overhead_hz in expected.node_overhead_hz.items():
        assert overhead_hz < 0.01 * expected.node_cpu_hz[node]
    assert load.end_ms - load.start_ms == pytest.approx(15_000, abs=3_001)
    progress = cluster.loads.progress()
    assert progress["running"]
    assert {node: each["workers"] for node, each in progress["nodes"].items()} == {"n0": 2, "n1": 2, "n2": 2}
    assert set(progress["complete_latency_ms"]) == {"one-1-0", "other-1-0"}


@pytest.mark.long
def test_rates_follow_the_trace() -> None:
    problem = spread_out()

    def rate(cluster: ServedCluster, topology: str) -> float:
        load = cluster.loads.latest(problem)
        assert load is not None
        return float(load.topologies[topology].flow_tps.sum())

    cluster, _ = running(problem, 40, (RateChange(10.0, 0.5, None), RateChange(60.0, 2.0, 1)))
    assert [rate(cluster, each) for each in ("one-1-0", "other-1-0")] == pytest.approx([500, 500], rel=0.01)
    cluster.clock.sleep(60)
    assert [rate(cluster, each) for each in ("one-1-0", "other-1-0")] == pytest.approx([500, 2_000], rel=0.01)


@pytest.mark.long
def test_workers_of_large_clusters_report_less_often_but_stay_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stormwright.workbench.simulated.served_cluster._EACH_SECOND", 1.0)
    _, records = running(spread_out(), 300)
    lengths = [each["length_ns"] / 1e9 for each in records if each["worker"]["pid"] == records[0]["worker"]["pid"]]
    assert lengths[-1] == pytest.approx(24, abs=1), "a second for each executor"
    assert all(after <= 6 * before for before, after in pairwise(lengths))
    received = sum(e["received"] for each in records for e in each["executors"] if e["type"] == "bolt")
    assert received == pytest.approx(2 * 9_000 * sum(lengths), rel=0.02), "nothing is left out"


def test_removed_topologies_are_excluded_from_load() -> None:
    problem = spread_out()
    cluster, _ = running(problem, 10)
    left = replace(problem, topologies=problem.topologies[:1], current={}, load=None)
    load = cluster.loads.latest(left)
    assert load is not None
    assert set(load.topologies) == {"one-1-0"}
    assert load.topologies["one-1-0"].cpu_hz.sum() > 0


def test_placement_outlives_a_service_that_was_killed(tmp_path: Path) -> None:
    """It does not return to the file's placement, and a paused topology is still paused: recovery can be tried."""
    problem = two()
    cluster, _ = running(problem, 5.0, state_dir=tmp_path)
    nimbus, (first, other) = cluster.storm.nimbus, problem.topologies
    elsewhere = TopologyAssignment((problem.slots[-1],), (0,) * first.num_executors)
    nimbus.ask = lambda _: NimbusAnswer({first.id: elsewhere})
    nimbus.rebalance(first.name, 0, 1)
    nimbus.deactivate(other.name)
    cluster.clock.sleep(20.0)
    assert nimbus.entries[first.id].assignment == elsewhere
    again, _ = running(problem, 1.0, state_dir=tmp_path)
    entries = again.storm.nimbus.entries
    assert entries[first.id].assignment == elsewhere
    assert entries[other.id].assignment == nimbus.entries[other.id].assignment
    assert [entries[each.id].status for each in (first, other)] == ["ACTIVE", "INACTIVE"]
    (tmp_path / "virtual-cluster.json").write_text("{", encoding="utf-8")
    fresh, _ = running(problem, 1.0, state_dir=tmp_path)
    assert fresh.storm.nimbus.entries[first.id].assignment != elsewhere
    assert (tmp_path / "virtual-cluster.damaged").exists()
