"""Replay of recorded decisions with another scheduler, on Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from stormwright.controller.objectives.gains import inter_node_tps
from stormwright.controller.objectives.placements import without_assumed_traffic
from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.history.decisions import answers, decision_times, problem_of
from stormwright.history.tables.store import Store
from stormwright.model import UNPLACED, Scheduler, cost_of, diff
from stormwright.model.humanize import in_utc
from stormwright.pipeline.streaming.backfill import TimeStretch
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, unless_moving
from stormwright.schedulers.toolkit.resolve import resolve_scheduler

#: Decisions per job; progress is reported in between.
DECISIONS_PER_JOB = 64


@dataclass(frozen=True)
class ReplayedDecision:
    """A recorded decision and the replayed scheduler's answer; costs by the cost model.

    Parameters
    ----------
    at_ms, scheduler
        Time of the decision, and the scheduler that decided.
    cost_before, inter_node_before_tps
        Costs of the placement at that time.
    cost_decided, inter_node_decided_tps, moved_decided
        Costs of the wanted placement; executors to move within the budget.
    cost, inter_node_tps, moved_executors, unplaced
        Figures of the replayed scheduler's placement, from the same start; None if it failed.
    seconds
        Time that the replayed scheduler took, in seconds; None if it failed.
    error
        Reason of a failure.
    """

    at_ms: int
    scheduler: str
    cost_before: float
    inter_node_before_tps: float
    cost_decided: float
    inter_node_decided_tps: float
    moved_decided: int
    cost: float | None
    inter_node_tps: float | None
    moved_executors: int | None
    unplaced: int | None
    seconds: float | None
    error: str | None


_ARROW_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}
_ARROW = pa.schema([(f.name, _ARROW_TYPES[str(f.type).partition(" ")[0]]) for f in fields(ReplayedDecision)])


def replay(
    store: Store,
    stretch: TimeStretch,
    name: str,
    settings: Sequence[str] = (),
    seed: int | None = None,
    from_scratch: bool | None = None,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> list[ReplayedDecision]:
    """Run a scheduler at each recorded decision, oldest first, each time from the placement of that time.

    Parameters
    ----------
    store
        The tables of the history.
    stretch
        Period of the decisions.
    name, settings, seed
        Name, parameters and seed of the scheduler, as for `resolve_scheduler`.
    from_scratch
        Whether it ignores the placement of that time; None: yes, unless it moves running executors on its own.
    progress
        Called with the number of completed decisions and their total.

    Raises
    ------
    InputError
        The scheduler is unknown, its settings are wrong or incompatible with `from_scratch`, or the range of time holds
        no decision.
    """
    _scheduler(name, settings, seed, from_scratch)
    moments = decision_times(store, stretch)
    if not moments:
        raise InputError("replay", [Fault("no decision is recorded in it", _range_of(stretch))])
    found: list[ReplayedDecision] = []
    for begin in range(0, len(moments), DECISIONS_PER_JOB):
        progress(begin, len(moments))
        some = moments[begin : begin + DECISIONS_PER_JOB]
        rows = answers(
            store, TimeStretch(some[0], some[-1] + 1), _asking(name, tuple(settings), seed, from_scratch), _ARROW
        )
        found += sorted((ReplayedDecision(**row) for row in rows), key=lambda decision: decision.at_ms)
    progress(len(moments), len(moments))
    return found


def _scheduler(name: str, settings: Sequence[str], seed: int | None, from_scratch: bool | None) -> Scheduler:
    return apply_from_scratch(name, resolve_scheduler(name, settings, seed), from_scratch, unless_moving)


def _asking(
    name: str, settings: tuple[str, ...], seed: int | None, from_scratch: bool | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark calls with the decisions of one task."""

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scheduler = _scheduler(name, settings, seed, from_scratch)
        for batch in batches:
            yield pa.RecordBatch.from_pylist(
                [_replayed_row(scheduler, decision) for decision in batch.to_pylist()], _ARROW
            )

    return ask


def _replayed_row(scheduler: Scheduler, decision: dict[str, Any]) -> dict[str, Any]:
    row = {
        "at_ms": decision["at_ms"],
        "scheduler": decision["scheduler"],
        "cost_before": decision["cost_before"],
        "inter_node_before_tps": decision["inter_node_before_tps"],
        "cost_decided": decision["cost_wanted"],
        "inter_node_decided_tps": decision["inter_node_wanted_tps"],
        "moved_decided": _executors(json.loads(decision["moves"])),
    }
    try:
        return row | _answer(scheduler, decision)
    except StormwrightError as error:
        return row | {"error": str(error)}
    except Exception as error:  # of a scheduler that may be anybody's: the other decisions go on
        return row | {"error": f"{type(error).__name__}: {error}"}


def _executors(moves: Mapping[str, list[int] | int]) -> int:
    """Return the number of moved executors over all moves; older rows hold only that of the last move."""
    return sum(sum(each) if isinstance(each, list) else each for each in moves.values())


def _answer(scheduler: Scheduler, decision: dict[str, Any]) -> dict[str, Any]:
    if decision["document"] is None or decision["profile"] is None:
        raise InputError(
            "history", [Fault("snapshot or profile of this decision is missing", in_utc(decision["at_ms"]))]
        )
    profile = {"document": decision["profile"], "start_ms": decision["start_ms"], "end_ms": decision["end_ms"]}
    problem = without_assumed_traffic(problem_of(decision["document"], profile, in_utc(decision["at_ms"])))
    begin = time.perf_counter()
    slots = scheduler.schedule(problem).slot_of_executor
    seconds = time.perf_counter() - begin
    cost = cost_of(problem, slots)
    return {
        "cost": cost.total,
        "inter_node_tps": inter_node_tps(cost),
        "moved_executors": len(diff(problem, problem.current_slot, slots).moved_executors),
        "unplaced": int(np.count_nonzero(slots == UNPLACED)),
        "seconds": seconds,
    }


def _range_of(stretch: TimeStretch) -> str:
    begin, end = ("" if ms is None else in_utc(ms) for ms in (stretch.start_ms, stretch.end_ms))
    return f"{begin}..{end}"
