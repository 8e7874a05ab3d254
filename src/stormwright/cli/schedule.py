"""``stormwright schedule``: place the executors of a problem file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from stormwright.cli import options
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import cut_short, numbers_table, prepare_output, print_json, print_table, text_table
from stormwright.cli.progress import working
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.errors import InputError
from stormwright.formats import assignment_to_dict, write_json
from stormwright.model import UNPLACED, Assignment, Cost, Problem, cost_of, diff
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import node_sum
from stormwright.model.constraints.violations import broken_limits, other_worker_counts
from stormwright.model.humanize import counted, listed, proof_text, reach_texts, readable
from stormwright.model.problem import assumed_text, size_of, sizes
from stormwright.predict.throughput import ThroughputPredictor
from stormwright.schedulers import scheduler_names
from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, never
from stormwright.schedulers.toolkit.resolve import ANY_JAVA, resolve_scheduler, takes_seed
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.workbench.ready_problems import read_problem

_SOME_UNPLACED = 1

#: Maximum number of lines of one kind, of workers, and of components of one, without ``--all``.
_MAX_LINES, _MAX_WORKERS, _MAX_COMPONENTS = 3, 3, 8

#: Resource → the keys of storm.yaml and of a topology that decide what there is of it, and what is requested.
_KEYS = {
    "CPU": "supervisor.cpu.capacity, topology.component.cpu.pcore.percent",
    "memory": "supervisor.memory.capacity.mb, topology.component.resources.onheap.memory.mb and offheap.memory.mb",
    "heap": "topology.worker.max.heap.size.mb, topology.component.resources.onheap.memory.mb",
    "worker slot": "supervisor.slots.ports, topology.workers",
}

#: Fields of `Cost` that are printed without ``--all``.
_CROSSES = ("inter_node", "inter_rack", "unplaced")

#: Fields of `Cost` in the order in which they are shown.
_TRAFFIC = {
    "same_executor": "tuples/s within an executor",
    "same_worker": "tuples/s within a worker",
    "inter_worker": "tuples/s between workers of a node",
    "inter_node": "tuples/s between nodes of a rack",
    "inter_rack": "tuples/s between racks",
    "unplaced": "tuples/s of unplaced executors",
    "total": "cost",
}


def figures_of(problem: Problem, assignment: Assignment) -> dict[str, Any]:
    """Return the figures of the current and the new placement, moves, violations, and assumptions.

    Names of violations and of deviating worker counts are those of `stormwright compare --json`. `reachable` are the
    predicted rates, null if no topology has a rate. `before` and `moved` are null without a running placement, and
    `fullest_cpu` (a fraction) if a node without any CPU has executors.
    """
    now, after = problem.current_slot, assignment.slot_of_executor
    runs, counts = bool(np.any(now != UNPLACED)), other_worker_counts(problem, after)
    rates = ThroughputPredictor(problem)
    return {
        "problem": problem.name,
        **sizes(problem),
        "assumed": assumed_text(problem) or None,
        "before": _side(problem, now, rates) if runs else None,
        "after": _side(problem, after, rates),
        "moved": _moved(problem, after) if runs else None,
        "violations": [each.as_dict() for each in (*broken_limits(problem, after), *counts)],
        "other_worker_counts": [
            {"topology": each.topology, "workers": each.workers, "wanted": each.wanted} for each in counts
        ],
    }


def _side(problem: Problem, slots: IntArray, rates: ThroughputPredictor) -> dict[str, Any]:
    throughput = rates.predicted(slots)
    used, fullest = used_slots(slots), fullest_cpu(problem, slots)
    return {
        "reachable": throughput.as_dict() if throughput else None,
        "cost": asdict(cost_of(problem, slots)),
        "executors_placed": int(np.count_nonzero(slots != UNPLACED)),
        "workers": len(used),
        "nodes_used": len(set(problem.slot_node[used].tolist())),
        "fullest_cpu": fullest if np.isfinite(fullest) else None,
    }


def _moved(problem: Problem, after: IntArray) -> dict[str, int]:
    changes = diff(problem, problem.current_slot, after)
    return {
        "executors": len(changes.moved_executors),
        "topologies": len(changes.topologies),
        "workers_kept": len(changes.unchanged_workers),
        "workers_stopped": len(changes.stopped_workers),
        "workers_started": len(changes.started_workers),
    }


def used_slots(slots: IntArray) -> list[int]:
    """Return the used slots, without `np.unique`, which imports masked arrays on first use."""
    return sorted(set(slots[slots != UNPLACED].tolist()))


def fullest_cpu(problem: Problem, slots: IntArray) -> float:
    """Return the highest fraction of its CPU that a node's executors use; infinite for a node without any."""
    used = node_sum(problem, slots, problem.executor_cpu_hz)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(used > 0, used / problem.node_cpu_hz, 0.0), initial=0.0))


_FIGURES: dict[str, Callable[[Problem, IntArray], str]] = {
    "workers": lambda _, slots: f"{len(used_slots(slots)):,}",
    "nodes used": lambda problem, slots: f"{len(set(problem.slot_node[used_slots(slots)].tolist())):,}",
    "CPU of executors, fullest node": lambda problem, slots: _percent(fullest_cpu(problem, slots)),
}


class _SchedulerOption(click.Option):
    """Option that lists the available schedulers in its help only, as finding those of other packages takes time."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """See click."""
        self.help = f"Who decides: {', '.join(scheduler_names())}, or {ANY_JAVA}, a Java IScheduler."
        return super().get_help_record(ctx)


@click.command()
@options.problem_file
@click.option(
    "--scheduler",
    "name",
    cls=_SchedulerOption,
    default=DEFAULT_SCHEDULER,
    show_default=True,
    shell_complete=options.scheduler_names,
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Scheduler parameter; for a Java class, a key of Storm's configuration.",
)
@options.from_scratch("keep")
@options.jars
@options.seed
@options.output("Write the assignment here, gzipped for *.gz.")
@options.everything
@options.as_json("Print the assignment as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path,
    name: str,
    settings: tuple[str, ...],
    from_scratch: bool | None,
    jars: tuple[Path, ...],
    seed: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """FILE is a problem (stormwright-problem/1, or a case that holds one; gzipped or not); -, standard input; or
    ready:NAME, a built-in problem: those of the TOP-Storm paper, top-storm-word-count-1 to -6 and
    top-storm-exclamation-1 to -6; or a generated cluster: cluster-20, -200, -1000, -5000 (nodes).

    Exits with 0 if all executors are placed, 1 if some are not, 2 if the input is bad.
    """
    if seed is not None and not takes_seed(name):
        raise InputError("schedule", options.idle({"seed": f"{name} uses no random numbers"}))
    scheduler = apply_from_scratch(name, resolve_scheduler(name, settings, seed, jars), from_scratch, never)
    with working(f"reading {file}"):
        problem = read_problem(file)
    prepare_output(output, file)
    warm_up(scheduler)
    begin = time.perf_counter()
    with working(f"{name} is placing {counted(problem.num_executors, 'executor')}"):
        assignment = scheduler.schedule(problem)
    if not assignment.seconds:  # a Java scheduler is not charged for what brings the problem to it
        assignment = replace(assignment, seconds=time.perf_counter() - begin)
    cost = cost_of(problem, assignment.slot_of_executor)
    document = {**assignment_to_dict(problem, assignment, cost), "figures": figures_of(problem, assignment)}
    if output:
        write_json(output, document)
    if as_json:
        print_json(document)
    else:
        _print_summary(problem, assignment, cost)
    if np.any(assignment.slot_of_executor == UNPLACED):
        ctx.exit(_SOME_UNPLACED)


def _print_summary(problem: Problem, assignment: Assignment, cost: Cost) -> None:
    objective = assignment.parameters.get("objective")
    by = f", by {objective}" if objective else ""
    say(f"{problem.name or 'problem'}: {size_of(problem)}; {assignment.scheduler} took {assignment.seconds:.3f} s{by}")
    after = assignment.slot_of_executor
    placements = {"after": (after, cost)}
    if np.any(problem.current_slot != UNPLACED):
        placements = {"before": (problem.current_slot, cost_of(problem, problem.current_slot)), **placements}
    say(_verdict(problem, after))
    predictor = ThroughputPredictor(problem)
    rates = [predictor.predicted(slots) for slots, _ in placements.values()]
    if rates[-1] and rates[-1].warning:
        say(rates[-1].warning)
    table = numbers_table("", *placements)
    if rates[-1]:
        label = "trees/s that can be reached" if rates[-1].is_single else "factor by which all rates can grow"
        table.add_row(label, *(each.brief if each else "–" for each in rates))
    for name, label in _TRAFFIC.items():
        values = [getattr(of_placement, name) for _, of_placement in placements.values()]
        if (any(values) and (shows_all() or name in _CROSSES)) or name == "total":
            table.add_row(label, *map(readable, values))
    for label, figure in _FIGURES.items():
        table.add_row(label, *(figure(problem, slots) for slots, _ in placements.values()))
    print_table(table)
    if lines := assignment.parameters.get("reason"):
        say(lines)
    for line in _predicted(assignment):
        say(line)
    if "proof" in assignment.parameters:
        say(proof_text(assignment.parameters["proof"]))
    for line in [*filter(None, [assumed_text(problem)]), *_broken_limits(problem, assignment), *_reasons(assignment)]:
        say(line)
    _print_workers(problem, after)


def _predicted(assignment: Assignment) -> Iterator[str]:
    """Yield the predicted rates of a search by rates."""
    if predicted := assignment.parameters.get("predicted"):
        yield "predicted:"
        lines = cut_short(list(reach_texts(predicted)), _MAX_LINES)
        yield from (f"  {line}" for line in lines)


def _percent(part: float) -> str:
    return f"{part:.1%}" if np.isfinite(part) else "it has none"


def _print_workers(problem: Problem, slots: IntArray) -> None:
    """Print a line per worker, up to a maximum."""
    found = list(islice(_workers(problem, slots), None if shows_all() else _MAX_WORKERS))
    if not found:
        return
    table = text_table("topology", "worker", "executors")
    for worker in found:
        table.add_row(*worker)
    print_table(table)
    # A slot that several topologies share, which Storm does not allow, is a worker of each.
    placed = slots != UNPLACED
    left = len(set(zip(problem.executor_topology[placed].tolist(), slots[placed].tolist(), strict=True))) - len(found)
    if left:
        say(f"and {counted(left, 'more worker')}; --all shows them, --output writes them")


def _workers(problem: Problem, slots: IntArray) -> Iterator[tuple[str, str, str]]:
    """Yield topology, place and executors of each worker, topologies and slots in the problem's order."""
    for index, topology in enumerate(problem.topologies):
        own = slots[problem.executors_of(index)]
        for slot in used_slots(own):
            counts = np.bincount(topology.executor_component[own == slot])
            parts = [f"{counts[c]} {topology.components[c].id}" for c in np.flatnonzero(counts).tolist()]
            place = problem.cluster.slot_name(problem.slots[slot])
            yield topology.id, place, ", ".join(parts) if shows_all() else listed(parts, _MAX_COMPONENTS)


def _verdict(problem: Problem, after: IntArray) -> str:
    """Return the executors that have a slot, and the moves to that, as one sentence."""
    placed, number = int(np.count_nonzero(after != UNPLACED)), problem.num_executors
    are = "is" if number == 1 else "are"
    text = (
        f"All {counted(number, 'executor')} {are} placed"
        if placed == number
        else f"{placed:,} of {counted(number, 'executor')} {are} placed"
    )
    return f"{text}; {_moves(problem, after)}." if np.any(problem.current_slot != UNPLACED) else f"{text}."


def _moves(problem: Problem, after: IntArray) -> str:
    changes = diff(problem, problem.current_slot, after)
    return (
        f"moved: {counted(len(changes.moved_executors), 'executor')} of "
        f"{counted(len(changes.topologies), 'topology')}; "
        f"workers: {len(changes.unchanged_workers):,} run on, {len(changes.stopped_workers):,} stop, "
        f"{len(changes.started_workers):,} start"
    )


def _broken_limits(problem: Problem, assignment: Assignment) -> Iterator[str]:
    """Yield limits that the placed executors break, and worker counts, as not every scheduler checks all of them."""
    slots = assignment.slot_of_executor
    for label, found in (
        ("violations", list(map(str, broken_limits(problem, slots)))),
        ("other worker counts", list(map(str, other_worker_counts(problem, slots)))),
    ):
        if found:
            yield f"{label}: {len(found):,}"
            yield from (f"  {line}" for line in cut_short(found, _MAX_LINES))


def _reasons(assignment: Assignment) -> Iterator[str]:
    """Yield why executors are unplaced, those with the same reasons together."""
    if not assignment.unplaced:
        return
    yield f"unplaced: {counted(len(assignment.unplaced), 'executor')}"
    lines = [
        f"  {count:,} of {topology}: {'; '.join(reasons)}" for topology, count, reasons in assignment.grouped_reasons()
    ]
    yield from cut_short(lines, _MAX_LINES)
    short = [name for name in _KEYS if any(name in line for line in lines)]
    yield from (f"  keys of {name}: {_KEYS[name]}" for name in short)
