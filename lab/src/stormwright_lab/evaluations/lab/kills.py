"""Node failures on a real or virtual cluster: time to recover, and lost tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from stormwright.errors import ClusterError
from stormwright.model import Problem
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.workbench.demo.measure import acked_series, longest_silence_s
from stormwright_lab.evaluations.cell_store import CellOutcome
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.lab.phases import RunningLab, drained, ids_of, prepare

#: Seconds of a step of the rate over time, and steps over which it is looked at.
_STEP_S, _STEPS = 1.0, 3

#: Part of the rate at which a window ends that counts as recovered; and part of the window that is its end.
_RECOVERED, _END = 0.9, 0.25


def measure_kills(lab: RunningLab, cell: Cell, rate_tps: float) -> CellOutcome:
    """Run a cell's topologies, kill nodes that they use one after the other, and count all tuple trees.

    A node dies with its supervisor and workers, and stays dead. The cell's scheduler places its executors, as with
    `stormwright serve --initial`.

    Parameters
    ----------
    lab
        Lab with a running cluster, for this cell alone.
    cell
        Start to measure: its block, scheduler, number of kills, and their times.
    rate_tps
        Trees/s; if 0 the first variant measures the block's share of the highest rate.

    Raises
    ------
    ClusterError
        Workers did not report, or no node of the topologies is left to kill.
    """
    scheduler = scheduler_keeping_running(cell.placed_by.scheduler, cell.placed_by.settings)
    warm_up(scheduler)
    lab.scheduler.other = scheduler
    with lab.running(cell, None) as problem:
        (topology,) = problem.topologies
        rate_tps = prepare(lab, problem, cell, rate_tps)
        moments = [lab.clock.time() * 1000]
        lab.clock.sleep(cell.times.before_kills_s)
        dead: list[str] = []
        for _ in range(cell.times.kills):
            dead.append(_next_to_die(lab, problem, dead))
            moments.append(lab.clock.time() * 1000)
            lab.kill_node(dead[-1])
            lab.clock.sleep(cell.times.kill_s)
        moments.append(lab.clock.time() * 1000)
        left = drained(lab, topology)
        totals = lab.tally.totals(topology.id)
        records = lab.records(ids_of(problem))
        figures = recoveries(records, topology.id, moments)
        figures |= {
            "failed": [float(totals.failed)],
            "lost_trees": [float(lab.tally.unaccounted(topology.id))],
        }
        return CellOutcome(
            figures, {"killed": dead, "begun": totals.begun, "drained": left}, rate_tps=rate_tps, records=records
        )


def recoveries(records: Sequence[Mapping[str, Any]], topology: str, moments: Sequence[float]) -> dict[str, list[float]]:
    """Return the figures of each window after a kill.

    Parameters
    ----------
    records
        Records of the whole run.
    topology
        Id of the topology.
    moments
        In ms since 1970: begin of the window before the first kill, every kill, and the end of the last window. One in
        which nothing recovers counts whole.
    """
    found: dict[str, list[float]] = {"recovery_s": [], "silence_s": [], "kept_percent": []}
    before = _end_rate(records, topology, moments[0], moments[1])
    for start_ms, end_ms in pairwise(moments[1:]):
        settled = _end_rate(records, topology, start_ms, end_ms)
        seconds, rates = acked_series(records, topology, start_ms, end_ms, _STEP_S * 1000)
        within = _recovered_s(seconds, rates, _RECOVERED * settled) if settled else (end_ms - start_ms) / 1000
        found["recovery_s"].append(within)
        found["silence_s"].append(longest_silence_s(records, topology, start_ms, end_ms))
        found["kept_percent"].append(100 * settled / before if before else 0.0)
        before = settled or before
    return found


def _end_rate(records: Sequence[Mapping[str, Any]], topology: str, start_ms: float, end_ms: float) -> float:
    """Return the trees/s at the end of a window."""
    begin_ms = end_ms - _END * (end_ms - start_ms)
    _, rates = acked_series(records, topology, begin_ms, end_ms, _STEP_S * 1000)
    return fmean(rates[:-1] or rates)


def _recovered_s(seconds: Sequence[float], rates: Sequence[float], enough: float) -> float:
    """Return the time from which the rate is sufficient, searched back from the end of the window."""
    means = [fmean(rates[step : step + _STEPS]) for step in range(max(len(rates) - _STEPS, 1))]
    # The end of a window is the reference: the last time below it counts.
    low = [step for step, mean in enumerate(means[: int(len(means) * (1 - _END))]) if mean < enough]
    return seconds[low[-1] + 1] if low else 0.0


def _next_to_die(lab: RunningLab, problem: Problem, dead: Sequence[str]) -> str:
    """Return the lowest-named live node with a worker; never the last such node."""
    now = lab.snapshot([topology.name for topology in problem.topologies]) or problem
    hosts = {node.id: node.host for node in now.supervisors}
    used = {
        hosts[slot.supervisor]
        for assignment in now.current.values()
        for slot in assignment.slots
        if slot.supervisor in hosts
    }
    living = [node.name for node in lab.nodes if node.name not in dead]
    at = [node.name for node in lab.nodes if node.address in used and node.name in living]
    if not at or len(living) < 2:
        raise ClusterError("no used node can be killed")
    return at[0]
