"""What a placement comes to, for programs: what `stormwright schedule` says of it in a table and in lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, cost_of, diff
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import node_sum
from stormwright.model.constraints.violations import broken_limits, other_worker_counts
from stormwright.model.humanize import assumed_text, sizes


def figures_of(problem: Problem, assignment: Assignment) -> dict[str, Any]:
    """What runs and what was answered side by side, what moves, limits that are broken, and what was assumed.

    What is broken, and workers that are other than wanted, are named as by `stormwright compare --json`. `before` and
    `moved` are null where nothing runs, and `fullest_cpu` (a part of 1) where a node without any CPU has executors.
    """
    now, after = problem.current_slot, assignment.slot_of_executor
    runs, counts = bool(np.any(now != UNPLACED)), other_worker_counts(problem, after)
    return {
        "problem": problem.name,
        **sizes(problem),
        "assumed": assumed_text(problem) or None,
        "before": _side(problem, now) if runs else None,
        "after": _side(problem, after),
        "moved": _moved(problem, after) if runs else None,
        "violations": [each.as_dict() for each in (*broken_limits(problem, after), *counts)],
        "other_worker_counts": [
            {"topology": each.topology, "workers": each.workers, "wanted": each.wanted} for each in counts
        ],
    }


def _side(problem: Problem, slots: IntArray) -> dict[str, Any]:
    used, fullest = used_slots(slots), fullest_cpu(problem, slots)
    return {
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
        "workers_kept": len(changes.kept_workers),
        "workers_stopped": len(changes.stopped_workers),
        "workers_started": len(changes.started_workers),
    }


def used_slots(slots: IntArray) -> list[int]:
    """The slots that are used, without `np.unique`, which imports masked arrays when it is used first."""
    return sorted(set(slots[slots != UNPLACED].tolist()))


def fullest_cpu(problem: Problem, slots: IntArray) -> float:
    """The largest part of its CPU that a node's executors use; of a node without any, more than all is used."""
    used = node_sum(problem, slots, problem.executor_cpu_hz)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(used > 0, used / problem.node_cpu_hz, 0.0), initial=0.0))
