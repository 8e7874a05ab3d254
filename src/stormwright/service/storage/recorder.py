"""Recorder of the history: snapshots, load profiles, decisions, moves and evaluations as rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson

from stormwright.base.clock import WALL, Clock
from stormwright.controller.objectives.gains import inter_node_tps
from stormwright.controller.objectives.placements import without_assumed_traffic
from stormwright.controller.planning.valid_moves import planned_slots
from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.formats import problem_to_dict
from stormwright.formats.document.load import load_to_dict
from stormwright.history.evaluation.moves import EvaluatedMove
from stormwright.history.tables.definitions import DECISIONS, EVALUATIONS, MOVES, PROFILES, SNAPSHOTS, Table
from stormwright.history.tables.staging import Staging
from stormwright.model import LoadProfile, Problem, cost_of
from stormwright.plans.plan import Plan, TopologyMove

#: Seconds between two profiles if no decision needs one in between.
PROFILE_EVERY_S = 60.0

_DAY_MS = 86_400_000


class Recorder:
    """Stages rows of the history, each once; their timestamps are strictly increasing.

    Parameters
    ----------
    staging
        Staging directory for the tables; None if there are no tables.
    scheduler
        Name of the scheduler that decides.
    clock
        Clock of the cluster.
    """

    def __init__(self, staging: Staging | None, scheduler: str, clock: Clock = WALL) -> None:
        self._clock = clock
        self._staging = staging
        self._scheduler = scheduler
        self._snapshot: tuple[str, int] = ("", -1)
        self._last_problem: Problem | None = None
        self._last_ms = 0
        self._profile_ms = 0
        self._profile_end_ms = 0

    def observe(self, problem: Problem) -> None:
        """Record the cluster if it has changed, and its load if that is due."""
        if self._staging is None:
            return
        snapshot = self._note_snapshot(problem)
        if problem.load is None or problem.load.end_ms == self._profile_end_ms:
            return
        if self._clock.time() * 1000 - self._profile_ms >= PROFILE_EVERY_S * 1000:
            self._note_profile(problem, problem.load, snapshot)

    def record_decision(self, problem: Problem, decision: Plan | NoPlan, dry_run: bool) -> int:
        """Record a decision with its inputs; return its timestamp, which is its key."""
        if self._staging is None:
            return self._now_ms()
        snapshot = self._note_snapshot(problem)
        if problem.load is not None and problem.load.end_ms != self._profile_end_ms:
            self._note_profile(problem, problem.load, snapshot)
        known = without_assumed_traffic(problem)
        search, moves = decision.search, decision.moves if isinstance(decision, Plan) else ()
        after = cost_of(known, planned_slots(problem, moves))
        before, wanted = (search.before, search.wanted) if search else (cost_of(known, known.current_slot), after)
        parameters = dict(search.parameters) if search else {}
        parameters.pop("predicted", None)  # large in a large cluster; promises are recorded with the moves
        at_ms = self._now_ms()
        row = {
            "at_ms": at_ms,
            "scheduler": self._scheduler,
            "parameters": orjson.dumps(parameters, default=str).decode(),
            "reason": decision.reason,
            "dry_run": dry_run,
            "moves": orjson.dumps(_moved_executors(moves)).decode(),
            "cost_before": before.total,
            "cost_wanted": wanted.total,
            "cost_after": after.total,
            "inter_node_before_tps": inter_node_tps(before),
            "inter_node_wanted_tps": inter_node_tps(wanted),
            "inter_node_after_tps": inter_node_tps(after),
            "snapshot": snapshot,
            "profile_ms": self._profile_ms,
        }
        self._write(DECISIONS, at_ms, row)
        return at_ms

    def record_move(self, decision_ms: int, topology: str, report: MoveReport | None, failure: str | None) -> None:
        """Record a move, made or failed.

        Parameters
        ----------
        decision_ms
            Key of its decision, from `record_decision`.
        topology
            Id of the topology that moved or should have.
        report
            Steps and durations; None for a failed move.
        failure
            Error of a failed move; else None.
        """
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "decision_ms": decision_ms, "topology": topology, "failure": failure}
        self._write(MOVES, at_ms, row | (asdict(report) if report else {}))

    def record_evaluation(self, evaluated: EvaluatedMove) -> None:
        """Record the evaluation of a move."""
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "decision_ms": evaluated.decision_ms, "topology": evaluated.topology}
        self._write(EVALUATIONS, at_ms, row | asdict(evaluated.evaluation))

    def _note_snapshot(self, problem: Problem) -> str:
        """Record the cluster, at least once a day so that old days can be deleted; return the snapshot's id."""
        at_ms = self._now_ms()
        name, day = self._snapshot
        if _is_same_snapshot(self._last_problem, problem) and day == at_ms // _DAY_MS:
            return name
        text = orjson.dumps(problem_to_dict(replace(problem, load=None)), option=orjson.OPT_SORT_KEYS)
        name = hashlib.sha256(text).hexdigest()[:16]
        if self._snapshot != (name, at_ms // _DAY_MS):
            self._write(SNAPSHOTS, at_ms, {"at_ms": at_ms, "id": name, "document": text.decode()})
            self._snapshot = (name, at_ms // _DAY_MS)
        self._last_problem = problem
        return name

    def _note_profile(self, problem: Problem, load: LoadProfile, snapshot: str) -> None:
        document = {
            "topologies": {
                topology.id: load_to_dict(load.topologies[topology.id], topology)
                for topology in problem.topologies
                if topology.id in load.topologies
            },
            "node_cpu_hz": dict(load.node_cpu_hz),
            "node_quota_hz": dict(load.node_quota_hz),
            "node_overhead_hz": dict(load.node_overhead_hz),
            "overload_s": dict(load.overload_s),
        }
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "snapshot": snapshot, "start_ms": load.start_ms, "end_ms": load.end_ms}
        self._write(PROFILES, at_ms, row | {"document": orjson.dumps(document).decode()})
        self._profile_ms, self._profile_end_ms = at_ms, load.end_ms

    def _write(self, table: Table, at_ms: int, row: Mapping[str, Any]) -> None:
        if self._staging is not None:
            self._staging.write(table, f"{at_ms:013d}", [row])

    def _now_ms(self) -> int:
        """Return the time of day, later than any returned before."""
        self._last_ms = max(round(self._clock.time() * 1000), self._last_ms + 1)
        return self._last_ms


def _moved_executors(moves: tuple[TopologyMove, ...]) -> dict[str, list[int]]:
    """Topology id → executors that move in each of its moves."""
    found: dict[str, list[int]] = {}
    for move in moves:
        found.setdefault(move.topology, []).append(move.moved_executors)
    return found


def _is_same_snapshot(one: Problem | None, other: Problem) -> bool:
    """Return whether two problems are the same snapshot of Nimbus, perhaps under different loads."""
    return one is not None and all(
        getattr(one, part) is getattr(other, part) for part in ("supervisors", "topologies", "current", "conf")
    )
