"""Workers: how many a topology has, and how many executors one holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stormwright.model.constraints.limit import PlacedExecutors, Violation
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from stormwright.model.topology import Topology

#: A topology's own hard limit on executors per worker, in its configuration.
MAX_EXECUTORS_PER_WORKER = "stormwright.max.executors.per.worker"


@dataclass(frozen=True, kw_only=True)
class WorkerCount(Violation):
    """A topology that has another number of workers than it wants.

    `amount` is the workers that it has, `allowed` those that it wants: neither more nor fewer are right.
    """

    limit: ClassVar[str] = "number of workers"
    of: ClassVar[str] = "workers"

    @property
    def workers(self) -> int:
        """How many it has."""
        return int(self.amount)

    @property
    def wanted(self) -> int:
        """How many it wants."""
        return int(self.allowed)

    def __str__(self) -> str:
        return f"{self.topology}: {counted(self.workers, 'worker')}, wanted {self.wanted}"


class NumberOfWorkers:
    """A topology has exactly min(W, E) workers. Schedulers of Storm give it fewer or more by design."""

    def allowed(self, topology: Topology) -> int:
        """How many workers a topology has."""
        return min(topology.num_workers, topology.num_executors)

    def violations(self, placed: PlacedExecutors) -> Iterator[WorkerCount]:
        """Topologies that have another number."""
        topologies = placed.problem.topologies
        used = np.bincount(placed.workers.topology, minlength=len(topologies)).tolist()
        for topology, count in zip(topologies, used, strict=True):
            if count != self.allowed(topology):
                yield WorkerCount(topology=topology.id, amount=count, allowed=self.allowed(topology))


@dataclass(frozen=True, kw_only=True)
class CrowdedWorker(Violation):
    """A worker with more executors than its topology allows.

    `amount` is its executors, `allowed` the topology's `MAX_EXECUTORS_PER_WORKER`.
    """

    limit: ClassVar[str] = "executors per worker"
    of: ClassVar[str] = "executors"

    def __str__(self) -> str:
        return f"{self.topology}: {self.amount} executors in {self.place}, limit {self.allowed}"


class ExecutorsPerWorker:
    """A worker holds at most `MAX_EXECUTORS_PER_WORKER` executors, where its topology's configuration says so."""

    def allowed(self, topology: Topology) -> int | None:
        """The most executors in a worker of a topology; None for any number."""
        return topology.conf.get(MAX_EXECUTORS_PER_WORKER) or None

    def violations(self, placed: PlacedExecutors) -> Iterator[CrowdedWorker]:
        """Workers that hold more."""
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
