"""Common phases of measurements on a cluster, real or virtual: the start, and the end with counted tuples."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from stormwright.base.clock import Clock
from stormwright.controller.draining import Draining, drain
from stormwright.controller.move import Nimbus
from stormwright.controller.tally import Tally
from stormwright.model import Problem, Topology
from stormwright.storm.bridge import Bridge
from stormwright.workbench.demo.measure import measure
from stormwright.workbench.demo.steps import LAST_DRAIN_S
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.definitions import Block
from stormwright_lab.evaluations.lab.scheduler import LabScheduler
from stormwright_lab.evaluations.placing import CellPlacement

#: Seconds after a change of limit or rate, and until what was written by then has arrived.
SETTLE_S, ARRIVE_S = 2.0, 1.0


class LabNode(Protocol):
    """A node of a lab: its name, and the host that its workers report."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...


class RunningLab(Protocol):
    """A cluster on which cells are measured, with the parts of a service that move topologies."""

    clock: Clock
    bridge: Bridge
    tally: Tally
    scheduler: LabScheduler

    @property
    def nimbus(self) -> Nimbus: ...

    @property
    def nodes(self) -> Sequence[LabNode]: ...

    def running(self, cell: Cell, placement: CellPlacement | None) -> AbstractContextManager[Problem]:
        """Run a cell's topologies inside the `with` block, with all workers reporting."""
        ...

    def set_rate(self, rate_tps: float) -> None:
        """Set the rate of spouts in trees/s; 0 for the maximum."""
        ...

    def limit(self, block: Block) -> None:
        """Set the limits of nodes for measuring a block."""
        ...

    def warm_up(self, problem: Problem, seconds: float) -> None:
        """Return when workers are warm."""
        ...

    def records(self, topologies: Sequence[str]) -> list[dict[str, Any]]:
        """Return the records of workers of these topologies (ids) since their submission."""
        ...

    def snapshot(self, names: Sequence[str]) -> Problem | None:
        """Return the newest problem of these topologies alone."""
        ...

    def kill_node(self, name: str) -> None:
        """Let a node die with its supervisor and workers."""
        ...


def prepare(lab: RunningLab, problem: Problem, cell: Cell, rate_tps: float) -> float:
    """Warm the workers up, limit their nodes, and set a rate; return the rate in trees/s.

    Parameters
    ----------
    lab
        Lab with a running cluster.
    problem
        Problem with the running placement.
    cell
        Start to measure, with its node limits, warm-up time and share of the rate.
    rate_tps
        Trees/s; if 0 the first variant measures the block's share of the highest rate.
    """
    lab.warm_up(problem, cell.times.warm_s)
    lab.limit(cell.block)
    if cell.is_first and cell.block.share is not None and not rate_tps:
        rate_tps = cell.block.share * highest_rate(lab, problem, cell.times.probe_s)
    lab.set_rate(rate_tps)
    return rate_tps


def highest_rate(lab: RunningLab, problem: Problem, seconds: float) -> float:
    """Return the trees/s that complete if spouts emit as fast as possible."""
    lab.clock.sleep(SETTLE_S)
    start_ms = lab.clock.time() * 1000
    lab.clock.sleep(seconds)
    end_ms = lab.clock.time() * 1000
    lab.clock.sleep(ARRIVE_S)
    records = lab.records(ids_of(problem))
    return sum(measure(records, topology, start_ms, end_ms).acked_tps for topology in ids_of(problem))


def drained(lab: RunningLab, topology: Topology) -> bool:
    """Pause the spouts, let every tree end, and return whether all did."""
    now = lab.snapshot([topology.name])
    live = [(slot.supervisor, slot.port) for slot in now.current[topology.id].slots] if now and now.current else []
    return not drain([Draining(topology.id, topology.name, live)], lab.nimbus, lab.tally, LAST_DRAIN_S)


def ids_of(problem: Problem) -> list[str]:
    """Return the ids of the problem's topologies."""
    return [topology.id for topology in problem.topologies]
