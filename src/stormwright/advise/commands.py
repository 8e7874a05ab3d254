"""Advice as orders for Storm: what ``storm rebalance`` is told."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stormwright.advise.search.advice import Advice
from stormwright.errors import Fault
from stormwright.model import Problem


class _Nimbus(Protocol):
    """What is asked of Nimbus."""

    def cluster(self) -> dict[str, Any]:
        """Its topologies."""
        ...

    def rebalance(
        self, name: str, wait_s: int, num_workers: int | None = None, executors: Mapping[str, int] | None = None
    ) -> None:
        """See `stormwright.storm.gateway.NimbusGateway`; it takes `name`, `wait_s`, `num_workers` and `executors`."""
        ...


@dataclass(frozen=True)
class RebalanceOrder:
    """What one topology's rebalance is to change.

    Parameters
    ----------
    name
        Of the topology.
    executors
        Component → executors, of those that get another number.
    workers
        How many; None where that stays.
    """

    name: str
    executors: Mapping[str, int]
    workers: int | None

    @property
    def command(self) -> str:
        """The line that an operator would type."""
        parts = ["storm", "rebalance", self.name]
        if self.workers is not None:
            parts += ["-n", str(self.workers)]
        for component, count in self.executors.items():
            parts += ["-e", f"{component}={count}"]
        return shlex.join(parts)


def orders_of(advice: Advice) -> tuple[RebalanceOrder, ...]:
    """The rebalances that carry advice out; none for a topology of which nothing changes."""
    orders = []
    for topology in advice.topologies:
        executors = {
            each.component: each.executors
            for each in advice.components
            if each.topology == topology.name and each.executors != each.executors_now
        }
        workers = topology.workers if topology.workers != topology.workers_now else None
        if executors or workers is not None:
            orders.append(RebalanceOrder(topology.name, executors, workers))
    return tuple(orders)


def carry_out(order: RebalanceOrder, nimbus: _Nimbus, wait_s: int) -> None:
    """Have Nimbus rebalance a topology; where its executors then run is for the cluster's scheduler to say.

    Parameters
    ----------
    order
        As `orders_of` gives it.
    nimbus
        Who is asked.
    wait_s
        Seconds for which Storm lets a topology finish what is under way before it is scheduled anew.

    Raises
    ------
    NimbusError
        It refused.
    """
    nimbus.rebalance(order.name, wait_s, order.workers, order.executors or None)


def not_as_told(problem: Problem, orders: Sequence[RebalanceOrder], nimbus: _Nimbus) -> list[Fault]:
    """What is wrong with carrying out orders now: a topology is gone, or has other executors than advice was made for.

    Parameters
    ----------
    problem
        What advice was made from.
    orders
        As `orders_of` gives them.
    nimbus
        Who knows what runs.
    """
    running = {one["name"]: one for one in nimbus.cluster()["topologies"]}
    known = {one.name: one for one in problem.topologies}
    faults = []
    for order in orders:
        found, told = running.get(order.name), known[order.name]
        if found is None or found["id"] != told.id:
            faults.append(
                Fault("does not run any more as it did when it was measured; fetch the problem again", told.id)
            )
        elif found["num_executors"] != told.num_executors:
            message = (
                f"has {found['num_executors']} executors now, and had {told.num_executors}; fetch the problem again"
            )
            faults.append(Fault(message, told.id))
    return faults
