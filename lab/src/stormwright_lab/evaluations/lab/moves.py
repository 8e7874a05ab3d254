"""Moves on a real or virtual cluster: tuples lost by Storm's own rebalance and by ours, with and without ackers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stormwright.base.documents import FileDocument
from stormwright.controller.move import Mover
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.pauses import Pauses
from stormwright.errors import ClusterError
from stormwright.model import Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.workbench.demo.measure import longest_silence_s
from stormwright_lab.evaluations.cell_store import CellOutcome
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.definitions import MOVED_BY, STORMS_REBALANCE
from stormwright_lab.evaluations.lab.phases import RunningLab, drained, ids_of, prepare
from stormwright_lab.evaluations.placing import named

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
        Start to measure: its block, the kind of move, and the measuring times.
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
        rate_tps = prepare(lab, problem, cell, rate_tps)
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
    lab.scheduler.wanted = {topology.name: placement}
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
