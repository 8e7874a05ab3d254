"""What a placement is better in than the one that runs, by what authors of schedulers look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Cost, Problem, cost_of
from stormwright.model.arrays import IntArray
from stormwright.schedulers.kit.triggers import BALANCE, NODES, TRAFFIC


@dataclass(frozen=True)
class Gain:
    """By how much, in percent of what runs now; what that means, and the figures that it comes from."""

    percent: float
    gained: str
    text: str


def gain_in(kind: str, problem: Problem, slots: IntArray) -> Gain:
    """What a placement gains in one thing.

    Parameters
    ----------
    kind
        One of `stormwright.schedulers.kit.triggers.GAINS`.
    problem
        What runs.
    slots
        Slot of every executor, -1 for none, shape (E,).
    """
    return _KINDS[kind](problem, slots)


def inter_node_tps(cost: Cost) -> float:
    """Traffic between nodes, in one rack or not."""
    return cost.inter_node + cost.inter_rack


def nodes_used(problem: Problem, slots: IntArray) -> int:
    """Nodes on which a placement has anything."""
    return len(np.unique(problem.slot_node[slots[slots != UNPLACED]]))


def _in_traffic(problem: Problem, slots: IntArray) -> Gain:
    now_tps, new_tps = (inter_node_tps(cost_of(problem, each)) for each in (problem.current_slot, slots))
    percent = 100 * (now_tps - new_tps) / now_tps if now_tps > 0 else 0.0
    text = f"inter-node traffic {now_tps:.0f} → {new_tps:.0f} tuples/s"
    return Gain(percent, f"inter-node traffic falls by {percent:.0f} %", text)


def _in_nodes(problem: Problem, slots: IntArray) -> Gain:
    now, new = (nodes_used(problem, each) for each in (problem.current_slot, slots))
    percent = 100 * (now - new) / now if now else 0.0
    return Gain(percent, f"{now - new} of {now} nodes are no longer needed", f"nodes {now} → {new}")


def _in_balance(problem: Problem, slots: IntArray) -> Gain:
    now_hz, new_hz = (_busiest_hz(problem, each) for each in (problem.current_slot, slots))
    percent = 100 * (now_hz - new_hz) / now_hz if now_hz > 0 else 0.0
    text = f"CPU of the busiest workers {now_hz / 1e9:.2f} → {new_hz / 1e9:.2f} GHz"
    return Gain(percent, f"CPU of the busiest workers falls by {percent:.0f} %", text)


def _busiest_hz(problem: Problem, slots: IntArray) -> float:
    """CPU of the busiest worker of each topology, added up, in Hz; a slot holds one topology."""
    placed = np.flatnonzero(slots != UNPLACED)
    worker_hz = np.bincount(slots[placed], problem.executor_cpu_hz[placed], len(problem.slots))
    busiest_hz = np.zeros(len(problem.topologies))
    np.maximum.at(busiest_hz, problem.executor_topology[placed], worker_hz[slots[placed]])
    return float(busiest_hz.sum())


_KINDS: Mapping[str, Callable[[Problem, IntArray], Gain]] = {
    TRAFFIC: _in_traffic,
    NODES: _in_nodes,
    BALANCE: _in_balance,
}
