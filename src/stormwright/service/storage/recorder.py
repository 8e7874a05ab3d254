"""What the controller knows, decides and does, noted down for the history."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson

from stormwright.clock import WALL, Clock
from stormwright.controller.objectives.outlook import inter_node_tps
from stormwright.controller.planning.plan import TopologyMove
from stormwright.controller.policy import Decision, planned_slots, without_assumed_traffic
from stormwright.controller.reports import MoveReport
from stormwright.formats import problem_to_dict
from stormwright.formats.document.problem import load_to_dict
from stormwright.history.evaluation.moves import EvaluatedMove
from stormwright.history.tables.definitions import DECISIONS, JUDGEMENTS, MOVES, PROFILES, SNAPSHOTS, Table
from stormwright.history.tables.staging import Staging
from stormwright.model import LoadProfile, Problem, cost_of

#: Seconds from one profile to the next, where no decision asks for one in between.
PROFILE_EVERY_S = 60.0

_DAY_MS = 86_400_000


class Recorder:
    """Stages rows of the history, none twice; its moments are times of day and grow.

    Parameters
    ----------
    staging
        Where they wait for the tables; None where there are none.
    scheduler
        Who decides.
    clock
        Of the cluster.
    """

    def __init__(self, staging: Staging | None, scheduler: str, clock: Clock = WALL) -> None:
        self._clock = clock
        self._staging = staging
        self._scheduler = scheduler
        self._snapshot: tuple[str, int] = ("", -1)
        self._seen: Problem | None = None
        self._last_ms = 0
        self._profile_ms = 0
        self._profile_end_ms = 0

    def observe(self, problem: Problem) -> None:
        """Note the cluster where it has changed, and its load where that is due."""
        if self._staging is None:
            return
        snapshot = self._note_snapshot(problem)
        if problem.load is None or problem.load.end_ms == self._profile_end_ms:
            return
        if self._clock.time() * 1000 - self._profile_ms >= PROFILE_EVERY_S * 1000:
            self._note_profile(problem, problem.load, snapshot)

    def decide(self, problem: Problem, decision: Decision, dry_run: bool) -> int:
        """Note a look at the placement and everything that it went by; its moment, which names it."""
        if self._staging is None:
            return self._now_ms()
        snapshot = self._note_snapshot(problem)
        if problem.load is not None and problem.load.end_ms != self._profile_end_ms:
            self._note_profile(problem, problem.load, snapshot)
        seen = without_assumed_traffic(problem)
        after = cost_of(seen, planned_slots(problem, decision.plan.moves))
        before, wanted = decision.before or after, decision.after or after
        parameters = dict(decision.assignment.parameters) if decision.assignment else {}
        parameters.pop("predicted", None)  # much in a large cluster; what a move promises is noted with it
        at_ms = self._now_ms()
        row = {
            "at_ms": at_ms,
            "scheduler": self._scheduler,
            "parameters": orjson.dumps(parameters, default=str).decode(),
            "reason": decision.reason,
            "dry_run": dry_run,
            "moves": orjson.dumps(_moved_executors(decision.plan.moves)).decode(),
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

    def move(self, decision_ms: int, topology: str, report: MoveReport | None, failure: str | None) -> None:
        """Note a move that was made or has failed.

        Parameters
        ----------
        decision_ms
            Key of the decision that it belongs to, as `decide` gave it.
        topology
            Its id.
        report
            What was done and how long it took; None of a move that has failed.
        failure
            Why; None of one that was made.
        """
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "decision_ms": decision_ms, "topology": topology, "failure": failure}
        self._write(MOVES, at_ms, row | (asdict(report) if report else {}))

    def judge(self, judged: EvaluatedMove) -> None:
        """Note what came of a move."""
        at_ms = self._now_ms()
        row = {"at_ms": at_ms, "decision_ms": judged.decision_ms, "topology": judged.topology}
        self._write(JUDGEMENTS, at_ms, row | asdict(judged.judgement))

    def _note_snapshot(self, problem: Problem) -> str:
        """Note the cluster once a day at least, so that old days can be deleted; the snapshot's id."""
        at_ms = self._now_ms()
        name, day = self._snapshot
        if _same(self._seen, problem) and day == at_ms // _DAY_MS:
            return name
        text = orjson.dumps(problem_to_dict(replace(problem, load=None)), option=orjson.OPT_SORT_KEYS)
        name = hashlib.sha256(text).hexdigest()[:16]
        if self._snapshot != (name, at_ms // _DAY_MS):
            self._write(SNAPSHOTS, at_ms, {"at_ms": at_ms, "id": name, "document": text.decode()})
            self._snapshot = (name, at_ms // _DAY_MS)
        self._seen = problem
        return name

    def _note_profile(self, problem: Problem, load: LoadProfile, snapshot: str) -> None:
        document = {
            "topologies": {
                topology.id: load_to_dict(load.topologies[topology.id], topology)
                for topology in problem.topologies
                if topology.id in load.topologies
            },
            "node_cpu_hz": dict(load.node_cpu_hz),
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
        """The time of day, later than any before."""
        self._last_ms = max(round(self._clock.time() * 1000), self._last_ms + 1)
        return self._last_ms


def _moved_executors(moves: tuple[TopologyMove, ...]) -> dict[str, list[int]]:
    """Topology id → executors that move in each of its moves."""
    found: dict[str, list[int]] = {}
    for move in moves:
        found.setdefault(move.topology.id, []).append(move.moved_executors)
    return found


def _same(one: Problem | None, other: Problem) -> bool:
    """Whether two are the same snapshot of Nimbus, maybe under different loads."""
    return one is not None and all(
        getattr(one, part) is getattr(other, part) for part in ("supervisors", "topologies", "current", "conf")
    )
