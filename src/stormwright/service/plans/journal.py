"""What was done, by whom and why, where topologies were before, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import orjson

from stormwright.client import shapes
from stormwright.controller.planning.plan import Step
from stormwright.controller.plans.document import placement_of
from stormwright.controller.reports import MoveReport
from stormwright.errors import ConflictError, NotFoundError
from stormwright.formats import placement_to_dict
from stormwright.history.evaluation.moves import EvaluatedMove
from stormwright.history.evaluation.verdict import Judgement, Promise
from stormwright.model import TopologyAssignment
from stormwright.service.storage.database import State

#: Figures of a promise that people are told.
_TOLD = ("sustained", "latency", "full_latency", "inter_node")

#: Moves of the past that tell how long a pause lasts.
_PAUSES = 20


class Journal:
    """Keeps decisions, each with its moves, before anything moves; and what came of them.

    Parameters
    ----------
    state
        Where.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def begin(self, kind: str, who: str, reason: str, text: str = "", plan: str = "") -> int:
        """Note a decision; its number.

        Parameters
        ----------
        kind
            As `shapes.HistoryEntry` has it.
        who, reason
            Who decided, and why.
        text
            What it says, where no moves tell it.
        plan
            Id of the plan that is applied.
        """
        row = (round(self._state.clock.time() * 1000), kind, who, reason, text, plan)
        with self._state.change() as to:
            told = to.execute("INSERT INTO decisions (at_ms, kind, who, reason, text, plan) VALUES (?,?,?,?,?,?)", row)
            return int(told.lastrowid or 0)

    def joins(self, n: int, decision_ms: int) -> None:
        """What the history's tables have under a moment belongs to a decision."""
        with self._state.change() as to:
            to.execute("INSERT OR REPLACE INTO acts VALUES (?, ?)", (decision_ms, n))

    def expect(self, n: int, step: Step, promises: Mapping[str, Promise]) -> None:
        """Note where topologies are that are about to move; of one that has moved before, where it was first counts."""
        with self._state.change() as to:
            for move in step.moves:
                told = asdict(promises[move.topology.id]) if move.topology.id in promises else {}
                promised = orjson.dumps({name: told.get(name) for name in _TOLD}).decode()
                before = orjson.dumps(placement_to_dict(move.before)).decode()
                row = (n, move.topology.id, move.topology.name, before, promised)
                to.execute("INSERT OR IGNORE INTO moves VALUES (?, ?, ?, ?, NULL, ?, NULL, 0, '')", row)

    def made(self, n: int, step: Step, reports: Sequence[MoveReport]) -> None:
        """Note moves that were made."""
        with self._state.change() as to:
            for move, report in zip(step.moves, reports, strict=True):
                after = orjson.dumps(placement_to_dict(move.after)).decode()
                to.execute(
                    "UPDATE moves SET after = ?, pause_s = COALESCE(pause_s, 0) + ?, pauses = pauses + 1, failure = '' "
                    "WHERE n = ? AND topology = ?",
                    (after, report.drain_s + report.swap_s, n, move.topology.id),
                )

    def failed(self, n: int, step: Step, why: str) -> None:
        """Note moves that could not be made."""
        with self._state.change() as to:
            for move in step.moves:
                to.execute("UPDATE moves SET failure = ? WHERE n = ? AND topology = ?", (why, n, move.topology.id))

    def judged(self, judged: EvaluatedMove) -> None:
        """Note what came of a move."""
        document = orjson.dumps(asdict(judged.judgement)).decode()
        with self._state.change() as to:
            to.execute(
                "INSERT OR REPLACE INTO judgements SELECT n, ?, ?, ? FROM acts WHERE decision_ms = ?",
                (judged.topology, judged.judgement.quantity, document, judged.decision_ms),
            )

    def came_of(self, n: int) -> dict[str, list[Judgement]]:
        """Topology → what came of its move in a decision, as far as that is known."""
        found: dict[str, list[Judgement]] = {}
        for row in self._state.read("SELECT * FROM judgements WHERE n = ? ORDER BY topology, quantity", n):
            found.setdefault(row["topology"], []).append(Judgement(**orjson.loads(row["document"])))
        return found

    def before(self, n: int) -> dict[str, TopologyAssignment]:
        """Topology (id) → where it was before a decision, of all that it or a later one has moved.

        Raises
        ------
        NotFoundError
            There is no such decision.
        ConflictError
            Neither it nor a later one has moved anything.
        """
        if not self._state.read("SELECT n FROM decisions WHERE n = ?", n):
            raise NotFoundError(f"the history has no entry {n}")
        rows = self._state.read("SELECT topology, before FROM moves WHERE n >= ? ORDER BY n", n)
        if not rows:
            raise ConflictError(f"nothing was moved in entry {n} of the history or since")
        found: dict[str, TopologyAssignment] = {}
        for row in rows:
            found.setdefault(row["topology"], placement_of(orjson.loads(row["before"])))
        return found

    def moved_in(self, n: int) -> dict[str, TopologyAssignment]:
        """Topology (id) → where it was before a decision, of those that it has moved."""
        rows = self._state.read("SELECT topology, before FROM moves WHERE n = ?", n)
        return {row["topology"]: placement_of(orjson.loads(row["before"])) for row in rows}

    def forget(self, before_ms: float) -> None:
        """Delete decisions from before a moment that no plan is about, with all that belongs to them."""
        old = (
            "SELECT n FROM decisions WHERE at_ms < ? AND n NOT IN (SELECT decision FROM plans WHERE decision NOT NULL)"
        )
        with self._state.change() as to:
            for table in ("judgements", "moves", "acts", "decisions"):
                to.execute(f"DELETE FROM {table} WHERE n IN ({old})", (before_ms,))  # noqa: S608 (tables are ours)

    def pauses(self, name: str | None = None) -> list[float]:
        """How long spouts were silent in moves that were made, the newest first; of one topology by name, or all."""
        where, values = ("AND name = ?", (name,)) if name is not None else ("", ())
        statement = f"SELECT pause_s / pauses FROM moves WHERE pauses > 0 {where} ORDER BY n DESC LIMIT {_PAUSES}"  # noqa: S608 (constants)
        return [float(seconds) for (seconds,) in self._state.read(statement, *values)]

    def entries(self, most: int, before_n: int | None = None) -> shapes.History:
        """What was done, the newest first."""
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
        return shapes.History(done=tuple(done), more=len(rows) > most)

    def _moves(self, n: int) -> list[shapes.MoveEntry]:
        came = self.came_of(n)
        return [
            shapes.MoveEntry(
                topology=row["topology"],
                name=row["name"],
                pause_s=row["pause_s"],
                promised=orjson.loads(row["promised"]),
                judged=judged_shapes(row["topology"], came.get(row["topology"], [])),
                failure=row["failure"],
            )
            for row in self._state.read("SELECT * FROM moves WHERE n = ? ORDER BY name", n)
        ]


def judged_shapes(topology: str, judgements: Sequence[Judgement]) -> tuple[shapes.StageEvaluation, ...]:
    """What came of a topology, for people."""
    return tuple(shapes.StageEvaluation(topology=topology, **asdict(each)) for each in judgements)
