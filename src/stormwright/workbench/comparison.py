"""Comparison of schedulers on one problem: reachable rates, cost, resources, moves and time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from html import escape
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from stormwright.base.tables import Tabular, TextTable
from stormwright.errors import StormwrightError
from stormwright.model import UNPLACED, Assignment, Cost, Problem, Scheduler, cost_of, diff
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import Violation, node_sum
from stormwright.model.constraints.slots import WorkerCount
from stormwright.model.constraints.violations import broken_limits, other_worker_counts
from stormwright.model.humanize import counted, readable
from stormwright.model.problem import assumed_text
from stormwright.predict.throughput import SAME, SLOW, SLOW_MEANS, Throughput, ThroughputPredictor
from stormwright.schedulers.toolkit.from_scratch import always, apply_from_scratch
from stormwright.schedulers.toolkit.plugin_guard import checked
from stormwright.schedulers.toolkit.traits import warm_up

log = logging.getLogger(__name__)


# Table --------------------------------------------------------------------------------------------
# A comparison as a table of texts: for a terminal, a prompt and a notebook alike.

#: Columns by heading after the reachable rate; traffic in tuples/s. Columns without any number are left out, except
#: `cost`.
_COLUMNS: dict[str, Callable[[PlacementFigures], float | int | None]] = {
    "cost": lambda figures: figures.total,
    "in worker": lambda figures: figures.cost.same_executor + figures.cost.same_worker,
    "in node": lambda figures: figures.cost.inter_worker,
    "in rack": lambda figures: figures.cost.inter_node,
    "between racks": lambda figures: figures.cost.inter_rack,
    "to unplaced": lambda figures: figures.cost.unplaced,
    "unplaced": lambda figures: figures.unplaced,
    "nodes": lambda figures: figures.nodes,
    "workers": lambda figures: figures.workers,
    "CPU max/mean": lambda figures: figures.balance,
    "moved": lambda figures: figures.moved_executors,
    "restarted": lambda figures: figures.restarted_workers,
}


def comparison_table(comparison: Comparison) -> TextTable:
    """Return the table of the current placement, then every scheduler, best first."""
    found = [row.figures for row in comparison.rows if row.figures]
    found += [comparison.current] if comparison.current else []
    columns = {name: value for name, value in _COLUMNS.items() if name == "cost" or any(map(value, found))}
    rate = [comparison.rate_heading] if any(figures.throughput for figures in found) else []
    rows = []
    if comparison.current:
        rows.append(["(current placement)", *_cells(comparison.current, bool(rate), columns), ""])
    none = [*("–" for _ in (*rate, *columns)), "failed"]
    for row in comparison.rows:
        cells = _cells(row.figures, bool(rate), columns) if row.figures else none
        rows.append([row.label, *cells, f"{row.seconds:.3f}"])
    return TextTable(["", *rate, *columns, "limits", "s"], rows)


def _cells(
    figures: PlacementFigures,
    with_rate: bool,
    columns: Mapping[str, Callable[[PlacementFigures], float | int | None]],
) -> list[str]:
    cost, *others = (_number(value(figures)) for value in columns.values())
    rate = [figures.rate_text] if with_rate else []
    return [*rate, figures.mark + cost, *others, figures.limits_text]


def _number(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else readable(value)


# Comparison ---------------------------------------------------------------------------------------

#: Mark before a cost that is not comparable, and its explanation.
MARK = "*"
MARK_MEANS = "not comparable: the placement breaks limits or leaves executors out"


@dataclass(frozen=True)
class PlacementFigures:
    """Figures of a placement.

    Parameters
    ----------
    broken
        Violations by placed executors, without worker counts.
    worker_counts
        Completely placed topologies with another number of workers than requested.
    balance
        CPU of the busiest node relative to the mean of used nodes; None without CPU use.
    moved_executors
        Executors whose slot changed or was lost.
    restarted_workers
        Running workers that end or restart because their executors or slot change.
    throughput
        Predicted reachable rates; None if no topology has a rate, or they were not predicted.
    """

    cost: Cost
    broken: tuple[Violation, ...]
    worker_counts: tuple[WorkerCount, ...]
    unplaced: int
    nodes: int
    workers: int
    balance: float | None
    moved_executors: int
    restarted_workers: int
    throughput: Throughput | None = None

    @property
    def is_slow(self) -> bool:
        """Whether some rates are not sustained."""
        return self.throughput is not None and bool(self.throughput.not_sustained)

    @property
    def rate_text(self) -> str:
        """Return the reachable rate for a table, marked if it is too low."""
        return "–" if self.throughput is None else (SLOW if self.is_slow else "") + self.throughput.brief

    @property
    def total(self) -> float | None:
        """Cost; None if nothing was placed."""
        return None if self.unplaced and not self.workers else self.cost.total

    @property
    def mark(self) -> str:
        """Mark before the cost in a table: `MARK`, or nothing."""
        return MARK if self.total is not None and (self.broken or self.unplaced) else ""

    @property
    def limits_text(self) -> str:
        """Return the state of the limits, such as ``2 broken``."""
        text = f"{len(self.broken)} broken" if self.broken else "kept"
        if len(self.worker_counts) == 1:
            (workers,) = self.worker_counts
            text += f", {counted(workers.workers, 'worker')} for {workers.wanted}"
        elif self.worker_counts:
            text += f", other worker counts of {counted(len(self.worker_counts), 'topology')}"
        return text

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the details behind `limits_text`, a line each."""
        return (*map(str, self.broken), *map(str, self.worker_counts))

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "cost": asdict(self.cost),
            "reachable": self.throughput.as_dict() if self.throughput else None,
            "valid": not self.broken and not self.unplaced and not self.worker_counts,
            "limits_broken": list(map(str, self.broken)),
            "violations": [violation.as_dict() for violation in (*self.broken, *self.worker_counts)],
            "other_worker_counts": [
                {"topology": count.topology, "workers": count.workers, "wanted": count.wanted}
                for count in self.worker_counts
            ],
            "unplaced": self.unplaced,
            "nodes_used": self.nodes,
            "workers": self.workers,
            "cpu_max_over_mean": self.balance,
            "moved_executors": self.moved_executors,
            "restarted_workers": self.restarted_workers,
        }


@dataclass(frozen=True)
class ComparedRow:
    """One scheduler's answer, or the error with which it failed."""

    name: str
    seconds: float = 0.0
    figures: PlacementFigures | None = None
    assignment: Assignment | None = None
    error: str = ""

    @property
    def label(self) -> str:
        """Display name: Java classes without their packages."""
        prefix, *classes = self.name.split(":")
        return ":".join([prefix, *(name.rpartition(".")[2] for name in classes)])

    @property
    def complete(self) -> bool:
        """Whether every executor has a slot."""
        return self.figures is not None and not self.figures.unplaced

    @property
    def reasons(self) -> list[tuple[str, int, tuple[str, ...]]]:
        """Return the reasons as `Assignment.grouped_reasons`; empty without an answer."""
        return self.assignment.grouped_reasons() if self.assignment else []

    def as_row(self) -> dict[str, Any]:
        """Return the row for a table, the same columns for all."""
        of, cost = self.figures, self.figures.cost if self.figures else None
        return {
            "scheduler": self.name,
            "rate_factor": of.throughput.factor if of and of.throughput else None,
            "sustained": of.throughput.is_sustained if of and of.throughput else None,
            "cost": of.total if of else None,
            **{each.name: getattr(cost, each.name) if cost else None for each in fields(Cost) if each.name != "total"},
            "unplaced_executors": of.unplaced if of else None,
            "nodes": of.nodes if of else None,
            "workers": of.workers if of else None,
            "cpu_max_over_mean": of.balance if of else None,
            "moved_executors": of.moved_executors if of else None,
            "restarted_workers": of.restarted_workers if of else None,
            "limits_broken": len(of.broken) if of else None,
            "other_worker_counts": len(of.worker_counts) if of else None,
            "seconds": self.seconds,
            "error": self.error or None,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "scheduler": self.name,
            "parameters": dict(self.assignment.parameters) if self.assignment else {},
            "seconds": self.seconds,
            "error": self.error or None,
            **(self.figures.as_dict() if self.figures else {}),
            "unplaced_reasons": [
                {"topology": topology, "executors": count, "reasons": list(reasons)}
                for topology, count, reasons in self.reasons
            ],
        }


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """All answers on one problem; a sequence of its rows.

    Parameters
    ----------
    current
        Figures of the current placement, if there is one.
    rows
        Complete placements within the limits, then complete ones that break limits, then incomplete ones by how many
        executors they leave out (one without a slot causes no cost), then failures; of each by throughput
        (`stormwright.predict.throughput`), those within a thousandth of the first by cost, then by name.
    """

    problem: Problem
    current: PlacementFigures | None
    rows: tuple[ComparedRow, ...] = field(default=())

    def __iter__(self) -> Iterator[ComparedRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> ComparedRow:
        """Return the row of a scheduler."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows as a table; figures of failed schedulers are None."""
        return {"schedulers": [row.as_row() for row in self.rows]}

    @property
    def best(self) -> ComparedRow | None:
        """The first row, if it places every executor within the limits."""
        first = self.rows[0] if self.rows else None
        return first if first and first.figures and not first.figures.mark else None

    @property
    def rate_heading(self) -> str:
        """Heading of the reachable rates."""
        found = (row.figures.throughput for row in self.rows if row.figures and row.figures.throughput)
        return next((each.heading for each in found), "rates")

    @property
    def complete(self) -> bool:
        """Whether every scheduler gave every executor a slot."""
        return all(row.complete for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        problem = self.problem
        return {
            "problem": {
                "name": problem.name,
                "topologies": len(problem.topologies),
                "executors": problem.num_executors,
                "nodes": len(problem.supervisors),
                "slots": len(problem.slots),
                "assumed_loads": sum(load is None for load in problem.demand.measured),
            },
            "current": self.current.as_dict() if self.current else None,
            "schedulers": [row.as_dict() for row in self.rows],
        }

    @property
    def notes(self) -> list[str]:
        """Return notes that explain the table."""
        found = [*filter(None, [self.current, *(row.figures for row in self.rows)])]
        marked = any(figures.mark for figures in found)
        slow = next((figures.throughput for figures in found if figures.is_slow), None)
        too_low = f"{SLOW} {SLOW_MEANS.format(kind=slow.kind)}" if slow else ""
        return [*filter(None, [too_low, f"{MARK} {MARK_MEANS}" if marked else "", assumed_text(self.problem)])]

    @property
    def failures(self) -> list[str]:
        """Return the schedulers that failed, with their errors."""
        return [f"{row.label} failed: {row.error}" for row in self.rows if row.error]

    @property
    def verdict(self) -> str:
        """Return the scheduler of the highest reachable rates, as one sentence, beside the current placement."""
        best, now = self.best, self.current
        if best is None or best.figures is None:
            return "No scheduler places every executor within the limits."
        found = best.figures.throughput
        if found is None:
            cost = f"The lowest cost is {readable(best.figures.cost.total)}, by {best.label}"
            return f"{cost}, of the current placement {readable(now.cost.total)}." if now else f"{cost}."
        rates, verb = ("rate", "is") if found.is_single else ("rates", "are")
        today = f"; of the current placement {now.throughput.text}" if now and now.throughput else ""
        none = f"No placement sustains the {found.kind} {rates}. " if best.figures.is_slow else ""
        return f"{none}The highest {rates} {verb} {found.text}, by {best.label}{today}."

    def __repr__(self) -> str:
        """Return the verdict, the table and its notes, for interactive use."""
        return "\n".join([self.verdict, comparison_table(self).as_text(), *self.notes, *self.failures])

    def _repr_html_(self) -> str:
        """Return the table and its notes as HTML for a notebook."""
        below = [self.verdict, *self.notes, *self.failures]
        return "".join([comparison_table(self).as_html(), *(f"<p>{escape(line)}</p>" for line in below)])


def compare(
    problem: Problem,
    schedulers: Mapping[str, Scheduler | StormwrightError],
    from_scratch: bool | None = None,
) -> Comparison:
    """Run every scheduler on `problem`; one that fails becomes a row with its error.

    Parameters
    ----------
    from_scratch
        Whether each scheduler ignores the current placement; None: yes, except schedulers set to stay near it.

    Raises
    ------
    InputError
        `from_scratch` with a scheduler that is set to stay near the current placement.
    """
    schedulers = {
        name: each if isinstance(each, StormwrightError) else apply_from_scratch(name, each, from_scratch, always)
        for name, each in schedulers.items()
    }
    # Also derives the problem's arrays, so that the first scheduler is not charged for what all of them use.
    figures_of = partial(measure, rates=ThroughputPredictor(problem))
    runs = bool(np.any(problem.current_slot != UNPLACED))
    current = figures_of(problem, problem.current_slot) if runs else measure(problem, problem.current_slot)
    rows = []
    for number, (name, scheduler) in enumerate(schedulers.items(), start=1):
        log.info("%d of %d: %s …", number, len(schedulers), name)
        row = _run(problem, name, scheduler, figures_of)
        log.info("%d of %d: %s %s", number, len(schedulers), name, _outcome(row))
        rows.append(row)
    return Comparison(problem, current if runs else None, tuple(_ranked(rows)))


#: Returns the figures of a placement.
_FiguresOf: TypeAlias = Callable[[Problem, IntArray], PlacementFigures]


def _run(problem: Problem, name: str, scheduler: Scheduler | StormwrightError, figures_of: _FiguresOf) -> ComparedRow:
    if isinstance(scheduler, StormwrightError):
        return ComparedRow(name, error=str(scheduler))
    warm_up(scheduler)
    return evaluate(problem, name, scheduler, figures_of)


def evaluate(
    problem: Problem,
    name: str,
    scheduler: Scheduler,
    figures_of: _FiguresOf | None = None,
) -> ComparedRow:
    """Return the row of a warm scheduler on a problem; if it fails, the row has its error.

    Parameters
    ----------
    problem
        Problem that the scheduler gets, with placement and load.
    name, scheduler
        Name of the scheduler, and the scheduler.
    figures_of
        Returns the figures of a placement; by default `measure`.
    """
    begin = time.perf_counter()
    try:
        answer = scheduler.schedule(problem)
        took = time.perf_counter() - begin
        assignment = checked(problem, answer, name)
        # A Java scheduler reports its own time, without the transfer of the problem to its JVM.
        seconds = assignment.seconds or took
        figures = (figures_of or measure)(problem, assignment.slot_of_executor)
        return ComparedRow(name, seconds, figures, assignment)
    except StormwrightError as error:
        return ComparedRow(name, time.perf_counter() - begin, error=str(error))
    except Exception as error:  # of another package, or a bug: the others are still worth comparing
        return ComparedRow(name, time.perf_counter() - begin, error=f"{type(error).__name__}: {error}")


def _outcome(row: ComparedRow) -> str:
    if row.figures is None:
        return f"failed after {row.seconds:.3f} s: {row.error}"
    return f"took {row.seconds:.3f} s, {outcome_text(row.figures)}"


def outcome_text(figures: PlacementFigures) -> str:
    """Return the reachable rate and the cost, such as ``cost 8,034.1``, and why it may not be comparable."""
    found = figures.throughput
    rate = f"{found.heading} {found.brief}{' not sustained' if figures.is_slow else ''}, " if found else ""
    cost = "nothing placed" if figures.total is None else f"cost {figures.total:,.1f}"
    broken = f", {counted(len(figures.broken), 'limit')} broken" if figures.broken else ""
    left = f", {counted(figures.unplaced, 'executor')} unplaced" if figures.unplaced else ""
    return f"{rate}{cost}{broken}{left}"


def _ranked(rows: Sequence[ComparedRow]) -> Iterator[ComparedRow]:
    """Yield the rows, best first; see `Comparison`."""
    for _, group in groupby(sorted(rows, key=_kind_and_rate), _kind):
        left = list(group)
        while left:
            alike = [row for row in left if _throughput(row) >= _throughput(left[0]) - SAME]
            yield from sorted(alike, key=lambda row: (row.figures.cost.total if row.figures else 0.0, row.name))
            left = left[len(alike) :]


def _kind(row: ComparedRow) -> tuple[bool, int, bool]:
    return (False, row.figures.unplaced, bool(row.figures.broken)) if row.figures else (True, 0, False)


def _throughput(row: ComparedRow) -> float:
    return row.figures.throughput.value if row.figures and row.figures.throughput else 0.0


def _kind_and_rate(row: ComparedRow) -> tuple[tuple[bool, int, bool], float]:
    return _kind(row), -_throughput(row)


def measure(problem: Problem, slot_of_executor: IntArray, rates: ThroughputPredictor | None = None) -> PlacementFigures:
    """Return the figures of a placement; with `rates` its throughput, too."""
    used = np.unique(slot_of_executor[slot_of_executor != UNPLACED])
    nodes = np.unique(problem.slot_node[used])
    cpu_hz = node_sum(problem, slot_of_executor, problem.executor_cpu_hz)[nodes]
    changes = diff(problem, problem.current_slot, slot_of_executor)
    return PlacementFigures(
        cost=cost_of(problem, slot_of_executor),
        broken=tuple(broken_limits(problem, slot_of_executor)),
        worker_counts=tuple(other_worker_counts(problem, slot_of_executor)),
        unplaced=int(np.count_nonzero(slot_of_executor == UNPLACED)),
        nodes=len(nodes),
        workers=len(used),
        balance=float(cpu_hz.max() / cpu_hz.mean()) if cpu_hz.any() else None,
        moved_executors=len(changes.moved_executors),
        restarted_workers=len(changes.stopped_workers),
        throughput=rates.predicted(slot_of_executor) if rates else None,
    )
