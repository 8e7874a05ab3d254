"""Constraints: slots exist, hold one topology each, and workers have the right number and size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stormwright.model.assignment import UNPLACED
from stormwright.model.constraints.constraint import PlacedExecutors, Violation
from stormwright.model.humanize import counted
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER

if TYPE_CHECKING:
    from stormwright.model.topology import Topology


@dataclass(frozen=True, kw_only=True)
class WorkerCount(Violation):
    """A topology with another number of workers (`amount`) than it should have (`allowed`)."""

    limit: ClassVar[str] = "number of workers"
    counted_items: ClassVar[str] = "workers"

    @property
    def workers(self) -> int:
        """Actual number of workers."""
        return int(self.amount)

    @property
    def wanted(self) -> int:
        """Wanted number of workers."""
        return int(self.allowed)

    def __str__(self) -> str:
        return f"{self.topology}: {counted(self.workers, 'worker')}, wanted {self.wanted}"


class NumberOfWorkers:
    """A topology has exactly min(W, E) workers. Storm's schedulers deviate from it by design."""

    def allowed(self, topology: Topology) -> int:
        """Return the number of workers that a topology should have."""
        return min(topology.num_workers, topology.num_executors)

    def violations(self, placed: PlacedExecutors) -> Iterator[WorkerCount]:
        """Yield topologies with another number."""
        topologies = placed.problem.topologies
        used = np.bincount(placed.workers.topology, minlength=len(topologies)).tolist()
        for topology, count in zip(topologies, used, strict=True):
            if count != self.allowed(topology):
                yield WorkerCount(topology=topology.id, amount=count, allowed=self.allowed(topology))


@dataclass(frozen=True, kw_only=True)
class CrowdedWorker(Violation):
    """A worker with more executors (`amount`) than `MAX_EXECUTORS_PER_WORKER` of its topology (`allowed`)."""

    limit: ClassVar[str] = "executors per worker"
    counted_items: ClassVar[str] = "executors"

    def __str__(self) -> str:
        return f"{self.topology}: {self.amount} executors in {self.place}, limit {self.allowed}"


class ExecutorsPerWorker:
    """A worker has at most `MAX_EXECUTORS_PER_WORKER` executors, if its topology's configuration sets it."""

    def allowed(self, topology: Topology) -> int | None:
        """Return the maximum executors in a worker of a topology; None for any number."""
        return topology.conf.get(MAX_EXECUTORS_PER_WORKER) or None

    def violations(self, placed: PlacedExecutors) -> Iterator[CrowdedWorker]:
        """Yield workers with more."""
        problem, workers = placed.problem, placed.workers
        most = np.array([self.allowed(topology) or np.inf for topology in problem.topologies])
        for worker in np.flatnonzero(workers.executors > most[workers.topology]).tolist():
            topology, slot = problem.topologies[workers.topology[worker]], problem.slots[workers.slot[worker]]
            node = problem.slot_node[workers.slot[worker]]
            yield CrowdedWorker(
                topology=topology.id,
                node=problem.cluster.node_names[node],
                supervisor=slot.supervisor,
                slot=slot,
                amount=int(workers.executors[worker]),
                allowed=topology.conf[MAX_EXECUTORS_PER_WORKER],
            )


@dataclass(frozen=True, kw_only=True)
class MissingSlot(Violation):
    """A topology with `amount` executors without a slot.

    Parameters
    ----------
    executors
        Number of all its executors.
    """

    limit: ClassVar[str] = "every executor placed"
    counted_items: ClassVar[str] = "executors"

    executors: int

    def __str__(self) -> str:
        return f"{self.topology}: {self.amount} of {self.executors} executors have no slot"


class AllExecutorsPlaced:
    """Every executor has a slot."""

    def violations(self, placed: PlacedExecutors) -> Iterator[MissingSlot]:
        """Yield topologies with executors without a slot."""
        problem = placed.problem
        missing = np.bincount(problem.executor_topology[placed.given == UNPLACED], minlength=len(problem.topologies))
        for index in np.flatnonzero(missing).tolist():
            topology = problem.topologies[index]
            yield MissingSlot(
                topology=topology.id, amount=int(missing[index]), allowed=0, executors=topology.num_executors
            )


@dataclass(frozen=True, kw_only=True)
class NoSuchSlot(Violation):
    """A topology with `amount` executors in slots that do not exist.

    Parameters
    ----------
    slots
        Number of existing slots.
    """

    limit: ClassVar[str] = "ports"
    counted_items: ClassVar[str] = "executors"

    slots: int

    def __str__(self) -> str:
        what = counted(int(self.amount), "executor")
        return f"{self.topology}: {what} in slots that are none of the {counted(self.slots, 'slot')}"


class ExistingPorts:
    """Executors are in slots 0 to S - 1.

    Answers of our schedulers always are; those of other packages may not be. Other constraints treat executors
    elsewhere as unplaced.
    """

    def violations(self, placed: PlacedExecutors) -> Iterator[NoSuchSlot]:
        """Yield topologies with executors elsewhere."""
        if placed.slots is placed.given:
            return
        problem = placed.problem
        nowhere = problem.executor_topology[placed.slots != placed.given]
        for index, count in zip(*(each.tolist() for each in np.unique(nowhere, return_counts=True)), strict=True):
            yield NoSuchSlot(topology=problem.topologies[index].id, amount=count, allowed=0, slots=len(problem.slots))


@dataclass(frozen=True, kw_only=True)
class SharedSlot(Violation):
    """A slot with executors of `amount` topologies.

    Parameters
    ----------
    topologies
        Their ids, in the problem's order.
    """

    limit: ClassVar[str] = "one topology per slot"
    counted_items: ClassVar[str] = "topologies"

    topologies: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place}: shared by {', '.join(self.topologies)}"


class OneTopologyPerSlot:
    """A slot holds executors of one topology.

    A worker is a process of one topology, and a slot holds one worker.
    """

    def violations(self, placed: PlacedExecutors) -> Iterator[SharedSlot]:
        """Yield slots with several topologies."""
        problem, workers = placed.problem, placed.workers
        slots, counts = np.unique(workers.slot, return_counts=True)
        for slot in slots[counts > 1].tolist():
            sharing = tuple(problem.topologies[t].id for t in workers.topology[workers.slot == slot].tolist())
            there = problem.slots[slot]
            yield SharedSlot(
                node=problem.cluster.node_names[problem.slot_node[slot]],
                supervisor=there.supervisor,
                slot=there,
                amount=len(sharing),
                allowed=1,
                topologies=sharing,
            )
