"""Gains of a placement over the current one, in the quantities used by the authors of schedulers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Cost, Problem, cost_of
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import readable
from stormwright.schedulers.toolkit.triggers import BALANCE, NODES, TRAFFIC


@dataclass(frozen=True)
class Gain:
    """A gain in percent of the current placement, its description, and the figures behind it."""

    percent: float
    gained: str
    text: str


def gain_in(kind: str, problem: Problem, slots: IntArray) -> Gain:
    """Return the gain of a placement in one quantity.

    Parameters
    ----------
    kind
        Quantity of the gain, one of `stormwright.schedulers.toolkit.triggers.GAINS`.
    problem
        Problem with the current placement, to which the gain is relative.
    slots
        Slot of every executor, -1 for none, shape (E,).
    """
    return _KINDS[kind](problem, slots)


def inter_node_tps(cost: Cost) -> float:
    """Return the traffic between nodes, within and across racks."""
    return cost.inter_node + cost.inter_rack


def nodes_used(problem: Problem, slots: IntArray) -> int:
    """Return the number of nodes with an executor."""
    return len(np.unique(problem.slot_node[slots[slots != UNPLACED]]))


def _in_traffic(problem: Problem, slots: IntArray) -> Gain:
    now_tps, new_tps = (inter_node_tps(cost_of(problem, each)) for each in (problem.current_slot, slots))
    percent = 100 * (now_tps - new_tps) / now_tps if now_tps > 0 else 0.0
    text = f"inter-node traffic {readable(now_tps)} → {readable(new_tps)} tuples/s"
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
    """Return the CPU of the busiest worker of each topology, summed, in Hz; a slot holds one topology."""
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
