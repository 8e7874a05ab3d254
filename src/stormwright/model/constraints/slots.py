"""Slots: executors are placed in slots that exist, all of them, and a slot holds one topology."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model.assignment import UNPLACED
from stormwright.model.constraints.limit import PlacedExecutors, Violation
from stormwright.model.humanize import counted


@dataclass(frozen=True, kw_only=True)
class WithoutSlot(Violation):
    """A topology with executors that have no slot; `amount` of them, of `executors`.

    Parameters
    ----------
    executors
        All that the topology has.
    """

    limit: ClassVar[str] = "every executor placed"
    of: ClassVar[str] = "executors"

    executors: int

    def __str__(self) -> str:
        return f"{self.topology}: {self.amount} of {self.executors} executors have no slot"


class EveryExecutor:
    """Every executor has a slot."""

    def violations(self, placed: PlacedExecutors) -> Iterator[WithoutSlot]:
        """Topologies of which executors have none."""
        problem = placed.problem
        missing = np.bincount(problem.executor_topology[placed.given == UNPLACED], minlength=len(problem.topologies))
        for index in np.flatnonzero(missing).tolist():
            topology = problem.topologies[index]
            yield WithoutSlot(
                topology=topology.id, amount=int(missing[index]), allowed=0, executors=topology.num_executors
            )


@dataclass(frozen=True, kw_only=True)
class NoSuchSlot(Violation):
    """A topology with executors in slots that do not exist; `amount` of them.

    Parameters
    ----------
    slots
        How many there are.
    """

    limit: ClassVar[str] = "ports"
    of: ClassVar[str] = "executors"

    slots: int

    def __str__(self) -> str:
        what = counted(int(self.amount), "executor")
        return f"{self.topology}: {what} in slots that are none of the {counted(self.slots, 'slot')}"


class ExistingPorts:
    """Executors are on ports that supervisors have: slots from 0 to S - 1.

    An answer of one of our schedulers always is; that of another package's may be anything. Other limits look at such
    executors as if they had no slot.
    """

    def violations(self, placed: PlacedExecutors) -> Iterator[NoSuchSlot]:
        """Topologies with executors elsewhere."""
        if placed.slots is placed.given:
            return
        problem = placed.problem
        nowhere = problem.executor_topology[placed.slots != placed.given]
        for index, count in zip(*(each.tolist() for each in np.unique(nowhere, return_counts=True)), strict=True):
            yield NoSuchSlot(topology=problem.topologies[index].id, amount=count, allowed=0, slots=len(problem.slots))


@dataclass(frozen=True, kw_only=True)
class SharedSlot(Violation):
    """A slot with executors of several topologies; `amount` of them.

    Parameters
    ----------
    topologies
        Their ids, in the problem's order.
    """

    limit: ClassVar[str] = "one topology per slot"
    of: ClassVar[str] = "topologies"

    topologies: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place}: shared by {', '.join(self.topologies)}"


class OneTopologyPerSlot:
    """A slot holds executors of one topology.

    A worker is a process of one topology, and a slot holds one worker.
    """

    def violations(self, placed: PlacedExecutors) -> Iterator[SharedSlot]:
        """Slots that hold more."""
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
