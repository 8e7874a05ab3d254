"""Topologies that change places: all have moved or none has, and none stays paused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stormwright.base.documents import FileDocument
from stormwright.controller.move import Mover
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.reports import MoveLimits, MoveReport
from stormwright.controller.safety.pauses import GONE, Pauses
from stormwright.controller.tally import Tally
from stormwright.errors import MoveError, NimbusError
from stormwright.model import Assignment, Problem, Supervisor, TopologyAssignment
from stormwright.plans.plan import Move
from stormwright.storm.bridge import Bridge
from stormwright.storm.occupancy import Order
from tests.controller.builders import on, place, problem, record, topology

A, B = topology("a", workers=1), topology("b", workers=1)
RUNS = {A.id: on("n0"), B.id: on("n1")}
SWAPPED = {A.id: on("n1"), B.id: on("n0")}
PATIENT, IMPATIENT = MoveLimits(drain_s=60, swap_s=60), MoveLimits(drain_s=0.3, swap_s=1.0)


class NoRoomLeft:
    def schedule(self, problem: Problem) -> Assignment:
        return Assignment(problem.current_slot)


class FakeStorm:
    """Nimbus, supervisors and workers in one: a rebalance takes the slots away and asks the bridge at once.

    `refuse` maps a call such as ``rebalance a`` to what goes wrong; `lost` are nodes that Nimbus no longer shows.
    """

    def __init__(self, bridge: Bridge, tally: Tally, paused: Path) -> None:
        self.calls: list[str] = []
        self.status = {A.id: "ACTIVE", B.id: "ACTIVE"}
        self.runs: dict[str, TopologyAssignment] = dict(RUNS)
        self.refuse: dict[str, str] = {}
        self.lost: set[str] = set()
        self.pending: set[str] = set()
        self.asks = True
        self.shown_taken_twice = False
        self.paused_at_rebalance: list[str] = []
        self._bridge, self._tally, self._paused = bridge, tally, paused
        self._seq = 0
        self.report(*RUNS)

    def report(self, *topologies: str, last: int = 0) -> None:
        for name in topologies:
            self._seq += 1
            slot = self.runs[name].slots[0]
            trees = 5 if name in self.pending else 0
            one = record(name, slot.supervisor, self._seq, port=slot.port, tasks=(1, 4), length_ms=20, trees=trees)
            self._tally.add([one | {"worker": one["worker"] | {"last": last, "pid": self._life(name)}}])

    def _life(self, name: str) -> int:
        return 1 if self.runs[name] == RUNS[name] else 2

    def _call(self, text: str) -> None:
        self.calls.append(text)
        if text in self.refuse:
            raise NimbusError(self.refuse[text])

    def cluster(self) -> dict[str, list[dict[str, str]]]:
        return {"topologies": [{"id": topology, "status": status} for topology, status in self.status.items()]}

    def activate(self, name: str) -> None:
        self._call(f"activate {name}")
        self.status[f"{name}-1-0"] = "ACTIVE"

    def deactivate(self, name: str) -> None:
        self._call(f"deactivate {name}")
        self.status[f"{name}-1-0"] = "INACTIVE"
        for _ in range(3):
            time.sleep(0.02)
            self.report(*RUNS)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        self.calls.append(f"release {topology_id} {supervisor.id}")
        return True

    def rebalance(self, name: str, wait_s: int, num_workers: int | None = None, *changes: object) -> None:
        self._call(f"rebalance {name}" + (f" on {num_workers}" if num_workers else ""))
        self.paused_at_rebalance = json.loads(self._paused.read_text())
        if not self.asks:
            return
        nodes = 2 - len(self.lost)
        shown = {t: runs for t, runs in self.runs.items() if t != f"{name}-1-0"}
        answer = self._bridge.answer(problem([A, B], nodes=nodes, slots=1, current=shown))
        after = {**shown, **answer.assignments}
        slots = [slot for runs in after.values() for slot in runs.slots]
        self.shown_taken_twice = len(slots) != len(set(slots))
        for moved in after.keys() - {t for t, runs in self.runs.items() if after.get(t) == runs}:
            self.report(moved, last=1)
            self.runs[moved] = after[moved]
        self.report(*RUNS)


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def paused(tmp_path: Path) -> Path:
    return tmp_path / "paused.json"


@pytest.fixture
def storm(tally: Tally, paused: Path) -> FakeStorm:
    return FakeStorm(Bridge(NoRoomLeft(), "nothing"), tally, paused)


@pytest.fixture
def swap(storm: FakeStorm, tally: Tally, paused: Path) -> Callable[..., list[MoveReport]]:
    now = problem([A, B], nodes=2, slots=1, current=RUNS)
    (step,) = plan_moves(now, Assignment(np.repeat([1, 0], 4).astype(np.int32)), MoveBudget()).steps
    storm._bridge.answer(now)  # noqa: SLF001
    assert isinstance(step, Move)

    def move(limits: MoveLimits = PATIENT) -> list[MoveReport]:
        return Mover(storm, storm._bridge, tally, Pauses(FileDocument(paused)), limits).move(step, "because")  # noqa: SLF001

    return move


def test_swap_pauses_both_topologies_rebalances_once_and_resumes_both(
    storm: FakeStorm, swap: Callable[..., list[MoveReport]], paused: Path
) -> None:
    reports = swap()
    calls = [call for call in storm.calls if not call.startswith("release")]
    assert calls == ["deactivate a", "deactivate b", "rebalance a", "activate a", "activate b"]
    assert storm.paused_at_rebalance == ["a", "b"]
    assert storm.runs == SWAPPED
    assert not storm.shown_taken_twice
    assert [(report.topology, report.complete) for report in reports] == [(A.id, True), (B.id, True)]
    assert json.loads(paused.read_text()) == []


@pytest.mark.parametrize(
    ("call", "why"), [("deactivate b", "no leader"), ("rebalance a", "not the leader"), ("activate a", "no route")]
)
def test_failed_nimbus_call_during_swap_leaves_both_topologies_active_and_whole(
    storm: FakeStorm, swap: Callable[..., list[MoveReport]], paused: Path, call: str, why: str
) -> None:
    storm.refuse = {call: why}
    with pytest.raises(NimbusError, match=why):
        swap()
    assert storm.runs == (SWAPPED if call == "activate a" else RUNS)
    assert storm.status[B.id] == "ACTIVE"
    storm.refuse = {}
    Pauses(FileDocument(paused)).resume(storm.activate)
    assert set(storm.status.values()) == {"ACTIVE"}
    storm.rebalance("b", 0)
    assert (storm.runs[A.id] == RUNS[A.id]) == (call != "activate a"), "no order is left over"


def test_undrained_topology_cancels_the_swap(storm: FakeStorm, swap: Callable[..., list[MoveReport]]) -> None:
    storm.pending = {B.id}
    with pytest.raises(MoveError, match=r"b-1-0: \d+ tuple trees still pending"):
        swap(IMPATIENT)
    assert storm.calls == ["deactivate a", "deactivate b", "activate a", "activate b"]
    assert storm.runs == RUNS


@pytest.mark.long
def test_lost_slot_returns_other_half_of_swap(storm: FakeStorm, swap: Callable[..., list[MoveReport]]) -> None:
    """Nimbus no longer shows n1: a, whose slots the rebalance has taken, gets them again."""
    storm.lost = {"n1"}
    with pytest.raises(MoveError, match="a-1-0, b-1-0: not placed as ordered"):
        swap(IMPATIENT)
    assert storm.runs == RUNS
    assert set(storm.status.values()) == {"ACTIVE"}


def test_foreign_topology_in_target_slot_returns_other_half_of_swap() -> None:
    bridge = Bridge(NoRoomLeft(), "nothing")
    now = problem([A, B, topology("c", workers=1)], nodes=3, slots=1, current=RUNS | {"c-1-0": on("n2")})
    ordered = {A.id: on("n1"), B.id: on("n2")}
    bridge.order_all({t: Order(ordered[t], "better", frozenset(ordered), RUNS[t]) for t in ordered})
    assert bridge.answer(now).assignments == {}, "nobody has left"
    shown = now.with_current({t: runs for t, runs in now.current.items() if t != A.id})
    assert bridge.answer(shown).assignments == {A.id: RUNS[A.id]}


@pytest.mark.parametrize("changed", ["executors", "workers", "unfit"])
def test_changed_topology_returns_other_half_of_swap(changed: str) -> None:
    """A slot that one is given while the other still has it is no answer."""
    bridge = Bridge(NoRoomLeft(), "nothing")
    bridge.order_all({t: Order(SWAPPED[t], "better", frozenset(SWAPPED), RUNS[t]) for t in SWAPPED})
    b = {"executors": topology("b", bolts=5, workers=1), "workers": topology("b", workers=2)}.get(changed, B)
    runs = place([("n1", 6700)], [0] * b.num_executors)
    answer = bridge.answer(
        problem([A, b], nodes=2, slots=1, current={b.id: runs}), {b.id: ("odd",)} if changed == "unfit" else {}
    )
    assert answer.assignments == {A.id: RUNS[A.id]}


def test_half_stored_swap_is_completed_by_next_answer() -> None:
    """Nimbus has ended in between; of two in a slot Storm shows the one, and of the other that it has none there."""
    bridge = Bridge(NoRoomLeft(), "nothing")
    now = problem([A, B], nodes=2, slots=1, current=RUNS)
    for stored in (A, B):
        bridge.order_all({t: Order(SWAPPED[t], "better", frozenset(SWAPPED), RUNS[t]) for t in SWAPPED})
        half = now.with_current({stored.id: SWAPPED[stored.id]})
        assert bridge.answer(half).assignments == SWAPPED
        assert bridge.answer(now.with_current(SWAPPED)).assignments == {}
        assert bridge.answer(now.with_current({})).assignments == {}, "no order is left over"


@pytest.mark.long
def test_swap_is_cancelled_for_good_when_nimbus_stops_polling(
    storm: FakeStorm, swap: Callable[..., list[MoveReport]]
) -> None:
    """It has ended after it took the rebalance; both run on meanwhile, undrained."""
    storm.asks = False
    with pytest.raises(MoveError, match="a-1-0, b-1-0: Nimbus has not polled the service for 1 s; active, not moved"):
        swap(IMPATIENT)
    assert set(storm.status.values()) == {"ACTIVE"}
    storm.asks = True
    storm.rebalance("a", 0)
    assert storm.runs == RUNS


def test_failed_activation_leaves_no_other_topology_paused(paused: Path) -> None:
    """Whatever goes wrong with it."""
    called: list[str] = []

    def activate(name: str) -> None:
        called.append(name)
        if name == "a":
            raise OSError(12, "Cannot allocate memory")

    with pytest.raises(OSError, match="memory"), Pauses(FileDocument(paused)).around(["a", "b"], activate):
        pass
    assert called == ["a", "b"]
    assert json.loads(paused.read_text()) == ["a"]


def test_full_disk_leaves_no_topology_paused(paused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    pauses, called = Pauses(FileDocument(paused)), list[str]()
    with pauses.around(["a", "b"], called.append):
        monkeypatch.setattr("stormwright.base.documents.write_whole", full)
    assert called == ["a", "b"]
    pauses.resume(called.append)
    with pytest.raises(OSError, match="No space"), pauses.around(["c"], called.append):
        pytest.fail("paused, and nobody would know")
    pauses.resume(called.append)
    assert called == ["a", "b"], "what was not paused is not activated, who has paused it himself"
    Pauses(FileDocument(paused)).resume(called.append)
    assert called == ["a", "b", "a", "b"], "what is still written down is"


def test_removed_topology_is_dropped_from_paused_list(paused: Path) -> None:
    """By Storm's exception, not by its words."""

    def activate(name: str) -> None:
        raise NimbusError(f"{name} is not there", GONE if name == "gone" else "TTransportException")

    paused.write_text('["gone", "NotAlive"]')
    Pauses(FileDocument(paused)).resume(activate)
    assert json.loads(paused.read_text()) == ["NotAlive"]
