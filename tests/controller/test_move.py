"""The safe move: in order, complete, and never leaving a topology paused."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stormwright.base.documents import FileDocument
from stormwright.controller.draining import USUAL, DrainPolicy
from stormwright.controller.move import REFRESH_POLL, Mover
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import propose
from stormwright.controller.reports import MoveLimits, MoveReport
from stormwright.controller.requests import Place, PlanInputs
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.errors import ClusterError, MoveError, MoveStoppedError, NimbusError
from stormwright.model import Assignment, Supervisor, TopologyAssignment, WorkerSlot
from stormwright.model.topology_config import BLOB_POLL
from stormwright.plans.plan import Move, Plan
from stormwright.storm.bridge import Bridge
from tests.controller.builders import on, problem, record, topology

LIMITS = MoveLimits(drain_s=0.3, swap_s=60)


T = topology("t", workers=1)


def ask(bridge: Bridge, runs: TopologyAssignment | None = None) -> Mapping[str, TopologyAssignment]:
    """As Nimbus does while t runs, or after a rebalance, which takes its slots away."""
    return bridge.answer(problem([T], current={T.id: runs} if runs else {})).assignments


class FakeStorm:
    """Nimbus and workers in one: reports what workers would after each call."""

    def __init__(self, tally: Tally, pending_after_pause: int = 0, refuse: str = "", lost: bool = False) -> None:
        self.calls: list[str] = []
        self.status = "ACTIVE"
        self._tally = tally
        self._pending = pending_after_pause
        self._begun, self._seq = 10, itertools.count(1)
        self._refuse = refuse
        self._lost_supervisor = lost
        self.asks: Bridge | None = None

    def cluster(self) -> dict[str, list[dict[str, str]]]:
        return {"topologies": [{"id": "t-1-0", "status": self.status}]}

    def deactivate(self, name: str) -> None:
        self.calls.append(f"deactivate {name}")
        acked, self._begun = self._begun - self._pending, self._pending
        for acked_now in (acked, 0, 0):
            time.sleep(0.02)
            self._report(acked=acked_now)

    def rebalance(self, name: str, wait_s: int, num_workers: int | None = None, *changes: object) -> None:
        self.calls.append(f"rebalance {name} {wait_s}" + (f" on {num_workers}" if num_workers else ""))
        if self._refuse:
            raise NimbusError(self._refuse)
        if self.asks:
            ask(self.asks)
        self._report(last=1)
        self._tally.add([record("t-1-0", "n1", 0, tasks=(1, 4), length_ms=20)])

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        self.calls.append(f"release {topology_id} {supervisor.id}")
        if self._lost_supervisor:
            raise NimbusError("no route to host")
        return self.calls.count(self.calls[-1]) > 1

    def activate(self, name: str) -> None:
        self.calls.append(f"activate {name}")

    def _report(self, **counted: int) -> None:
        self._tally.add([record("t-1-0", "n0", next(self._seq), tasks=(1, 4), length_ms=20, **counted)])


@pytest.fixture
def tally() -> Tally:
    counted = Tally()
    counted.add([record("t-1-0", "n0", 0, tasks=(1, 4), length_ms=20, trees=10)])
    return counted


@pytest.fixture
def move() -> Move:
    now = problem([T], current={T.id: on("n0")})
    (planned,) = plan_moves(now, Assignment(np.full(4, 2, dtype=np.int32)), MoveBudget()).steps
    return planned


@pytest.fixture
def bridge() -> Bridge:
    class Nothing:
        def schedule(self, problem: object) -> Assignment:
            raise AssertionError("a move orders its placement itself")

    return Bridge(Nothing(), "nothing")


@pytest.fixture
def pauses(tmp_path: Path) -> Pauses:
    return Pauses(FileDocument(tmp_path / "paused.json"))


def run(
    move: Move,
    storm: FakeStorm,
    bridge: Bridge,
    tally: Tally,
    pauses: Pauses,
    limits: MoveLimits = LIMITS,
    stop: threading.Event | None = None,
    policy: DrainPolicy = USUAL,
) -> MoveReport:
    storm.asks = bridge
    if bridge.snapshot() is None:
        ask(bridge, move.moves[0].before)
    (report,) = Mover(storm, bridge, tally, pauses, limits, lambda _: policy).move(move, "because", stop)
    return report


@pytest.mark.long
def test_pause_drain_swap_resume(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who waits for a worker that says that it ends, then waits longer than a swap may take.
    monkeypatch.setattr("stormwright.controller.move._ENDED_AFTER_S", 10 * LIMITS.swap_s)
    storm = FakeStorm(tally)
    report = run(move, storm, bridge, tally, pauses)
    released = "release t-1-0 n0"
    assert storm.calls == ["deactivate t", "rebalance t 0", released, released, "activate t"]
    assert report.complete
    assert report.moved_executors == 4


@pytest.mark.long
@pytest.mark.parametrize("returns", [False, True])
def test_move_waits_for_standby_workers_before_it_pauses_anything(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, returns: bool
) -> None:
    """The node of the new worker had one, which was used, and loads it again; a way back does not wait."""
    storm, sequence = FakeStorm(tally), itertools.count()

    def report_standbys(count: int) -> None:
        storm.calls.append(f"{count} standbys")
        of_other = record("other-1-0", "n1", next(sequence))
        of_other["worker"]["host"], of_other["node"] = "host1", {"standbys": count}
        tally.add([of_other])

    report_standbys(1)
    report_standbys(0)
    loaded = threading.Timer(0.7, report_standbys, [1])
    loaded.start()
    run(replace(move, returns=returns), storm, bridge, tally, pauses)
    loaded.join()
    assert ("1 standbys" in storm.calls[1 : storm.calls.index("deactivate t")]) is not returns


@pytest.mark.slow
def test_unchanged_worker_gets_time_to_discover_new_workers(
    bridge: Bridge, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for addresses only now and then, and emits into nowhere until it does."""
    two = topology("t", workers=2)
    conf = {REFRESH_POLL: 0.5}
    now = problem([two], current={two.id: on("n0", "n1")}, conf=conf)
    slots = np.array([now.slot_index[WorkerSlot(node, 6700)] for node in ("n0", "n0", "n2", "n2")], np.int32)
    (step,) = plan_moves(now, Assignment(slots), MoveBudget()).steps
    monkeypatch.setattr("stormwright.controller.move._CONNECT_S", 0.2)
    bridge.answer(now)
    tally, ended = Tally(), []

    class Storm(FakeStorm):
        def deactivate(self, name: str) -> None:
            self.calls.append(f"deactivate {name}")
            for seq in (1, 2, 3):
                time.sleep(0.02)
                tally.add([record(two.id, node, seq, tasks=tasks, length_ms=20) for node, tasks in runs.items()])

        def rebalance(self, name: str, wait_s: int, num_workers: int | None = None, *changes: object) -> None:
            ended.append(time.monotonic())
            bridge.answer(problem([two], conf=conf))
            tally.add([record(two.id, "n1", 4, tasks=(3, 4), length_ms=20, last=1)])
            tally.add([record(two.id, "n2", 0, tasks=(3, 4), length_ms=20)])

        def activate(self, name: str) -> None:
            ended.append(time.monotonic())

    runs = {"n0": (1, 2), "n1": (3, 4)}
    tally.add([record(two.id, node, 0, tasks=tasks, length_ms=20) for node, tasks in runs.items()])
    report = run(step, Storm(tally), bridge, tally, pauses)
    assert report.complete
    assert report.unchanged_workers == 1
    assert ended[1] - ended[0] >= 0.7


@pytest.mark.long
@pytest.mark.parametrize("held_s", [0.0, 3.0])
def test_topology_runs_again_once_every_worker_has_its_new_configuration(
    tally: Tally, bridge: Bridge, pauses: Pauses, monkeypatch: pytest.MonkeyPatch, held_s: float
) -> None:
    """A supervisor that was late has started one with that of before: it ends, and starts again.

    Others would have a broken connection to it: all workers are exchanged once more, as soon as that shows where the
    supervisor fetches the new one even so.
    """
    monkeypatch.setattr("stormwright.controller.move._HELD_S", held_s)
    monkeypatch.setattr("stormwright.controller.reconfigure._FETCH_S", 0.0)
    key = "topology.max.spout.pending"
    now = problem([T], current={T.id: on("n0")}, conf={BLOB_POLL: 0.3})
    plan = propose(now, Place({}, conf={T.id: {key: 50}}), PlanInputs())
    assert isinstance(plan, Plan)
    changed = replace(T, conf={key: 50})
    calls: list[str] = []
    ordered: list[float] = []

    class Storm(FakeStorm):
        def configuration(self, topology_id: str) -> str:
            return "new"

        def rebalance(self, name: str, wait_s: int, num_workers: int | None = None, *changes: object) -> None:
            calls.append(f"rebalance {changes}")
            ordered.append(time.monotonic())
            answer = bridge.answer(problem([changed], conf=now.conf))
            if not answer.assignments:
                self._report(last=1)
                return
            # The third one comes with the second answer, when the supervisor has the new configuration.
            for life in (1, 2) if len(ordered) == 2 else (3,):
                of = record(T.id, "n0", 0, tasks=(1, 4), length_ms=20)
                of["worker"] |= {"start_ms": life, "configuration": "old" if life == 1 else "new"}
                threading.Timer(0.3 * min(life, 2), tally.add, [[of]]).start()

        def activate(self, name: str) -> None:
            ordered.append(time.monotonic())

    bridge.answer(now)
    report = run(plan.steps[0], Storm(tally), bridge, tally, pauses)
    assert report.complete
    assert calls == [f"rebalance {(None, {key: 50})}", *[f"rebalance {(None, None)}"] * 3]
    # Not before supervisors have looked for it, nor before the second life of the worker.
    assert ordered[1] - ordered[0] >= min(0.3, held_s)
    assert ordered[2] - ordered[1] >= (0.3 if held_s else 0.6)


@pytest.mark.long
def test_rebalance_passes_chosen_number_of_workers(move: Move, bridge: Bridge, tally: Tally, pauses: Pauses) -> None:
    storm = FakeStorm(tally)
    assert run(move.with_workers({T.id: 3}), storm, bridge, tally, pauses).complete
    assert storm.calls[1] == "rebalance t 0 on 3"


def test_unreachable_supervisor_does_not_delay_the_move(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    storm = FakeStorm(tally, lost=True)
    report = run(move, storm, bridge, tally, pauses)
    assert report.complete
    assert any("host0: the stop request to the supervisor failed" in line for line in caplog.messages)


@pytest.mark.long
def test_surviving_old_worker_makes_the_move_incomplete(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses
) -> None:
    storm = FakeStorm(tally)
    over = threading.Event()

    def live_on() -> None:
        for seq in itertools.count(100):
            tally.add([record("t-1-0", "n0", seq, tasks=(1, 4), length_ms=20)])
            if over.wait(0.05):
                return

    worker = threading.Thread(target=live_on, daemon=True)
    worker.start()
    report = run(move, storm, bridge, tally, pauses, MoveLimits(drain_s=1, swap_s=1.5))
    over.set()
    worker.join()
    assert not report.complete
    assert storm.calls[-1] == "activate t"


@pytest.mark.long
def test_late_polls_after_reactivation_never_move_the_topology(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses
) -> None:
    """Nimbus has taken the rebalance and stood still since: its first questions may still show what ran."""
    storm = FakeStorm(tally)
    storm.rebalance = lambda *_: None
    with pytest.raises(MoveError, match=r"t-1-0: Nimbus has not polled the service for 0\.3 s; active, not moved"):
        run(move, storm, bridge, tally, pauses, MoveLimits(drain_s=1, swap_s=0.3))
    assert storm.calls[-1] == "activate t"
    assert ask(bridge, runs=on("n0")) == {}
    assert ask(bridge) == {T.id: on("n0")}, "the worker that runs is not even restarted"
    assert ask(bridge, runs=on("n1")) == {}, "somebody has moved it by hand"
    assert ask(bridge) == {}, "so it is not sent back later"


@pytest.mark.long
def test_placement_made_by_storm_without_answer_is_ordered_again(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stormwright.controller.move._LATE_S", 0.0)
    storm, asks = FakeStorm(tally), []
    in_time = storm.rebalance

    def rebalance(name: str, wait_s: int, num_workers: int | None = None, *changes: object) -> None:
        if not asks:
            storm.calls.append("rebalance t unanswered")
            asks.append(threading.Timer(0.05, ask, (bridge, on("n0", "n1"))))
            asks[0].start()
            return
        in_time(name, wait_s, num_workers)
        assert ask(bridge) == {T.id: move.moves[0].after}

    storm.rebalance = rebalance
    report = run(move, storm, bridge, tally, pauses)
    rebalanced = [call for call in storm.calls if call.startswith("rebalance")]
    assert rebalanced == ["rebalance t unanswered", "rebalance t 0"]
    assert storm.calls[-1] == "activate t"
    assert report.complete


@pytest.mark.long
def test_move_is_not_complete_before_nimbus_was_answered(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service stalled during a request of Nimbus: old workers have ended, and the topology runs elsewhere."""
    monkeypatch.setattr("stormwright.controller.move._LATE_S", 0.0)
    storm = FakeStorm(tally)
    in_time = storm.rebalance

    def rebalance(name: str, wait_s: int, num_workers: int | None = None, *changes: object) -> None:
        first = not any(call.startswith("rebalance") for call in storm.calls)
        storm.asks = None if first else bridge
        in_time(name, wait_s, num_workers)
        if first:
            threading.Timer(0.5, ask, (bridge, on("n0", "n1"))).start()

    storm.rebalance = rebalance
    assert run(move, storm, bridge, tally, pauses).complete
    assert [call for call in storm.calls if call.startswith("rebalance")] == ["rebalance t 0"] * 2


def test_rebalance_without_acknowledgement_moves_nothing(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses
) -> None:
    with pytest.raises(NimbusError):
        run(move, FakeStorm(tally, refuse="read timed out"), bridge, tally, pauses)
    assert ask(bridge) == {T.id: on("n0")}


def test_pending_trees_stop_the_move_and_resume_the_spouts(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses
) -> None:
    storm = FakeStorm(tally, pending_after_pause=3)
    with pytest.raises(MoveError, match="3 tuple trees still pending"):
        run(move, storm, bridge, tally, pauses)
    assert storm.calls == ["deactivate t", "activate t"]


@pytest.mark.long
def test_pending_trees_are_replayed_if_the_policy_of_the_topology_says_so(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses
) -> None:
    storm = FakeStorm(tally, pending_after_pause=3)
    report = run(move, storm, bridge, tally, pauses, policy=DrainPolicy(windows=True, may_replay=True, at_once=True))
    assert (report.complete, report.replayed) == (True, 3)
    assert storm.calls[:2] == ["deactivate t", "rebalance t 0"]
    assert storm.calls[-1] == "activate t"


def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_STUCK_S", 0.02), ("_TURN_S", 0.01), ("_POLL_S", 0.05)):
        monkeypatch.setattr(f"stormwright.controller.draining.{name}", seconds)


@pytest.mark.long
def test_tuple_retained_by_paused_spout_is_flushed_by_reactivation(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storm's spouts keep what finds a full queue, and send it when they are active again."""
    short_turns(monkeypatch)

    class Keeping(FakeStorm):
        def activate(self, name: str) -> None:
            super().activate(name)
            self._pending = 0

    storm = Keeping(tally, pending_after_pause=1)
    report = run(move, storm, bridge, tally, pauses, MoveLimits(drain_s=30, swap_s=60))
    assert storm.calls[:4] == ["deactivate t", "activate t", "deactivate t", "rebalance t 0"]
    assert report.complete
    assert tally.totals("t-1-0").failed == 0


@pytest.mark.long
def test_drain_of_bolt_holding_tuples_is_limited_to_few_turns(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_turns(monkeypatch)
    storm = FakeStorm(tally, pending_after_pause=3)
    with pytest.raises(MoveError, match="3 tuple trees still pending"):
        run(move, storm, bridge, tally, pauses, MoveLimits(drain_s=1.5, swap_s=60))
    assert storm.calls == ["deactivate t", *["activate t", "deactivate t"] * 3, "activate t"]


def test_a_refusal_of_nimbus_resumes_the_spouts(move: Move, bridge: Bridge, tally: Tally, pauses: Pauses) -> None:
    storm = FakeStorm(tally, refuse="not the leader")
    with pytest.raises(NimbusError, match="not the leader"):
        run(move, storm, bridge, tally, pauses)
    assert storm.calls[-1] == "activate t"


@pytest.mark.parametrize("how", ["crashes", "stalls"])
@pytest.mark.parametrize("returns", [True, False])
def test_topology_whose_workers_crash_or_hang_goes_back_without_a_drain(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses, monkeypatch: pytest.MonkeyPatch, returns: bool, how: str
) -> None:
    monkeypatch.setattr(Tally, how, lambda self, topology, live: topology == T.id)
    storm = FakeStorm(tally, pending_after_pause=3)
    step = replace(move, returns=returns)
    if returns:
        assert run(step, storm, bridge, tally, pauses).replayed == 3
        assert storm.calls[:2] == ["deactivate t", "rebalance t 0"]
    else:
        with pytest.raises(MoveError, match="3 tuple trees still pending"):
            run(step, storm, bridge, tally, pauses)


@pytest.mark.long
def test_topology_with_silent_workers_is_not_moved(move: Move, bridge: Bridge, pauses: Pauses) -> None:
    storm = FakeStorm(Tally())
    with pytest.raises(MoveError, match="1 of 1 workers do not report"):
        run(move, storm, bridge, Tally(), pauses, MoveLimits(heard_s=0.1))
    assert storm.calls == []
    stop = threading.Event()
    stop.set()
    with pytest.raises(MoveError, match="1 of 1 workers do not report"):
        run(move, storm, bridge, Tally(), pauses, stop=stop)


@pytest.mark.long
def test_move_after_service_start_waits_for_worker_reports(move: Move, bridge: Bridge, pauses: Pauses) -> None:
    tally = Tally()
    storm = FakeStorm(tally)
    first = record("t-1-0", "n0", 0, tasks=(1, 4), length_ms=20, trees=10)
    threading.Timer(0.3, tally.add, [[first]]).start()
    assert run(move, storm, bridge, tally, pauses).complete


def test_topology_paused_by_others_is_not_moved(move: Move, bridge: Bridge, tally: Tally, pauses: Pauses) -> None:
    storm = FakeStorm(tally)
    storm.status = "INACTIVE"
    with pytest.raises(MoveError, match="t-1-0 is INACTIVE"):
        run(move, storm, bridge, tally, pauses)
    assert storm.calls == []


def test_damaged_list_of_paused_topologies_is_reported(tmp_path: Path) -> None:
    (tmp_path / "paused.json").write_text("")
    with pytest.raises(ClusterError, match="activate by hand"):
        Pauses(FileDocument(tmp_path / "paused.json"))


def test_restarted_service_resumes_spouts_paused_by_killed_move(tmp_path: Path) -> None:
    def killed(_: str) -> None:
        raise NimbusError("the service died before it could say so")

    with pytest.raises(NimbusError), Pauses(FileDocument(tmp_path / "paused.json")).around(["t", "u"], killed):
        pass
    activated: list[str] = []
    back = Pauses(FileDocument(tmp_path / "paused.json"))
    back.resume(killed)
    back.resume(activated.append)
    back.resume(activated.append)
    assert activated == ["t", "u"]


def test_stopping_service_aborts_drain_and_resumes_topology(
    move: Move, bridge: Bridge, tally: Tally, pauses: Pauses
) -> None:
    storm, stop = FakeStorm(tally, pending_after_pause=3), threading.Event()
    stop.set()
    with pytest.raises(MoveStoppedError, match="being stopped"):
        run(move, storm, bridge, tally, pauses, stop=stop)
    assert storm.calls == ["deactivate t", "activate t"]
