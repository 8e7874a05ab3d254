"""Journal of changes: author, reason, placements before, and the outcome."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from sqlite3 import Row
from typing import Any

import orjson

from stormwright.client import shapes
from stormwright.controller.planning.expected_pauses import modelled_pause_s
from stormwright.controller.reports import MoveReport
from stormwright.errors import ConflictError, NotFoundError
from stormwright.history.evaluation.moves import EvaluatedMove
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.model import TopologyAssignment
from stormwright.plans.figures import StageEvaluation
from stormwright.plans.json import placement_of_json, placement_to_json
from stormwright.plans.plan import Promise, Step
from stormwright.service.storage.database import ENTRY_TABLES, State

#: Figures of a promise that the API shows.
_PROMISED = ("sustained", "latency", "full_latency", "inter_node")

#: Moves of the past that tell how long a pause lasts.
_PAUSES = 20


@dataclass(frozen=True)
class Before:
    """Placements by topology id, and of changes since: numbers of executors by component (id), values by key."""

    placements: dict[str, TopologyAssignment]
    executors: dict[str, dict[str, int]]
    conf: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Before:
        """Return those of rows of the table ``moves``; of several of a topology the first counts."""
        placements: dict[str, TopologyAssignment] = {}
        executors: dict[str, dict[str, int]] = {}
        conf: dict[str, dict[str, Any]] = {}
        for row in rows:
            topology = row["topology"]
            if topology not in placements:
                placements[topology] = placement_of_json(row["before"])
            for component, count in orjson.loads(row["executors"]).items():
                executors.setdefault(topology, {}).setdefault(component, count)
            for key, value in orjson.loads(row["conf"]).items():
                conf.setdefault(topology, {}).setdefault(key, value)
        return cls(placements, executors, conf)

    def only(self, topologies: Collection[str]) -> Before:
        """Return those of some topologies (ids)."""
        return Before(
            {topology: each for topology, each in self.placements.items() if topology in topologies},
            {topology: each for topology, each in self.executors.items() if topology in topologies},
            {topology: each for topology, each in self.conf.items() if topology in topologies},
        )


class Journal:
    """Records changes, with placements before anything moves and the outcome afterwards.

    Parameters
    ----------
    state
        Database of the service, which holds the entries.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def add_entry(self, kind: str, who: str, reason: str, text: str = "", plan: str = "") -> int:
        """Record a change; return its number.

        Parameters
        ----------
        kind
            As `shapes.HistoryEntry` has it.
        who, reason
            Author of the change and the reason given for it.
        text
            Description, if there are no moves.
        plan
            Id of the applied plan.
        """
        row = (round(self._state.clock.time() * 1000), kind, who, reason, text, plan)
        with self._state.change() as to:
            done = to.execute("INSERT INTO decisions (at_ms, kind, who, reason, text, plan) VALUES (?,?,?,?,?,?)", row)
            return int(done.lastrowid or 0)

    def link_decision(self, n: int, decision_ms: int) -> None:
        """Link a decision in the history's tables, by its time, to an entry."""
        with self._state.change() as to:
            to.execute("INSERT OR REPLACE INTO decision_times VALUES (?, ?)", (decision_ms, n))

    def record_before(self, n: int, step: Step, promises: Mapping[str, Promise]) -> None:
        """Record the placement of topologies before a step; of several moves in one entry the first counts."""
        with self._state.change() as to:
            for move in step.moves:
                promise = asdict(promises[move.topology]) if move.topology in promises else {}
                promised = orjson.dumps({name: promise.get(name) for name in _PROMISED}).decode()
                before = placement_to_json(move.before)
                changed = (orjson.dumps(each).decode() for each in (move.executors_before, move.conf_before))
                row = (n, move.topology, move.name, before, promised, *changed)
                to.execute("INSERT OR IGNORE INTO moves VALUES (?, ?, ?, ?, NULL, ?, NULL, 0, '', NULL, ?, ?)", row)

    def record_moves(self, n: int, step: Step, reports: Sequence[MoveReport]) -> None:
        """Record successful moves."""
        with self._state.change() as to:
            for move, report in zip(step.moves, reports, strict=True):
                after = placement_to_json(move.after)
                to.execute(
                    "UPDATE moves SET after = ?, pause_s = COALESCE(pause_s, 0) + ?, pauses = pauses + 1, failure = '',"
                    " modelled_s = COALESCE(modelled_s, 0) + ? WHERE n = ? AND topology = ?",
                    (after, report.pause_s, modelled_pause_s(step), n, move.topology),
                )

    def record_failure(self, n: int, step: Step, why: str) -> None:
        """Record failed moves."""
        with self._state.change() as to:
            for move in step.moves:
                to.execute("UPDATE moves SET failure = ? WHERE n = ? AND topology = ?", (why, n, move.topology))

    def record_evaluation(self, evaluated: EvaluatedMove) -> None:
        """Record the outcome of a move."""
        document = orjson.dumps(asdict(evaluated.evaluation)).decode()
        with self._state.change() as to:
            to.execute(
                "INSERT OR REPLACE INTO evaluations SELECT n, ?, ?, ? FROM decision_times WHERE decision_ms = ?",
                (evaluated.topology, evaluated.evaluation.quantity, document, evaluated.decision_ms),
            )

    def evaluations_of(self, n: int) -> dict[str, list[Evaluation]]:
        """Return the outcome by topology id of the moves in an entry, as far as it is known."""
        found: dict[str, list[Evaluation]] = {}
        for row in self._state.read("SELECT * FROM evaluations WHERE n = ? ORDER BY topology, quantity", n):
            found.setdefault(row["topology"], []).append(Evaluation(**orjson.loads(row["document"])))
        return found

    def before(self, n: int) -> Before:
        """Return placements before an entry, of all topologies moved in it or since.

        Raises
        ------
        NotFoundError
            There is no such entry.
        ConflictError
            Nothing was moved in it or since.
        """
        if not self._state.read("SELECT n FROM decisions WHERE n = ?", n):
            raise NotFoundError(f"the history has no entry {n}")
        rows = self._state.read("SELECT topology, before, executors, conf FROM moves WHERE n >= ? ORDER BY n", n)
        if not rows:
            raise ConflictError(f"nothing was moved in entry {n} of the history or since")
        return Before.of(rows)

    def before_entry(self, n: int) -> Before:
        """Return placements before an entry, of the topologies moved in it."""
        return Before.of(self._state.read("SELECT topology, before, executors, conf FROM moves WHERE n = ?", n))

    def delete_before(self, before_ms: float) -> None:
        """Delete entries from before a time that belong to no stored plan."""
        old = (
            "SELECT n FROM decisions WHERE at_ms < ? AND n NOT IN (SELECT decision FROM plans WHERE decision NOT NULL)"
        )
        with self._state.change() as to:
            for table in ENTRY_TABLES:
                to.execute(f"DELETE FROM {table} WHERE n IN ({old})", (before_ms,))  # noqa: S608 (tables are ours)

    def pause_of(self, n: int, topology: str) -> float:
        """Return for how many seconds a topology (id) was paused by an entry."""
        rows = self._state.read("SELECT pause_s FROM moves WHERE n = ? AND topology = ?", n, topology)
        return float(rows[0]["pause_s"] or 0.0) if rows else 0.0

    def pauses(self, name: str | None = None) -> list[float]:
        """Return pauses of past moves in seconds, newest first; of one topology by name, or all."""
        where, values = ("AND name = ?", (name,)) if name is not None else ("", ())
        statement = f"SELECT pause_s / pauses FROM moves WHERE pauses > 0 {where} ORDER BY n DESC LIMIT {_PAUSES}"  # noqa: S608 (constants)
        return [float(seconds) for (seconds,) in self._state.read(statement, *values)]

    def pause_parts(self, name: str | None = None) -> list[float]:
        """Return `pauses` as parts of those that were modelled (`planning.expected_pauses.modelled_pause_s`)."""
        where, values = ("AND name = ?", (name,)) if name is not None else ("", ())
        statement = (
            f"SELECT pause_s / modelled_s FROM moves WHERE modelled_s > 0 {where} ORDER BY n DESC LIMIT {_PAUSES}"  # noqa: S608 (constants)
        )
        return [float(part) for (part,) in self._state.read(statement, *values)]

    def entries(self, most: int, before_n: int | None = None) -> shapes.History:
        """Return entries, newest first."""
        last = 2**62 if before_n is None else before_n
        rows = self._state.read("SELECT * FROM decisions WHERE n < ? ORDER BY n DESC LIMIT ?", last, most + 1)
        done = [
            shapes.HistoryEntry(
                n=row["n"],
                at_ms=row["at_ms"],
                kind=row["kind"],
                who=row["who"],
                reason=row["reason"],
                text=row["text"],
                plan=row["plan"],
                moves=tuple(self._moves(row["n"])),
            )
            for row in rows[:most]
        ]
        return shapes.History(entries=tuple(done), more=len(rows) > most)

    def _moves(self, n: int) -> list[shapes.MoveEntry]:
        came = self.evaluations_of(n)
        return [
            shapes.MoveEntry(
                topology=row["topology"],
                name=row["name"],
                pause_s=row["pause_s"],
                promised=orjson.loads(row["promised"]),
                evaluations=evaluation_shapes(row["topology"], came.get(row["topology"], [])),
                failure=row["failure"],
            )
            for row in self._state.read("SELECT * FROM moves WHERE n = ? ORDER BY name", n)
        ]


def evaluation_shapes(topology: str, evaluations: Sequence[Evaluation]) -> tuple[StageEvaluation, ...]:
    """Return the outcome for a topology as shapes of the API."""
    return tuple(StageEvaluation(topology=topology, **asdict(each)) for each in evaluations)
