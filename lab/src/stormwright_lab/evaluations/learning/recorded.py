"""Training examples from recorded data: the cells of a sweep, and the scheduling rounds of a service's history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.model import UNPLACED, LoadProfile, Problem, cost_of
from stormwright.model.arrays import IntArray
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, never
from stormwright.schedulers.toolkit.resolve import resolve_scheduler
from stormwright_lab.evaluations.learning.examples import Group, group_of, predicted_examples

if TYPE_CHECKING:
    from stormwright.history.tables.store import Store
    from stormwright.workbench.sweep.cells import SweepProblem

#: Scheduling rounds of a history that are learned from: as far apart as possible.
MAX_ROUNDS: Final = 50

#: Tolerance between the cost of a repeated cell and that in the table.
_SAME_COST: Final = 1e-6


class SweepExamples:
    """Examples from the placements of a sweep's valid cells, with their predicted quality.

    A table has the cost of a placement, but not its slots; so each cell is decided again, and one with another cost is
    left out.

    Parameters
    ----------
    spec
        File of the sweep.
    table
        Directory of the table of its cells.

    Attributes
    ----------
    skipped
        Number of cells with another result, or a failure.

    Raises
    ------
    InputError
        The file is invalid, or the table has none of its cells.
    """

    def __init__(self, spec: Path, table: Path) -> None:
        from stormwright.workbench.sweep.cells import read_cells
        from stormwright.workbench.sweep.table import LocalTable

        if not table.is_dir():
            fault = Fault("is no directory: it is the table that `stormwright sweep` writes", str(table))
            raise InputError("learn", [fault])
        self._problems: Mapping[str, SweepProblem] = read_cells(spec).problems
        self._cells: dict[str, list[dict[str, Any]]] = {}
        for row in LocalTable(table).read().to_pylist():
            if row["valid"] and row["problem_digest"] in self._problems:
                self._cells.setdefault(row["problem_digest"], []).append(row)
        if not self._cells:
            raise InputError("learn", [Fault("has no valid cell of this sweep: run it first", str(table))])
        self.skipped = 0

    def groups(self) -> Iterator[Group]:
        """Yield a group per problem with two distinct placements."""
        for digest, cells in self._cells.items():
            packed = self._problems[digest]
            problem = packed.unpacked()
            placements: dict[bytes, IntArray] = {}
            for cell in sorted(cells, key=lambda cell: cell["key"]):
                slots = _decided(problem, cell)
                if slots is None:
                    self.skipped += 1
                else:
                    placements[slots.tobytes()] = slots
            if len(placements) > 1:
                yield group_of(as_measured(problem), packed.name, packed.name, list(placements.values()))


def history_examples(store: Store, seed: int) -> Iterator[Group]:
    """Yield examples from scheduling rounds of a service: answers of cheap rules with their predicted quality.

    Parameters
    ----------
    store
        Tables of the service's history.
    seed
        Seed of the random steps.

    Raises
    ------
    InputError
        The history has no scheduling round yet.
    """
    from stormwright.history.decisions import decision_times, known_at
    from stormwright.pipeline.streaming.backfill import TimeStretch

    moments = decision_times(store, TimeStretch(None, None))
    if not moments:
        raise InputError("learn", [Fault("no decision is recorded", "history")])
    chosen = {moments[at] for at in np.linspace(0, len(moments) - 1, MAX_ROUNDS).round().astype(int).tolist()}
    for moment in sorted(chosen):
        problem = known_at(store, moment)
        if any(load is not None for load in problem.demand.measured):
            found = predicted_examples(problem, np.random.default_rng([seed, moment]), kind=_topologies(problem))
            if found is not None:
                yield found


def as_measured(problem: Problem) -> Problem:
    """Return the problem with its load counted as measured, if it has one without a time."""
    loads = zip(problem.topologies, problem.loads, strict=True)
    load = problem.load or LoadProfile({topology.id: each for topology, each in loads})
    known = load.end_ms > load.start_ms
    return problem if known else problem.with_load(replace(load, overload_s={}, start_ms=0, end_ms=1, costs={}))


def _topologies(problem: Problem) -> str:
    return ", ".join(sorted(topology.name for topology in problem.topologies))


def _decided(problem: Problem, cell: Mapping[str, Any]) -> IntArray | None:
    """Return the placement of a cell; None if it cannot be reproduced."""
    parameters = orjson.loads(cell["parameters"])
    from_scratch = parameters.pop("from_scratch", False)
    try:
        scheduler = resolve_scheduler(cell["scheduler"], parameters, cell["seed"])
        slots = apply_from_scratch(cell["scheduler"], scheduler, from_scratch, never).schedule(problem).slot_of_executor
    except StormwrightError:
        return None
    cost = cost_of(problem, slots).total
    same = abs(cost - cell["cost"]) <= _SAME_COST * max(abs(cell["cost"]), 1.0)
    return slots if same and np.all(slots != UNPLACED) else None
