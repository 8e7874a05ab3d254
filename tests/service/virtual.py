"""A virtual Storm under the deciding part of the service: its own clock, workers that warm up, good and bad places."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from stormwright.controller.objectives.outlook import TRAFFIC
from stormwright.controller.objectives.refusals import RefusedPlacements
from stormwright.controller.propose import Plan
from stormwright.controller.reports import MoveReport
from stormwright.model import Assignment, LoadProfile, Problem, Scheduler, TopologyAssignment
from stormwright.model.load import assumed_load
from stormwright.plans.plan import Move
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.decider import Decider
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.executor import PlanExecutor
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.move_runner import MoveRunner
from stormwright.service.plans.outcomes import MoveOutcomes
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.store import PlanStore
from stormwright.service.plans.tunings import TuningStorage
from stormwright.service.safety.trial_budget import TrialBudget
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.database import FILE, State
from stormwright.service.storage.history import HistorySettings, ServiceHistory
from tests.controller.builders import on, problem, record, topology

T = topology("t")

#: 2026-11-20T23:59:00Z.
START_S = 1_795_219_140

#: Seconds until the trees under way are complete, and for which new workers compile and do less than they will.
DRAIN_S, WARMING_S = 3, 60


class AllOn:
    """Puts everything into two workers of one node: next to no traffic between nodes, whatever comes of it."""

    def __init__(self, node: int) -> None:
        self._slots = np.repeat([2 * node, 2 * node + 1], 2).astype(np.int32)

    def schedule(self, problem: Problem) -> Assignment:
        return Assignment(self._slots)


@dataclass
class Place:
    """What a topology comes to in a place once its workers are warm: trees/s, and ms that one takes.

    Workers that crash live for `lives_s` of ten seconds each, and complete nothing.
    """

    highest_tps: float
    latency_ms: float
    lives_s: float | None = None


class VirtualStorm:
    """One topology on three nodes, and time.

    Parameters
    ----------
    place
        What a placement is good for.
    offered_tps
        What its spouts have to emit at a moment, in seconds since the start.
    swap_s, behind_s
        Seconds from the start of new workers until their topology is active again, and by which the clock of their
        nodes is behind.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        place: Callable[[TopologyAssignment], Place],
        offered_tps: Callable[[float], float] = lambda _: 1e9,
        swap_s: int = 3,
        behind_s: float = 0.0,
    ) -> None:
        self.place, self.offered_tps, self.swap_s, self.behind_s = place, offered_tps, swap_s, behind_s
        #: Receives the records of the workers during a move.
        self.count: Callable[[list[dict[str, Any]]], object] = lambda _: None
        self.now_s = float(START_S)
        self.runs = on("n0", "n1")
        self.born_s = self.active_s = float(START_S)
        self.moves: list[tuple[float, TopologyAssignment]] = []
        self._seq, self._rng = 0, np.random.default_rng(1)
        monkeypatch.setattr(time, "time", lambda: self.now_s)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def problem(self) -> Problem:
        crashes = self.place(self.runs).lives_s is not None
        now_ms = round((self.active_s if crashes else self.now_s) * 1000)
        load = LoadProfile({T.id: assumed_load(T, 3e9)}, start_ms=now_ms - 15_000, end_ms=now_ms)
        return problem([T], current={T.id: self.runs}, load=load)

    def second(self) -> list[dict[str, Any]]:
        """A second passes; what the workers report of it."""
        # Negative while the topology is paused: then new workers wait and compile nothing.
        age_s, place = self.now_s - self.active_s, self.place(self.runs)
        slow = (2.0 if age_s < WARMING_S else 1.0) * float(np.exp(0.05 * self._rng.normal()))
        highest = place.highest_tps / slow
        offered = self.offered_tps(self.now_s - START_S) if age_s >= 0 else 0.0
        rate, latency = min(highest, offered), place.latency_ms * slow
        if offered < highest:
            latency *= 0.8
        workers, born_s = [(slot.supervisor, slot.port) for slot in self.runs.slots], self.born_s
        if place.lives_s is not None and age_s >= 0:
            rate, born_s = 0.0, born_s + age_s // 10 * 10
            workers = workers if age_s % 10 < place.lives_s else []
        found = []
        for number, (node, port) in enumerate(workers):
            one = record(
                T.id,
                node,
                self._seq,
                port=port,
                tasks=(1 + 2 * number, 2 + 2 * number),
                start_ms=round((self.now_s - self.behind_s) * 1000),
            )
            one["worker"]["start_ms"] = round((born_s - self.behind_s) * 1000)
            one["executors"][0] |= {"received": round(rate), "type": "spout" if number == 0 else "bolt"}
            if number == 0:
                one["executors"][0] |= {
                    "acked": round(rate),
                    "trees": round(rate),
                    "pending": round(rate * latency / 1000),
                }
                one["complete_latency"] = {"counts": [*[0] * round(4 * np.log2(latency)), round(rate)]}
            one["process_cpu_ns"] = 1_000_000
            threads = dict.fromkeys(("messaging_ns", "gc_ns", "other_ns"), 0)
            one["threads"] = threads | {"compiler_ns": 400_000 if 0 <= age_s < WARMING_S else 1_000}
            found.append(one)
        self._seq += 1
        self.now_s += 1
        return found

    def move(self, step: Move, reason: str, stop: threading.Event | None) -> Sequence[MoveReport]:
        """The safe move: nothing comes through while it lasts."""
        (move,) = step.moves
        started_ms = round(self.now_s * 1000)
        self.now_s += DRAIN_S
        self.runs, self.born_s, self.active_s = move.after, self.now_s, self.now_s + self.swap_s
        while self.now_s < self.active_s:
            self.count(self.second())
        self.moves.append((self.now_s, move.after))
        ended_ms = round(self.now_s * 1000)
        return [MoveReport(T.id, 4, 2, 2, 0, DRAIN_S, self.swap_s, 0.0, started_ms, ended_ms, complete=True)]


class View:
    """What the service sees of a virtual Storm."""

    def __init__(self, storm: VirtualStorm) -> None:
        self.problem = storm.problem

    def age_s(self) -> float:
        return 1.0

    def unfit(self) -> dict[str, str]:
        return {}

    def unfitted(self, problem: Problem) -> dict[str, str]:
        return {}

    def note(self, problem: Problem, *, fit: bool = False) -> None:
        pass


class Deciding:
    """The deciding part of a service over a state directory."""

    def __init__(
        self,
        storm: VirtualStorm,
        state: Path,
        scheduler: Scheduler,
        trial_scheduler: Scheduler | None = None,
        repair_scheduler: Scheduler | None = None,
        **settings: Any,
    ) -> None:
        self.storm = storm
        # Where a decision was made once in a long time, the second is none that it cooled down for.
        triggers = TriggerParams(period_s=10, cool_down_s=10)
        given = ServiceSettings(state, "127.0.0.1", 0, triggers=triggers, objective=TRAFFIC)
        self.settings = replace(given, **settings)
        self.state = State(state / FILE)
        plans, journal = PlanStore(self.state), Journal(self.state)
        guard = Guard(self.state, plans, journal, "auto")
        self.memory = ServiceMemory()
        self.history = ServiceHistory(HistorySettings(), state, self.state, "forced", journal.record_evaluation)
        self.refused = RefusedPlacements(self.state.document("refused"))
        view = cast(Any, View(storm))
        trials = TrialBudget(self.state, self.settings.trials_per_day)
        self.decider = Decider(
            self.settings,
            scheduler,
            view,
            self.memory,
            self.history,
            self.refused,
            guard,
            None,
            trials,
            trial_scheduler,
            lambda: {**self.plan_service.autopilots.held(), **self.plan_service.tunings.running()},
        )
        outcomes = MoveOutcomes(self.decider, view, self.history, self.memory, self.refused, guard)
        self.runner = MoveRunner(storm.move, self.memory, self.history, "forced", triggers.cool_down_s, journal)
        makers = PlanMakers(TRAFFIC, lambda _: scheduler, repair_scheduler or scheduler)
        tuning = TuningStorage.of(self.state, self.history.recent)
        self.plan_service = PlanService(plans, journal, guard, view.problem, makers, "forced", tuning)
        self.executor = PlanExecutor(plans, journal, outcomes, self.runner, self.plan_service.approve)
        self.history.start(lambda: None)
        storm.count = self.history.count

    def run(self, seconds: int, until: Callable[[Plan], bool] = lambda _: False) -> Plan | None:
        """Decide each second; the decision at which it stopped, None where it went on to the end."""
        for _ in range(seconds):
            self.history.count(self.storm.second())
            decision = self.decider.decide()
            if isinstance(decision, Plan):
                self.executor.execute(decision)
                if until(decision):
                    return decision
        return None

    def second(self) -> None:
        """A second of the loop, with plans of people and tunings; plans are made at once."""
        self.history.count(self.storm.second())
        self.plan_service.tunings.advance()
        while self.plan_service.plans(("planning",)).plans:
            threading.Event().wait(0.001)
        if not self.executor.advance() and isinstance(decision := self.decider.decide(), Plan):
            self.executor.execute(decision)

    def moved(self, seconds: int) -> Plan:
        """The next decision that moves something within that many seconds."""
        decision = self.run(seconds, lambda decision: bool(decision.moves))
        assert decision is not None
        return decision

    def end(self) -> None:
        self.plan_service.close()
        self.history.stop()
        self.state.close()
