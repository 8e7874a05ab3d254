"""A virtual Storm does what a real one was observed to do (Storm 2.8.3)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from stormwright.base.documents import FileDocument
from stormwright.controller.move import Mover
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import propose
from stormwright.controller.reports import MoveLimits
from stormwright.controller.requests import Place, PlanInputs
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.errors import NimbusError
from stormwright.formats import problem_from_dict
from stormwright.model import Assignment, Supervisor
from stormwright.model.topology_config import BLOB_POLL
from stormwright.perflog.records import parse_lines
from stormwright.plans.plan import Move
from stormwright.simulator.cluster.clock import VirtualClock
from stormwright.simulator.cluster.storm import VirtualStorm
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.steady_engine import SteadyEngine
from stormwright.storm.occupancy import Order
from stormwright.workbench.demo.measure import longest_silence_s, measure
from tests.simulator.cluster.storms import Running, evenly, running, words


@pytest.fixture
def cluster(tmp_path: Path) -> Running:
    return running(words(cores=0.4), tmp_path)


def to_node(cluster: Running, topology: int, node: str) -> Move:
    """The move of a topology into as many workers of one node."""
    now = cluster.bridge.snapshot()
    assert now is not None
    used = set(now.current_slot.tolist())
    free = [i for i, slot in enumerate(now.slots) if slot.supervisor == node and i not in used][:3]
    wanted, own = now.current_slot.copy(), now.executors_of(topology)
    wanted[own] = np.array(free)[np.arange(own.stop - own.start) * len(free) // (own.stop - own.start)]
    (step,) = plan_moves(now, Assignment(wanted), MoveBudget(), cpu_limits=False).steps
    return step.with_workers({now.topologies[topology].id: len(free)})


def test_submitted_topologies_are_placed_started_and_measured(cluster: Running) -> None:
    cluster.clock.sleep(20)
    summary = cluster.storm.nimbus.cluster()
    assert [each["status"] for each in summary["topologies"]] == ["ACTIVE", "ACTIVE"]
    assert all(each["num_workers"] == 3 for each in summary["topologies"])
    began, end = cluster.clock.time() * 1000 - 12_000, cluster.clock.time() * 1000
    for name in ("one-1-0", "other-1-0"):
        run = measure(cluster.records, name, began, end)
        assert (run.nodes, run.workers) == (3, 3)
        assert run.acked_tps > 1000
    seqs = [each["seq"] for each in cluster.records if each["worker"]["pid"] == cluster.records[0]["worker"]["pid"]]
    assert seqs == list(range(len(seqs)))


def test_nimbus_snapshot_excludes_simulated_future_load(cluster: Running) -> None:
    shown = cluster.bridge.snapshot()
    assert shown is not None
    assert (shown.load, shown.measured) == (None, None)
    assert len(shown.current) == 2


def test_its_records_hold_as_much_cpu_as_nodes_have(cluster: Running) -> None:
    before = cluster.storm.used()
    cluster.clock.sleep(20)
    used = (cluster.storm.used().cpu_s - before.cpu_s) / 20
    assert np.all(used < 0.4 * 1.03)
    assert used.max() > 0.9 * 0.4, "one is the limit"


@pytest.mark.long
def test_safe_move_loses_no_tuples_and_takes_a_realistic_time(cluster: Running) -> None:
    """4 to 6 s of zero throughput were measured of a rebalance, and 2 to 10 s of a safe move."""
    began = cluster.clock.time() * 1000
    (report,) = cluster.mover.move(to_node(cluster, 0, "n1"), "because")
    assert report.complete
    cluster.clock.sleep(20)
    assert 4 <= longest_silence_s(cluster.records, "one-1-0", began, cluster.clock.time() * 1000) <= 15
    cluster.storm.nimbus.deactivate("one")
    cluster.clock.sleep(5)
    totals = cluster.tally.totals("one-1-0")
    assert (totals.begun, totals.failed) == (totals.acked, 0)
    assert {slot.supervisor for slot in cluster.bridge.snapshot().current["one-1-0"].slots} == {"n1"}


@pytest.mark.long
def test_a_rebalance_without_a_drain_loses_tuples(cluster: Running) -> None:
    step = to_node(cluster, 0, "n1")
    cluster.bridge.order("one-1-0", Order(step.moves[0].after, "x"))
    cluster.storm.nimbus.rebalance("one", 0, len(step.moves[0].after.slots))
    cluster.clock.sleep(90)
    cluster.storm.nimbus.deactivate("one")
    cluster.clock.sleep(60)
    totals = cluster.tally.totals("one-1-0")
    assert totals.begun - totals.acked > 100


@pytest.mark.long
def test_simulated_nimbus_rejects_invalid_calls_like_storm(cluster: Running) -> None:
    nimbus = cluster.storm.nimbus
    with pytest.raises(NimbusError, match="gone is not alive") as refused:
        nimbus.activate("gone")
    assert refused.value.kind == "NotAliveException"
    nimbus.rebalance("one", 5)
    with pytest.raises(NimbusError, match="No transition for event: ACTIVATE, status: REBALANCING"):
        nimbus.activate("one")
    nimbus.die(20)
    with pytest.raises(NimbusError, match="no answer"):
        nimbus.cluster()
    cluster.clock.sleep(21)
    assert [each["status"] for each in nimbus.cluster()["topologies"]] == ["ACTIVE", "ACTIVE"], "it went on with that"
    nimbus.kill("other", 1)
    cluster.clock.sleep(15)
    assert [each["name"] for each in nimbus.cluster()["topologies"]] == ["one"]
    assert {worker.topology for worker in cluster.storm.supervisors.workers.values()} == {"one-1-0"}
    shown = problem_from_dict(nimbus.problem())
    assert [topology.id for topology in shown.topologies] == ["one-1-0"]


def test_supervisor_without_workers_of_the_topology_can_be_released(cluster: Running) -> None:
    node = next(each for each in cluster.storm.problem.supervisors if each.id == "n0")
    assert not cluster.storm.nimbus.release("one-1-0", node)
    assert cluster.storm.nimbus.release("one-1-0", Supervisor("n9", "n9", (), 1e9))


@pytest.mark.long
def test_a_dead_worker_is_started_again_and_a_dead_node_is_left(cluster: Running) -> None:
    cluster.storm.supervisors.kill("n0", 6700)
    cluster.clock.sleep(15)
    lives = [w for w in cluster.storm.supervisors.workers.values() if (w.supervisor, w.port) == ("n0", 6700)]
    assert [worker.up for worker in lives] == [True]
    cluster.storm.supervisors.node("n2", up=False)
    cluster.clock.sleep(100)
    placed = cluster.bridge.snapshot().current.values()
    assert "n2" not in {slot.supervisor for each in placed for slot in each.slots}
    cluster.storm.supervisors.node("n2", up=True)
    cluster.clock.sleep(15)
    assert len(cluster.storm.nimbus.cluster()["supervisors"]) == 3


def test_nimbus_uses_its_own_placement_without_a_service_answer(cluster: Running) -> None:
    def no_answer(_: object) -> None:
        raise ConnectionError

    cluster.storm.nimbus.ask = no_answer  # type: ignore[assignment]
    cluster.storm.nimbus.rebalance("one", 0)
    cluster.clock.sleep(20)
    assert all(worker.up for worker in cluster.storm.supervisors.workers.values())


def test_restarted_service_resumes_a_topology_once_its_old_workers_have_ended(cluster: Running, tmp_path: Path) -> None:
    """Nimbus does not notify the nodes that a topology leaves: their workers would run on for up to ten seconds."""
    move = to_node(cluster, 0, "n1").moves[0]
    name, after, nimbus = move.name, move.legs[-1].after, cluster.storm.nimbus
    nimbus.deactivate(name)
    cluster.clock.sleep(3)
    cluster.bridge.order_all({move.topology: Order(after, "killed in the middle", before=move.before)})
    nimbus.rebalance(name, 0, move.num_workers)
    cluster.clock.sleep(1)
    paused = FileDocument(tmp_path / "left.json")
    paused.save(json.dumps([name]))
    again = Tally(clock=cluster.clock)
    cluster.storm.deliver = lambda lines: again.add(list(parse_lines(lines)))  # type: ignore[arg-type, return-value]
    began = cluster.clock.monotonic()
    assert Mover(nimbus, cluster.bridge, again, Pauses(paused), MoveLimits()).resume() == [name]
    assert set(again.reporting(move.topology)) == set(after.slots)
    assert {each["name"]: each["status"] for each in nimbus.cluster()["topologies"]}[name] == "ACTIVE"
    assert cluster.clock.monotonic() - began < MoveLimits().settle_s
    assert json.loads(paused.load() or "") == []


def test_restarted_service_resumes_a_topology_once_workers_with_other_executors_have_ended(
    cluster: Running, tmp_path: Path
) -> None:
    """Nimbus places other executors in the same slots: workers there that still report are about to end."""
    moved, nimbus = to_node(cluster, 0, "n1").moves[0], cluster.storm.nimbus
    before = cluster.bridge.snapshot().current[moved.topology]
    after = replace(before, slot_of_executor=tuple(reversed(before.slot_of_executor)))
    nimbus.deactivate(moved.name)
    cluster.clock.sleep(3)
    cluster.bridge.order_all({moved.topology: Order(after, "killed in the middle", before=before)})
    nimbus.rebalance(moved.name, wait_s=3)
    paused = FileDocument(tmp_path / "left.json")
    paused.save(json.dumps([moved.name]))
    again = Tally(clock=cluster.clock)
    cluster.storm.deliver = lambda lines: again.add(list(parse_lines(lines)))  # type: ignore[arg-type, return-value]
    mover = Mover(nimbus, cluster.bridge, again, Pauses(paused), MoveLimits(settle_s=30))
    assert mover.resume() == [moved.name]
    assert cluster.bridge.snapshot().current[moved.topology] == after
    workers = [each for each in cluster.storm.supervisors.workers.values() if each.topology == moved.topology]
    assert {(each.up, each.ending) for each in workers} == {(True, False)}


def test_unreadable_placement_does_not_keep_a_topology_paused(cluster: Running, tmp_path: Path) -> None:
    nimbus, name = cluster.storm.nimbus, to_node(cluster, 0, "n1").moves[0].name
    nimbus.deactivate(name)
    paused = FileDocument(tmp_path / "left.json")
    paused.save(json.dumps([name]))
    cluster.clock.sleep(3)
    unreadable = Mock(wraps=nimbus)
    unreadable.problem.side_effect = lambda: {"nodes": "unreadable"}
    mover = Mover(unreadable, cluster.bridge, cluster.tally, Pauses(paused), MoveLimits())
    assert mover.resume() == [name]
    assert {each["name"]: each["status"] for each in nimbus.cluster()["topologies"]}[name] == "ACTIVE"


def test_first_worker_on_a_node_waits_for_the_files_of_its_topology() -> None:
    timings = Timings(start_s=4.0, localize_s=3.0)
    problem = words(cores=0.4)
    clock = VirtualClock(1_795_219_140.0)
    storm = VirtualStorm(clock, problem, SteadyEngine(problem), evenly, timings)
    storm.submit(problem.topologies[0])
    clock.sleep(6.5)
    assert not storm.supervisors.running.any()
    clock.sleep(1.0)
    assert storm.supervisors.running[problem.executors_of(0)].all()
    worker = next(iter(storm.supervisors.workers.values()))
    storm.supervisors.kill(worker.supervisor, worker.port)
    clock.sleep(timings.restart_s + timings.start_s + 0.1)
    assert storm.supervisors.running[problem.executors_of(0)].all(), "its node has the files"


@pytest.mark.long
@pytest.mark.parametrize(("poll_s", "seconds"), [(1.0, 1.0), (10.0, 10.0)])
def test_new_worker_is_connected_once_running_ones_have_polled_its_address(
    tmp_path: Path, poll_s: float, seconds: float
) -> None:
    cluster = running(replace(words(cores=0.4), conf={"task.refresh.poll.secs": poll_s}), tmp_path)
    worker = next(each for each in cluster.storm.supervisors.workers.values() if each.topology == "one-1-0")
    cluster.storm.supervisors.kill(worker.supervisor, worker.port)
    cluster.clock.sleep(30.0)
    own = [each for each in cluster.records if each["worker"]["port"] == worker.port]
    again = [each for each in own if each["worker"]["supervisor"] == worker.supervisor][-1]["worker"]["pid"]
    reported = [each for each in own if each["worker"]["pid"] == again]
    start_ms = reported[0]["worker"]["start_ms"]
    connected_ms = min(each["written_ms"] for each in reported if each["worker"]["connections"] == 2)
    assert connected_ms - start_ms == pytest.approx(1000 * max(seconds, Timings().start_s), abs=1001)


@pytest.mark.long
@pytest.mark.parametrize("poll_s", [None, 2])
def test_all_workers_run_with_the_new_configuration_and_have_started_together(
    tmp_path: Path, poll_s: int | None
) -> None:
    """By default supervisors look for another configuration every 30 s; until then they start workers with the old."""
    problem = replace(words(), conf={} if poll_s is None else {BLOB_POLL: poll_s})
    cluster = running(problem, tmp_path)
    key = "topology.max.spout.pending"
    plan = propose(cluster.bridge.snapshot(), Place({}, conf={"one-1-0": {key: 50}}), PlanInputs(predicts=False))
    before = {worker.pid for worker in cluster.storm.supervisors.workers.values()}
    (report,) = cluster.mover.move(plan.steps[0], "tuned")
    cluster.clock.sleep(40)
    assert report.complete
    assert cluster.bridge.snapshot().topologies[0].conf[key] == 50
    own = [each for each in cluster.records if each["worker"]["topology"] == "one-1-0"]
    new = [each["worker"] for each in own if each["worker"]["pid"] not in before]
    last = {(each["supervisor"], each["port"]): each for each in new}
    assert len(last) == len(plan.moves[0].before.slots)
    assert {each["configuration"] for each in last.values()} == {"1"}
    assert len({each["start_ms"] for each in last.values()}) == 1
    assert len({each["pid"] for each in new}) == len(last) * (3 if poll_s is None else 1)
    assert report.swap_s < (60 if poll_s is None else 12)
    assert cluster.tally.unaccounted("one-1-0") == cluster.tally.pending("one-1-0", plan.moves[0].after.slots)
