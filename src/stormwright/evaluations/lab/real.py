"""The lab on a real cluster, and measurements of failures and moves on a real or virtual one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from stormwright.controller.move import Mover
from stormwright.controller.planning.plan import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.pauses import Pauses
from stormwright.documents import FileDocument
from stormwright.errors import ClusterError
from stormwright.evaluations.cell_store import CellOutcome
from stormwright.evaluations.cells import Cell
from stormwright.evaluations.definitions import MOVED_BY, STORMS_REBALANCE
from stormwright.evaluations.lab.cluster import ClusterLab
from stormwright.evaluations.lab.phases import RunningLab, begin, drained, ids_of
from stormwright.evaluations.lab.steady import measure_steady
from stormwright.evaluations.placing import CellPlacement, named
from stormwright.model import Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.workbench.demo.measure import acked_series, longest_silence_s

# Node failures ------------------------------------------------------------------------------------
# Node failures: time to recover, and lost tuples.

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
        Cell to measure.
    rate_tps
        Trees/s; if 0 the first variant measures the block's share of the highest rate.

    Raises
    ------
    ClusterError
        Workers did not report, or no node of the topologies is left to kill.
    """
    scheduler = scheduler_keeping_running(cell.placed_by.scheduler)
    warm_up(scheduler)
    lab.placing.other = scheduler
    with lab.running(cell, None) as problem:
        (topology,) = problem.topologies
        rate_tps = begin(lab, problem, cell, rate_tps)
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


# Moves --------------------------------------------------------------------------------------------
# Losses of a move: by Storm's own rebalance and by ours, with and without ackers.

#: JVMs start slowly on little CPU, several at once on one node more so.
_LIMITS = MoveLimits(swap_s=180.0)

#: Seconds within which all workers report after Storm's own rebalance.
_BACK_S, _LOOK_S = 120.0, 0.2


def measure_moves(lab: RunningLab, cell: Cell, rate_tps: float) -> CellOutcome:
    """Run a topology, move every worker to the next node, and count tuples sent but not received.

    Parameters
    ----------
    lab
        Lab with a running cluster.
    cell
        Cell to measure.
    rate_tps
        Trees/s; if 0 the first variant measures the block's share of the highest rate.

    Raises
    ------
    ClusterError
        Workers did not report.
    MoveError
        The topology could not be moved.
    """
    with lab.running(cell, None) as problem:
        (topology,) = problem.topologies
        rate_tps = begin(lab, problem, cell, rate_tps)
        lab.clock.sleep(cell.times.sample_s * cell.times.samples)
        start_ms = lab.clock.time() * 1000
        sent_tps = _sent(lab.records(ids_of(problem))) / max(_covered_s(lab.records(ids_of(problem))), 1.0)
        wanted = next_nodes(problem)
        if cell.placed_by.settings[MOVED_BY] == STORMS_REBALANCE:
            _rebalance(lab, problem, wanted)
        else:
            _move(lab, problem, wanted)
        lab.clock.sleep(cell.times.sample_s * cell.times.samples)
        end_ms = lab.clock.time() * 1000
        drained(lab, topology)
        records, totals = lab.records(ids_of(problem)), lab.tally.totals(topology.id)
        lost = float(_sent(records) - _received(records))
        return CellOutcome(
            {
                "lost_tuples": [lost],
                "lost_s": [lost / sent_tps if sent_tps else 0.0],
                "failed": [float(totals.failed)],
                "lost_trees": [float(lab.tally.unaccounted(topology.id))],
                "silence_s": [longest_silence_s(records, topology.id, start_ms, end_ms)],
            },
            {"sent": _sent(records), "begun": totals.begun},
            rate_tps=rate_tps,
            records=records,
        )


def next_nodes(problem: Problem) -> IntArray:
    """Return every worker on the next node, one port further on: in a free slot if possible."""
    slots, ports = problem.current_slot, np.array([len(node.ports) for node in problem.supervisors])
    first = np.cumsum(ports) - ports
    node = problem.slot_node[slots]
    after = (node + 1) % len(ports)
    return np.asarray(first[after] + (slots - first[node] + 1) % ports[after], np.int32)


def _rebalance(lab: RunningLab, problem: Problem, wanted: IntArray) -> None:
    """Rebalance as Storm does: workers are killed with all their tuples."""
    (topology,) = problem.topologies
    (placement,) = named(problem, wanted)
    lab.placing.wanted = {topology.name: placement}
    began = lab.clock.monotonic()
    lab.nimbus.rebalance(topology.name, 0)
    slots = [problem.slots[slot] for slot in np.unique(wanted)]
    while lab.clock.monotonic() - began < _BACK_S:
        if all(lab.tally.reports(topology.id, s.supervisor, s.port, frozenset(), began) for s in slots):
            return
        lab.clock.sleep(_LOOK_S)
    raise ClusterError(f"not every worker of {topology.name} reported within {_BACK_S:g} s of its rebalance")


def _move(lab: RunningLab, problem: Problem, wanted: IntArray) -> None:
    plan = plan_moves(problem, Assignment(wanted), MoveBudget(), cpu_limits=False)
    if not plan.steps:
        raise ClusterError(f"there is no way to move {problem.topologies[0].name} to other nodes")
    with tempfile.TemporaryDirectory(prefix="stormwright-experiment-") as state:
        mover = Mover(lab.nimbus, lab.bridge, lab.tally, Pauses(FileDocument(Path(state) / "paused.json")), _LIMITS)
        for step in plan.steps:
            mover.move(step, "as required by the experiment")


def _is_user_bolt(executor: Mapping[str, Any]) -> bool:
    return executor["type"] == "bolt" and not executor["component"].startswith("__")


def _sent(records: Iterable[Mapping[str, Any]]) -> int:
    """Return the tuples sent to bolts of users, by the senders' counts."""
    records = list(records)
    ranges = {
        (executor["first_task"], executor["last_task"])
        for record in records
        for executor in record["executors"]
        if _is_user_bolt(executor)
    }
    tasks = {task for first, last in ranges for task in range(first, last + 1)}
    return sum(pair[3] for record in records for pair in record["pairs"] if pair[0] > 0 and pair[1] in tasks)


def _received(records: Iterable[Mapping[str, Any]]) -> int:
    """Return the tuples received by bolts of users."""
    return sum(each["received"] for record in records for each in record["executors"] if _is_user_bolt(each))


def _covered_s(records: Iterable[Mapping[str, Any]]) -> float:
    """Return the seconds that all records together span."""
    spans = [(record["start_ms"], record["start_ms"] + record["length_ns"] / 1e6) for record in records]
    return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1000 if spans else 0.0


# Lab ----------------------------------------------------------------------------------------------


class RealLab(ClusterLab):
    """A local cluster for cells of one kind."""

    def __enter__(self) -> RealLab:
        super().__enter__()
        return self

    def measure(self, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellOutcome:
        """Measure a cell; see `stormwright.evaluations.run.Lab`.

        Raises
        ------
        ClusterError
            Workers did not report, or nothing went through.
        """
        match cell.block.kind:
            case "steady":
                return measure_steady(self, cell, placement, rate_tps)
            case "kills":
                return measure_kills(self, cell, rate_tps)
            case "moves":
                return measure_moves(self, cell, rate_tps)
