"""Faults are named within ten seconds, and nothing is where there is no fault."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from stormwright.service.health.monitor import HealthMonitor
from stormwright.storm.gateway import CallInProgress
from tests.controller.builders import place
from tests.service.health.timeline import AHEAD_S, Timeline

#: Seconds before a fault, in which everything is known.
CALM_S = 60


def running(**more: float) -> Timeline:
    found = Timeline(**more)  # type: ignore[arg-type]
    assert found.all_texts(CALM_S) == set()
    return found


@pytest.mark.parametrize("phase_s", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5])
def test_stopped_supervisor_is_named(phase_s: float) -> None:
    cluster = running()
    cluster.texts(phase_s)
    cluster.gateway.stopped_s["n1"] = cluster.clock.now_s
    after_s = cluster.named_after("The supervisor of node1 has not reported for")
    assert after_s is not None
    assert after_s <= 9
    assert len(cluster.texts()) == 1
    cluster.gateway.stopped_s.clear()
    cluster.texts(3)
    assert cluster.texts() == []


def test_supervisors_that_reach_nothing_make_one_sentence() -> None:
    cluster = running()
    cluster.gateway.stopped_s = dict.fromkeys(("n0", "n1", "n2"), cluster.clock.now_s)
    assert cluster.named_after("No supervisor has reported for") is not None
    assert cluster.all_texts(1)
    assert len(cluster.texts()) == 1


def test_supervisor_that_is_not_registered_is_named_until_it_is_an_anomaly() -> None:
    cluster = running()
    cluster.gateway.gone.add("n2")
    assert cluster.named_after("The supervisor of node2 is no longer registered") is not None
    assert cluster.texts(60) == []


def test_call_in_progress_names_nimbus() -> None:
    cluster = running()
    cluster.gateway.call = CallInProgress("cluster", "", 2.9)
    assert cluster.texts(1) == []
    cluster.gateway.call = CallInProgress("cluster", "", 4.9)
    assert cluster.texts(1) == ["Nimbus has not answered for 5 s (cluster)"]


def test_supervisor_that_does_not_answer_is_named_with_nimbus() -> None:
    cluster = running()
    cluster.gateway.call = CallInProgress("release", "host1", 5.0)
    assert cluster.texts(1) == ["Nimbus, or the supervisor of host1, has not answered for 5 s (release)"]


def test_long_calls_of_a_large_cluster_are_not_named() -> None:
    cluster = running()
    cluster.gateway.takes_s = 2.0
    cluster.texts(300)
    cluster.gateway.call = CallInProgress("rebalance", "", 9.0)
    assert cluster.texts(0.5) == []


def test_failed_call_names_nimbus_until_one_succeeds() -> None:
    cluster = running()
    cluster.gateway.error = "cluster: no answer from Nimbus within 20 s"
    assert cluster.named_after("Nimbus does not answer: cluster: no answer") is not None
    cluster.gateway.error = ""
    assert cluster.texts(3) == []


@pytest.mark.parametrize("interval_s", [0.5, 1.0])
def test_stopped_worker_is_named_with_topology_and_slot(interval_s: float) -> None:
    cluster = running(interval_s=interval_s)
    cluster.silent.add(("a-1-0", "n1"))
    after_s = cluster.named_after("Worker a on node1:6700 has not reported for 6 s")
    assert after_s is not None
    assert after_s <= 7


def test_node_is_named_instead_of_its_workers() -> None:
    cluster = running()
    cluster.silent.add("n1")
    cluster.gateway.stopped_s["n1"] = cluster.clock.now_s
    assert cluster.named_after("node1") is not None
    (text,) = cluster.texts(5)
    assert text.startswith("No worker of node1 has reported for ")
    assert ", nor has its supervisor for " in text
    assert "(a, b)" in text
    (finding,) = cluster.monitor.findings()
    assert (finding.level, finding.page) == ("bad", "/cluster/nodes/n1")


def test_cut_service_is_one_sentence() -> None:
    cluster = running()
    cluster.silent.add("all")
    assert cluster.named_after("do the probes reach this service?") is not None
    assert len(cluster.texts()) == 1
    cluster.gateway.call = CallInProgress("cluster", "", 8.0)
    (text,) = cluster.texts(2)
    assert text.startswith("Neither Nimbus nor any probe has reached this service for ")


def test_refused_records_are_named_by_the_reason() -> None:
    cluster = running()
    cluster.silent.add("all")
    cluster.storing_error = "No space left on device"
    assert cluster.texts(8) == ["Records cannot be stored: No space left on device"]


def test_worker_that_does_not_start_is_named() -> None:
    cluster = running()
    cluster.silent.add(("b-1-0", "n0"))
    cluster.place({"a": ("n0", "n1"), "b": ("n1", "n0")})
    assert cluster.texts(20) == []
    (text,) = cluster.texts(5)
    assert text.startswith("Worker b on node0:6701 has not reported since it was started, 2")


def test_worker_that_does_not_start_is_named_after_ten_seconds_where_others_start_quickly() -> None:
    cluster = Timeline({"a": ("n0",)})
    cluster.texts(CALM_S)
    cluster.place({"a": ("n0",), "b": ("n1", "n2")})
    cluster.silent.add("b-1-0")
    cluster.texts(3)
    cluster.silent = {("b-1-0", "n2")}
    after_s = cluster.named_after("Worker b on node2:6701 has not reported since it was started")
    assert after_s is not None
    assert after_s + 3 <= 11


def test_few_cores_are_named_at_once() -> None:
    cluster = running()
    cluster.cores["n1"] = 0.2
    assert cluster.texts(1) == ["node1 has 0.2 cores, it had 2.0"]
    cluster.cores["n1"] = 2.0
    assert cluster.texts(1) == []


def test_few_cores_become_usual() -> None:
    cluster = running()
    cluster.cores["n1"] = 1.0
    assert cluster.texts(5) != []
    assert cluster.texts(600) == []


def test_late_records_name_the_node_whatever_its_clock() -> None:
    cluster = running()
    cluster.late_s["n2"] = 3.0
    after_s = cluster.named_after("Records of node2 arrive 3 s late")
    assert after_s is not None
    assert after_s <= 4
    cluster.late_s["n2"] = 0.0
    assert cluster.texts(1) == []


def test_late_records_of_all_nodes_are_late_for_this_service() -> None:
    cluster = running()
    cluster.late_s = dict.fromkeys(("n0", "n1", "n2"), 2.0)
    assert cluster.texts(5) == ["Records of all nodes arrive 2 s late: this service or its link is slow"]


def test_late_and_missing_records_of_all_nodes_are_one_sentence() -> None:
    cluster = running()
    cluster.late_s = {"n2": 3.0}
    cluster.silent |= {"n0", "n1"}
    assert cluster.texts(4) == ["Records of all nodes arrive 3 s late: this service or its link is slow"]
    assert cluster.texts(3) == ["Records of all nodes arrive 3 s late or not at all: this service or its link is slow"]


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "text"), [(-3600, "3,600 s back"), (3600, "3,600 s ahead"), (2.5, "2 s ahead")])
def test_change_of_the_clock_is_named_for_ten_minutes(seconds: float, text: str) -> None:
    cluster = running()
    cluster.clock.offset_s += seconds
    (found,) = cluster.texts(4)
    assert found.startswith(f"The clock of this machine was set {text}, ")
    assert cluster.all_texts(590)
    assert cluster.texts(20) == []


def test_slow_adjustment_of_the_clock_is_not_named() -> None:
    cluster = running()
    for _ in range(100):
        cluster.clock.offset_s += 0.5
        assert cluster.texts(1) == []


@pytest.mark.parametrize("phase_s", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
def test_spark_that_stops_is_named(phase_s: float) -> None:
    cluster = running()
    _measure(cluster, 60)
    for half_seconds in range(1, 21):
        cluster.load_age_s = phase_s + half_seconds / 2
        if any("Spark" in text for text in cluster.texts(0.5)):
            break
    else:
        pytest.fail("it was not named")


def test_spark_is_not_named_while_no_records_arrive() -> None:
    cluster = running()
    _measure(cluster, 60)
    cluster.silent.add("all")
    for number in range(1, 100):
        cluster.load_age_s = number
        assert not any("Spark" in text for text in cluster.texts(1))
    cluster.silent.clear()
    for _ in range(6):
        cluster.load_age_s += 1
        assert not any("Spark" in text for text in cluster.texts(1)), "they have only begun to arrive again"


def test_slow_batches_are_not_named() -> None:
    _measure(Timeline(), 100, every_s=9)


def _measure(cluster: Timeline, seconds: int, every_s: int = 3) -> None:
    for number in range(seconds):
        cluster.load_age_s = 1.0 + number % every_s
        assert cluster.texts(1) == []
    cluster.load_age_s = 1.0


def test_standstill_of_the_service_is_named_and_not_that_of_others() -> None:
    cluster = running()
    cluster.monitor.tick()
    cluster.clock.now_s += (still_s := 25)
    cluster.monitor.tick()
    assert cluster.texts() == [f"This service stood still for {still_s} s, until 0 s ago"]
    assert cluster.all_texts(60)
    assert cluster.texts(1) == []


def ended(cluster: Timeline) -> None:
    """Topology b is killed: its workers end, and it is gone a while later."""
    cluster.gateway.statuses["b-1-0"] = "KILLED"
    cluster.silent.add("b-1-0")


def gone(cluster: Timeline) -> None:
    cluster.silent.add("b-1-0")
    del cluster.gateway.statuses["b-1-0"]


def moved(cluster: Timeline) -> None:
    """The worker of b on n2 is now on n0, and starts there for six seconds."""
    cluster.silent.add(("b-1-0", "n0"))
    cluster.place({"a": ("n0", "n1"), "b": ("n1", "n0")})
    cluster.texts(6)
    cluster.silent.clear()


def deactivated(cluster: Timeline) -> None:
    cluster.gateway.statuses["b-1-0"] = "INACTIVE"


def without_probe(cluster: Timeline) -> None:
    """Topology b runs without the probe."""
    problem = cluster.problem
    assert problem is not None
    conf = {**problem.topologies[1].conf, "topology.auto.task.hooks": []}
    other = replace(problem.topologies[1], id="c-1-0", name="c", conf=conf)
    current = {**problem.current, "c-1-0": place([("n0", 6702)], [0, 0, 0, 0])}
    cluster.problem = replace(problem, topologies=(*problem.topologies, other), current=current)
    cluster.gateway.statuses["c-1-0"] = "ACTIVE"
    cluster.silent.add("c-1-0")


def replaced(cluster: Timeline) -> None:
    """The worker of a on n1 gets other executors: the old one reports its end, the new one starts for eight seconds."""
    cluster.place({"a": ("n1", "n0"), "b": ("n1", "n2")})
    cluster.texts(1)
    for node in ("n0", "n1"):
        cluster.silent.add(("a-1-0", node))
    cluster.texts(8)
    cluster.started_ms = {("a-1-0", "n0"): 2, ("a-1-0", "n1"): 2}
    cluster.silent.clear()


def restarted_nimbus(cluster: Timeline) -> None:
    """Nimbus answers late once, after which polls go on as before."""
    cluster.gateway.takes_s = 0.9
    cluster.texts(2)
    cluster.gateway.takes_s = 0.0


def restarted_supervisor(cluster: Timeline) -> None:
    cluster.gateway.restarted_s["n1"] = cluster.clock.now_s


def hiccup(cluster: Timeline) -> None:
    """A pause of four seconds, as of a garbage collection, and a record that is late once."""
    cluster.silent.add("n1")
    cluster.texts(4)
    cluster.silent.clear()
    cluster.late_s["n0"] = 3.0
    cluster.texts(0.5)
    cluster.late_s.clear()


def changed_clock_of_a_node(cluster: Timeline) -> None:
    cluster.late_s["n0"] = 3600.0


CALM = [ended, gone, moved, deactivated, without_probe, replaced, restarted_nimbus, restarted_supervisor, hiccup]


@pytest.mark.parametrize("change", [*CALM, changed_clock_of_a_node], ids=lambda change: change.__name__)
def test_nothing_is_named_after(change: Callable[[Timeline], None]) -> None:
    cluster = running()
    change(cluster)
    assert cluster.all_texts(60) == set()


@pytest.mark.parametrize("interval_s", [0.5, 1.0, 10.0, 60.0])
def test_calm_cluster_has_no_findings_whatever_its_interval(interval_s: float) -> None:
    cluster = Timeline(interval_s=interval_s)
    assert cluster.all_texts(200) == set()


def test_long_interval_after_short_ones_is_no_silence() -> None:
    """Probes report four times a second at first."""
    cluster = Timeline(interval_s=10.0)
    cluster.interval_s = 0.5
    cluster.texts(20)
    cluster.interval_s = 10.0
    assert cluster.all_texts(60) == set()


def test_supervisors_with_rare_heartbeats_are_calm() -> None:
    cluster = Timeline()
    cluster.gateway.heartbeat_s = 20.0
    assert cluster.all_texts(200) == set()


def test_old_records_are_no_sign_of_life() -> None:
    """Another worker of the node delivers what one has left behind."""
    cluster = running()
    cluster.silent.add(("a-1-0", "n1"))
    cluster.started_ms["a-1-0", "n1"] = 0
    for _ in range(12):
        cluster.deliver("a-1-0", "n1")
        cluster.texts(0.5)
    assert cluster.texts(1)[0].startswith("Worker a on node1:6700")


def test_polls_take_a_small_part_of_the_time() -> None:
    cluster = running()
    before = cluster.gateway.calls
    cluster.gateway.takes_s = 1.0
    cluster.texts(200)
    assert cluster.gateway.calls - before <= 13


def test_monitor_without_gateway_has_no_findings() -> None:
    cluster = Timeline()
    assert cluster.problem is not None
    monitor = HealthMonitor(cluster.reports, lambda: cluster.problem, lambda: None, lambda: "full", str, cluster.clock)
    cluster.silent.add("all")
    cluster.texts(60)
    assert cluster.monitor.findings()
    assert not monitor.findings()


@pytest.mark.long
def test_watching_goes_on_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()
    again = threading.Event()

    def age_s() -> float | None:
        if failed.is_set():
            again.set()
            return None
        failed.set()
        raise ValueError("no age")

    cluster = Timeline()
    monitor = HealthMonitor(cluster.reports, lambda: None, age_s, lambda: "", str, cluster.clock)
    with monitor.watch(cluster.gateway):
        assert again.wait(10)
    assert "the health of the cluster is not complete: ValueError: no age" in caplog.text


def test_topology_warms_up_until_its_compilers_rest() -> None:
    cluster = running()
    cluster.started_ms["a-1-0", "n1"] = round((cluster.clock.time() + AHEAD_S) * 1000)
    cluster.compiling["n1"] = 0.4
    assert "a warms up: 1 worker of it was started 30 s ago" in cluster.texts(30)
    assert [each.level for each in cluster.monitor.findings()] == ["note"]
    cluster.compiling["n1"] = 0.05
    assert cluster.texts(1) == []
    cluster.compiling["n1"] = 0.4
    assert cluster.texts(10) == [], "once warm it stays so"


def test_topology_is_warm_after_two_minutes_whatever_compiles() -> None:
    cluster = running()
    cluster.started_ms["a-1-0", "n1"] = round((cluster.clock.time() + AHEAD_S) * 1000)
    cluster.compiling["n1"] = 0.4
    assert len(cluster.texts(118)) == 1
    assert cluster.texts(4) == []


def test_workers_that_crash_at_each_start_are_named_within_a_minute() -> None:
    cluster = Timeline({"a": ("n0", "n1"), "b": ("n1", "n2")})
    assert not cluster.texts(60)
    for crash in range(1, 4):
        cluster.started_ms["a-1-0", "n0"] = round((cluster.clock.time() + AHEAD_S) * 1000)
        cluster.texts(4)
        cluster.silent = {("a-1-0", "n0")}
        found = cluster.texts(11)
        cluster.silent = set()
        assert any("1 worker of a ends" in text for text in found) == (crash > 2), found
    assert "1 worker of a ends 4 s after the start, 2 times by now: worker.log says why (node0:6700)" in found
    assert not any("warms up" in text or "has not reported" in text for text in found if "of a" in text)
    assert not any("ends" in text for text in cluster.texts(200)), "it has lived since"


@pytest.mark.parametrize(("acked", "failed", "named"), [(99, 1, False), (0, 1, True), (9, 1, True), (1, 0, False)])
def test_failing_trees_are_named_within_a_minute(acked: int, failed: int, named: bool) -> None:
    cluster = Timeline({"a": ("n0", "n1")})
    cluster.trees = {"a-1-0": (acked, failed)}
    found = [text for text in cluster.texts(50) if "failed or timed out" in text]
    assert bool(found) == named
    cluster.trees = {}
    assert not any("failed or timed out" in text for text in cluster.texts(70)), "it is over"


def test_workers_that_are_moved_do_not_crash() -> None:
    cluster = Timeline({"a": ("n0", "n1")})
    for nodes in (("n1", "n2"), ("n0", "n1"), ("n1", "n2"), ("n0", "n1")):
        cluster.place({"a": nodes})
        cluster.started_ms |= {("a-1-0", node): round((cluster.clock.time() + AHEAD_S) * 1000) for node in nodes}
        assert not any(" ends " in text or " end " in text for text in cluster.all_texts(10))


def test_batches_that_pending_trees_cannot_fill_are_named_and_are_bad_once_trees_fail() -> None:
    cluster = Timeline({"a": ("n0", "n1")})
    assert cluster.problem is not None
    (topology,) = cluster.problem.topologies
    conf = {**topology.conf, "topology.producer.batch.size": 500, "topology.max.spout.pending": 200}
    cluster.problem = replace(cluster.problem, topologies=(replace(topology, conf=conf),))
    cluster.trees = {"a-1-0": (100, 0)}
    levels = []
    for trees in ((100, 0), (0, 100)):
        cluster.trees = {"a-1-0": trees}
        cluster.texts(65)
        levels += [each.level for each in cluster.monitor.findings() if "topology.producer.batch.size 500" in each.text]
    assert levels == ["warn", "bad"]
