"""Execution of the remaining cells, one after the other; each result is stored at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Protocol

from stormwright.errors import ClusterError, StormwrightError
from stormwright_lab.evaluations.cell_store import CellOutcome, CellStore
from stormwright_lab.evaluations.cells import Cell, minutes
from stormwright_lab.evaluations.definitions import BlockKind, Paper
from stormwright_lab.evaluations.placing import CellPlacement, placement_of, same_as, scheduler_input
from stormwright_lab.evaluations.verdict import Measurements

log = logging.getLogger(__name__)

#: Detail of a cell with the same placement as another one: the variant whose figures it has.
SAME = "same placement as"

#: Tries of a cell: workers that start late on a busy machine are no finding.
_TRIES = 2


class EvaluationLab(Protocol):
    """A cluster on which cells are measured; up inside the `with` block."""

    def __enter__(self) -> EvaluationLab: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def measure(self, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellOutcome:
        """Return the result of a cell.

        Parameters
        ----------
        cell
            Start to measure: its block, variant, repeat and measuring times.
        placement
            Placement of all executors; None if the first variant of its block, or the cell itself, determines it.
        rate_tps
            Trees/s that its spouts begin; 0 for the maximum, and for the first start of the first variant, which
            measures it.
        """
        ...


#: Makes the cluster for cells of a kind.
MakeLab = Callable[[BlockKind], EvaluationLab]


def run_cells(cells: Sequence[Cell], store: CellStore, make_lab: MakeLab) -> int:
    """Run the remaining cells and return the number of failures.

    A failed cell is tried again on a separate cluster, then skipped, together with cells that depend on its result. The
    next run tries it again.

    Parameters
    ----------
    cells
        Cells in order of execution.
    store
        Store of results; updated.
    make_lab
        Starts a cluster; one runs at a time.

    Raises
    ------
    ClusterError
        No cluster can be started.
    InputError
        The result cannot be stored.
    """
    left = [cell for cell in cells if cell.key not in store.found]
    failed, began_s = 0, time.monotonic()
    with _Labs(make_lab) as labs:
        for number, cell in enumerate(left):
            # Estimates are of a real cluster; in virtual time the done ones show how much less the rest takes.
            pace = (time.monotonic() - began_s) / 60 / minutes(left[:number]) if number else 1.0
            left_min = pace * minutes(left[number:])
            log.info("%s (%d of %d, %.0f min left)", cell.name, number + 1, len(left), left_min)
            found = _tried(cell, store, labs)
            store.add(cell, found)
            if isinstance(found, str):
                failed += 1
                log.warning("%s: %s", cell.name, found)
    return failed


def _tried(cell: Cell, store: CellStore, labs: _Labs) -> CellOutcome | str:
    if cell.is_first:
        # All starts have the rate of the first one, so that latencies can be compared.
        earliest = replace(cell, repeat=0)
        if cell.repeat and earliest.key not in store.found:
            return f"{earliest.name} failed, and this cell requires its result"
        return _measured(cell, None, store.found[earliest.key].rate_tps if cell.repeat else 0.0, labs)
    baseline = store.found.get(cell.first().key)
    if baseline is None:
        return f"{cell.first().name} failed, and this cell requires its result"
    if cell.block.kind != "steady":
        return _measured(cell, None, baseline.rate_tps, labs)
    problem = scheduler_input(cell, store)
    try:
        placement = placement_of(cell, problem)
    except (StormwrightError, ImportError) as error:
        return str(error)
    alike = {other.variant: store.found[other.key] for other in _beside(cell) if other.key in store.found}
    if same := same_as(problem, placement, alike):
        return replace(alike[same], problem=None, details={**alike[same].details, SAME: same})
    return _measured(cell, placement, baseline.rate_tps, labs)


def _measured(cell: Cell, placement: CellPlacement | None, rate_tps: float, labs: _Labs) -> CellOutcome | str:
    why = ""
    for _ in range(_TRIES):
        lab = labs.of(cell.block.kind)
        try:
            return lab.measure(cell, placement, rate_tps)
        except StormwrightError as failure:
            why = str(failure)
            labs.close()
    return why


def _beside(cell: Cell) -> Iterator[Cell]:
    return (replace(cell, variant=variant) for variant in cell.block.variants)


class _Labs:
    """The running cluster, if any; clusters in which nodes die serve one cell."""

    def __init__(self, make: MakeLab) -> None:
        self._make = make
        self._up: tuple[BlockKind, EvaluationLab] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> _Labs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def of(self, kind: BlockKind) -> EvaluationLab:
        if self._up is not None and (self._up[0] != kind or kind == "kills"):
            self.close()
        if self._up is None:
            self._up = kind, self._begin(kind)
        return self._up[1]

    def _begin(self, kind: BlockKind) -> EvaluationLab:
        """Start a cluster, with one retry for a busy machine."""
        try:
            return self._stack.enter_context(self._make(kind))
        except ClusterError as failure:
            log.warning("the cluster did not start, retrying: %s", str(failure).splitlines()[0])
        return self._stack.enter_context(self._make(kind))

    def close(self) -> None:
        self._up = None
        self._stack.close()


def measurements(paper: Paper, cells: Iterable[Cell], store: CellStore) -> Measurements:
    """Return the results of a paper's cells, by block and variant, a start for each repeat."""
    found: dict[tuple[str, str], dict[str, list[Sequence[float]]]] = {}
    for cell in cells:
        if cell.paper == paper.name and cell.key in store.found:
            figures = found.setdefault((cell.block.name, cell.variant), {})
            for name, samples in store.found[cell.key].figures.items():
                figures.setdefault(name, []).append(samples)
    return found
