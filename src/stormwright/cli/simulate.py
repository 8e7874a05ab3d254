"""``stormwright simulate``: simulate a placement in virtual time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from stormwright.cli import options
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import cut_short, numbers_table, print_json, print_table
from stormwright.errors import Fault, InputError
from stormwright.formats import read_assignment
from stormwright.jit.compilation import report_compilation
from stormwright.model import UNPLACED, cost_of
from stormwright.model.humanize import counted, listed, readable
from stormwright.model.problem import assumed_text, size_of
from stormwright.workbench.ready_problems import read_problem

if TYPE_CHECKING:
    from rich.progress import Progress

    from stormwright.model import Problem
    from stormwright.model.arrays import IntArray
    from stormwright.workbench.simulated.simulation import Simulation

#: Maximum number of topologies, nodes and queues without ``--all``.
_MAX_TOPOLOGIES, _MAX_NODES, _MAX_QUEUES = 4, 3, 2

#: Minimum fraction of its limit from which a queue is reported.
_FULL = 0.01

#: Tuples that take minutes.
_MANY = 3e8

#: Seconds after which progress is shown; and, other than on a terminal, between two lines of it.
_SHOWN_AFTER_S, _LINE_EVERY_S = 1.0, 10.0

_BARS = " ▁▂▃▄▅▆▇█"


@click.command()
@options.problem_file
@click.option("--scheduler", help="Scheduler that places everything; by default the current placement is used.")
@click.option("--set", "parameters", multiple=True, metavar="KEY=VALUE", help="Scheduler parameter.")
@options.from_scratch("from scratch, unless the scheduler has a limit of moves")
@click.option(
    "--assignment", type=options.PATH, help="Placement to simulate, as written by `stormwright schedule --output`."
)
@click.option(
    "--seconds",
    type=options.FiniteRange(0, 1e7, min_open=True),
    default=30.0,
    show_default=True,
    help="Duration in virtual seconds.",
)
@click.option("--seed", type=options.WholeRange(0, 2**63 - 1), default=0, show_default=True, help="Random seed.")
@click.option(
    "--trace", type=options.PATH, help="How rates change: lines of SECONDS,FACTOR or SECONDS,FACTOR,TOPOLOGY."
)
@click.option(
    "--tuples-at-once",
    "at_once",
    type=options.WholeRange(1, 1_000_000),
    default=1,
    show_default=True,
    help="Maximum number of similar tuples simulated as one event: faster by that factor, with longer latencies.",
)
@click.option(
    "--saturated",
    is_flag=True,
    help="Spouts emit as fast as the limit of pending trees allows, instead of at a given rate.",
)
@options.costs
@options.everything
@options.as_json("Print it as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path,
    scheduler: str | None,
    parameters: tuple[str, ...],
    from_scratch: bool | None,
    assignment: Path | None,
    seconds: float,
    seed: int,
    trace: Path | None,
    at_once: int,
    saturated: bool,
    costs_file: Path | None,
    as_json: bool,
) -> None:
    """FILE is the problem. Spouts emit trees at the measured rate, at random times; all workers are up, and all queues
    are initially empty. The current placement is used unless a scheduler or an assignment is given. The same seed
    gives the same result. Exits with 1 if an executor has no slot.
    """
    from stormwright.cli.predictions import assumptions_of
    from stormwright.simulator.precompile import ready_simulator
    from stormwright.simulator.settings import SimulatorSettings
    from stormwright.workbench.simulated.simulation import read_trace, simulate

    _check(scheduler, parameters, from_scratch, assignment, trace, saturated)
    problem = read_problem(file)
    slots, by = _placed(problem, scheduler, parameters, from_scratch, assignment)
    changes = read_trace(trace, problem) if trace else []
    assumed = assumptions_of(problem, costs_file)
    report_compilation()
    ready_simulator()
    if not saturated:
        _warn(problem, slots, seconds / at_once)
    settings = SimulatorSettings(
        assumed.costs, assumed.corrections, saturated=saturated, tuples_at_once=at_once, seed=seed
    )
    with _shown_progress(seconds) as progress:
        found = simulate(problem, slots, seconds, settings, changes, progress)
    if as_json:
        print_json({"problem": problem.name, "placed_by": by, "seed": seed, **found.as_dict()})
    else:
        _print(problem, found, by)
    if np.any(slots == UNPLACED):
        ctx.exit(1)


def _check(
    scheduler: str | None,
    parameters: Sequence[str],
    from_scratch: bool | None,
    assignment: Path | None,
    trace: Path | None,
    saturated: bool,
) -> None:
    faults = []
    if scheduler and assignment:
        faults.append(Fault("and --scheduler both determine the placement: pass one of them", "--assignment"))
    if parameters and not scheduler:
        faults.append(Fault("parameters require a scheduler: pass --scheduler", "--set"))
    if from_scratch is not None and not scheduler:
        faults.append(Fault("requires --scheduler", "--from-scratch, --keep-running"))
    if saturated and trace:
        faults.append(Fault("has no effect on spouts that are offered no rate: leave out --saturated", "--trace"))
    if faults:
        raise InputError("simulate", faults)


@contextmanager
def _shown_progress(seconds: float) -> Iterator[Callable[[float, int], None]]:
    """Show virtual time on standard error once the simulation takes a while: a bar on a terminal, else lines."""
    bar: Progress | None = None
    due_s = time.monotonic() + _SHOWN_AFTER_S

    def update(now_s: float, tuples: int) -> None:
        nonlocal bar, due_s
        if time.monotonic() < due_s:
            return
        text = f"{now_s:,.3g} of {seconds:,.6g} s, {counted(tuples, 'tuple')}"
        if bar is None and sys.stderr.isatty():
            bar = _bar(seconds)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=now_s, description=text)
        else:
            due_s = time.monotonic() + _LINE_EVERY_S
            say(f"simulated {text}", err=True)

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()


def _bar(seconds: float) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    bar = Progress(*columns, transient=True, console=Console(stderr=True))
    bar.add_task("", total=seconds)
    bar.start()
    return bar


def _warn(problem: Problem, slots: IntArray, seconds: float) -> None:
    """Print the amount of work if it takes long."""
    cost = cost_of(problem, slots)
    tuples = seconds * sum(getattr(cost, part.name) for part in fields(cost) if part.name != "total")
    if tuples > _MANY:
        say(f"simulating about {tuples:,.0f} tuples, about a million per second; Ctrl-C stops it", err=True)


def _placed(
    problem: Problem,
    scheduler: str | None,
    parameters: Sequence[str],
    from_scratch: bool | None,
    assignment: Path | None,
) -> tuple[IntArray, str]:
    """Return the slots of executors, and the origin of the placement."""
    from stormwright.workbench.simulated.simulation import running

    if assignment:
        return read_assignment(assignment, problem).slot_of_executor, assignment.name
    if not scheduler:
        return running(problem), "what runs"
    from stormwright.schedulers.toolkit.from_scratch import always, apply_from_scratch
    from stormwright.schedulers.toolkit.resolve import resolve_scheduler
    from stormwright.schedulers.toolkit.traits import warm_up

    found = apply_from_scratch(scheduler, resolve_scheduler(scheduler, parameters, None), from_scratch, always)
    warm_up(found)
    return found.schedule(problem).slot_of_executor, scheduler


def _print(problem: Problem, found: Simulation, by: str) -> None:
    say(f"{problem.name or 'problem'}: {size_of(problem)}; placed by {by}")
    if assumed := assumed_text(problem):
        say(assumed)
    if missing := int(np.sum(found.slots == UNPLACED)):
        say(f"no slot for {counted(missing, 'executor')}: tuples sent to them are lost")
    say(
        f"{found.seconds:,.6g} s of virtual time in {found.took_s:.2f} s: {counted(found.hops, 'tuple')} handled, "
        f"{found.hops / max(found.took_s, 1e-9) / 1e6:.2f} million a second"
    )
    say(_verdict(found))
    if found.at_once > 1:
        longer = "latencies are longer, at most by their service times at each executor"
        say(f"{found.at_once} tuples are simulated as one: {longer}")
    _print_topologies(found)
    _print_nodes(problem, found)
    for line in _queues(problem, found):
        say(line)
    shown = len(problem.topologies) if shows_all() else min(len(problem.topologies), 1)
    for number in range(shown):
        _print_timeline(problem, found, number)


def _verdict(found: Simulation) -> str:
    """Return whether trees failed, as one sentence."""
    topologies = found.as_dict()["topologies"]
    failed = [one["topology"] for one in topologies if one["timed_out"] or one["lost"]]
    if not failed:
        return "No tree timed out, and no tuple was lost."
    trees = sum(one["timed_out"] for one in topologies)
    lost = sum(one["lost"] for one in topologies)
    return f"{counted(trees, 'tree')} timed out and {counted(lost, 'tuple')} were lost, of {listed(failed)}."


def _print_topologies(found: Simulation) -> None:
    from stormwright.workbench.simulated.simulation import MIN_MS, QUANTILES

    names = ("trees/s", "mean", "p50", "p95", "p99", "timed out", "lost", "pending")
    table = numbers_table("topology", *names)
    text = found.as_dict()["topologies"]
    for one in text:
        mean_ms, times = one["mean_ms"], [one[f"{name}_ms"] for name in QUANTILES]
        latencies = ["" if mean_ms is None else f"{readable(mean_ms)} ms"]
        latencies += ["" if ms is None else f"{readable(ms)} ms" if ms > MIN_MS else f"≤ {MIN_MS:g} ms" for ms in times]
        rate = one["trees_per_s"] if one["acked"] else one["begun"] / found.seconds
        table.add_row(
            one["topology"],
            readable(rate),
            *latencies,
            f"{one['timed_out']:,}",
            f"{one['lost']:,}",
            f"{one['pending']:,}",
        )
    print_table(table, _MAX_TOPOLOGIES, "topology")
    unacked = [one["topology"] for one in text if not one["acked"]]
    if unacked:
        whose = ", ".join(unacked) if shows_all() else listed(unacked)
        say(f"without ackers: {whose}; there is no latency, and trees/s are those that were begun")


def _print_nodes(problem: Problem, found: Simulation) -> None:
    table, cpu = numbers_table("node", "CPU", "at most", "link out", "link in"), found.cpu()
    used = [number for number in np.argsort(-cpu.mean(axis=0), kind="stable") if found.whole.busy_s[number] > 0]
    for number in used:
        links = [f"{readable(8e-6 * found.whole.link_bytes[way, number] / found.seconds)} Mbit/s" for way in (0, 1)]
        table.add_row(
            problem.supervisors[number].host, f"{cpu[:, number].mean():.0%}", f"{cpu[:, number].max():.0%}", *links
        )
    print_table(table, _MAX_NODES, "node")


def _queues(problem: Problem, found: Simulation) -> list[str]:
    """Return the fullest receive queues, a line each."""
    order = np.argsort(-found.queue_peak / np.maximum(found.queue_limit, 1), kind="stable")
    full = [e for e in order.tolist() if found.queue_peak[e] >= _FULL * found.queue_limit[e]]
    text = []
    for executor in full:
        topology = problem.topologies[problem.executor_topology[executor]]
        own = executor - int(problem.executor_offset[problem.executor_topology[executor]])
        component = topology.components[topology.executor_component[own]].id
        text.append(
            f"the queue of {component} [{topology.executor_start_task[own]}] of {topology.id} had up to "
            f"{found.queue_peak[executor]:,} of {found.queue_limit[executor]:,} tuples"
        )
    return list(cut_short(text, _MAX_QUEUES)) or ["no receive queue was ever fuller than 1 %"]


def _print_timeline(problem: Problem, found: Simulation, number: int) -> None:
    """Print rates and latencies as bars, one per step."""
    name, rates = problem.topologies[number].id, found.rates(number)
    if not rates.any():
        return
    latencies = np.nan_to_num(found.latencies_ms(number, 0.95))
    say(f"{name}, from 0 to {found.seconds:,.6g} s:")
    say(f"  trees/s  {_bars(rates)}  at most {readable(rates.max())}")
    say(f"  p95      {_bars(latencies)}  at most {latencies.max():,.2f} ms")


def _bars(values: np.ndarray) -> str:
    most = float(values.max())
    levels = np.ceil(values / most * (len(_BARS) - 1)).astype(int) if most > 0 else np.zeros(len(values), int)
    return "".join(_BARS[level] for level in levels)
