"""What goes through while nodes die: how soon it does again, and what is lost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from stormwright.errors import ClusterError
from stormwright.evaluations.cells import Cell
from stormwright.evaluations.kept import CellFound
from stormwright.evaluations.lab.cluster import ClusterLab
from stormwright.evaluations.lab.phases import begin, drained, ids_of
from stormwright.model import Problem
from stormwright.schedulers.toolkit.resolve import keeping_what_runs
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.workbench.demo.measure import acked_series, longest_silence_s

#: Seconds of a step of the rate over time, and steps over which it is looked at.
_STEP_S, _STEPS = 1.0, 3

#: Part of the rate at which a window ends that counts as recovered; and part of the window that is its end.
_RECOVERED, _END = 0.9, 0.25


def measure_kills(lab: ClusterLab, cell: Cell, rate_tps: float) -> CellFound:
    """Run a cell's topologies, let nodes that they use die one after the other, and count every tuple tree.

    A node dies with its supervisor and workers, and stays dead. Who decides where its executors go is the cell's
    scheduler, as `stormwright serve --initial` asks it.

    Parameters
    ----------
    lab
        Whose cluster is up, for this cell alone.
    cell
        What is measured.
    rate_tps
        Trees/s of the first variant; it finds out what the block's share of the highest is.

    Raises
    ------
    ClusterError
        Workers did not report, or no node of the topologies is left to kill.
    """
    scheduler = keeping_what_runs(cell.placed_by.scheduler)
    warm_up(scheduler)
    lab.placing.other = scheduler
    with lab.running(cell, None) as problem:
        (topology,) = problem.topologies
        rate_tps = begin(lab, problem, cell, rate_tps)
        moments = [time.time() * 1000]
        time.sleep(cell.times.before_kills_s)
        dead: list[str] = []
        for _ in range(cell.times.kills):
            dead.append(_next_to_die(lab, problem, dead))
            moments.append(time.time() * 1000)
            lab.cluster.kill_node(dead[-1])
            time.sleep(cell.times.kill_s)
        moments.append(time.time() * 1000)
        left = drained(lab, topology)
        totals = lab.tally.totals(topology.id)
        figures = recoveries(lab.records(ids_of(problem)), topology.id, moments)
        figures |= {
            "failed": [float(totals.failed)],
            "lost_trees": [float(lab.tally.unaccounted(topology.id))],
        }
        return CellFound(figures, {"killed": dead, "begun": totals.begun, "drained": left}, rate_tps=rate_tps)


def recoveries(records: Sequence[Mapping[str, Any]], topology: str, moments: Sequence[float]) -> dict[str, list[float]]:
    """Figures of each window after a kill.

    Parameters
    ----------
    records
        Of the whole run.
    topology
        Its id.
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
    """Trees/s at the end of a window."""
    begin_ms = end_ms - _END * (end_ms - start_ms)
    _, rates = acked_series(records, topology, begin_ms, end_ms, _STEP_S * 1000)
    return fmean(rates[:-1] or rates)


def _recovered_s(seconds: Sequence[float], rates: Sequence[float], enough: float) -> float:
    """From when on the rate is enough, counted back from the end of the window."""
    means = [fmean(rates[step : step + _STEPS]) for step in range(max(len(rates) - _STEPS, 1))]
    # The end of a window is what it is held against: the last time that it was too little tells.
    low = [step for step, mean in enumerate(means[: int(len(means) * (1 - _END))]) if mean < enough]
    return seconds[low[-1] + 1] if low else 0.0


def _next_to_die(lab: ClusterLab, problem: Problem, dead: Sequence[str]) -> str:
    """The node with the lowest name that holds a worker and lives; never the last that does."""
    now = lab.snapshot([topology.name for topology in problem.topologies]) or problem
    hosts = {node.id: node.host for node in now.supervisors}
    used = {hosts[slot.supervisor] for of in now.current.values() for slot in of.slots if slot.supervisor in hosts}
    living = [node.name for node in lab.cluster.plan.nodes if node.name not in dead]
    at = [node.name for node in lab.cluster.plan.nodes if node.address in used and node.name in living]
    if not at or len(living) < 2:
        raise ClusterError("no node that the topology uses is left to kill")
    return at[0]
