"""Common phases of measurements: the start, and the end with counted tuples."""

from __future__ import annotations

import time

from stormwright.controller.draining import Draining, drain
from stormwright.evaluations.cells import Cell
from stormwright.evaluations.lab.cluster import ClusterLab
from stormwright.model import Problem, Topology
from stormwright.workbench.demo.measure import measure
from stormwright.workbench.demo.steps import LAST_DRAIN_S

#: Seconds after a change of limit or rate, and until what was written by then has arrived.
SETTLE_S, ARRIVE_S = 2.0, 1.0


def begin(lab: ClusterLab, problem: Problem, cell: Cell, rate_tps: float) -> float:
    """Warm the workers up, limit their nodes, and set a rate; return the rate in trees/s.

    Parameters
    ----------
    lab
        Lab with a running cluster.
    problem
        Problem with the running placement.
    cell
        Cell to measure.
    rate_tps
        Trees/s; if 0 the first variant measures the block's share of the highest rate.
    """
    lab.warm_up(problem, cell.times.warm_s)
    lab.limit(cell.block)
    if cell.is_first and cell.block.share is not None and not rate_tps:
        rate_tps = cell.block.share * highest_rate(lab, problem, cell.times.probe_s)
    lab.ask(rate_tps)
    return rate_tps


def highest_rate(lab: ClusterLab, problem: Problem, seconds: float) -> float:
    """Return the trees/s that complete if spouts emit as fast as possible."""
    time.sleep(SETTLE_S)
    start_ms = time.time() * 1000
    time.sleep(seconds)
    end_ms = time.time() * 1000
    time.sleep(ARRIVE_S)
    records = lab.records(ids_of(problem))
    return sum(measure(records, topology, start_ms, end_ms).acked_tps for topology in ids_of(problem))


def drained(lab: ClusterLab, topology: Topology) -> bool:
    """Pause the spouts, let every tree end, and return whether all did."""
    now = lab.snapshot([topology.name])
    live = [(slot.supervisor, slot.port) for slot in now.current[topology.id].slots] if now and now.current else []
    return not drain([Draining(topology.id, topology.name, live)], lab.nimbus, lab.tally, LAST_DRAIN_S)


def ids_of(problem: Problem) -> list[str]:
    """Return the ids of the problem's topologies."""
    return [topology.id for topology in problem.topologies]
