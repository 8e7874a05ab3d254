"""Conversion of advice to ``storm rebalance`` commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stormwright.advise.search.advice import Advice
from stormwright.errors import Fault
from stormwright.model import Problem


class _Nimbus(Protocol):
    """Required interface of Nimbus."""

    def cluster(self) -> dict[str, Any]:
        """Return its topologies."""
        ...

    def rebalance(
        self, name: str, wait_s: int, num_workers: int | None = None, executors: Mapping[str, int] | None = None
    ) -> None:
        """See `stormwright.storm.gateway.NimbusGateway`; it takes `name`, `wait_s`, `num_workers` and `executors`."""
        ...


@dataclass(frozen=True)
class RebalanceOrder:
    """Changes of one topology by a rebalance.

    Parameters
    ----------
    name
        Name of the topology.
    executors
        Component → executors, for components whose number changes.
    workers
        Number of workers; None for no change.
    """

    name: str
    executors: Mapping[str, int]
    workers: int | None

    @property
    def command(self) -> str:
        """Return the command line for an operator."""
        parts = ["storm", "rebalance", self.name]
        if self.workers is not None:
            parts += ["-n", str(self.workers)]
        for component, count in self.executors.items():
            parts += ["-e", f"{component}={count}"]
        return shlex.join(parts)


def orders_of(advice: Advice) -> tuple[RebalanceOrder, ...]:
    """Return the rebalances that apply advice; none for unchanged topologies."""
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
    """Rebalance a topology by Nimbus; the cluster's scheduler then places its executors.

    Parameters
    ----------
    order
        One of the orders from `orders_of`.
    nimbus
        Gateway to the Nimbus of the topology's cluster.
    wait_s
        Seconds for a topology to finish pending trees before it is rescheduled.

    Raises
    ------
    NimbusError
        Nimbus refused the rebalance, or could not be reached.
    """
    nimbus.rebalance(order.name, wait_s, order.workers, order.executors or None)


def outdated_orders(problem: Problem, orders: Sequence[RebalanceOrder], nimbus: _Nimbus) -> list[Fault]:
    """Return why orders no longer apply: a topology is gone, or has other executors than before.

    Parameters
    ----------
    problem
        Problem of the advice.
    orders
        Orders from `orders_of`.
    nimbus
        Gateway to the Nimbus that runs the topologies.
    """
    running = {one["name"]: one for one in nimbus.cluster()["topologies"]}
    known = {one.name: one for one in problem.topologies}
    faults = []
    for order in orders:
        found, measured = running.get(order.name), known[order.name]
        if found is None or found["id"] != measured.id:
            faults.append(
                Fault("runs with other executors than when it was measured; fetch the problem again", measured.id)
            )
        elif found["num_executors"] != measured.num_executors:
            message = (
                f"has {found['num_executors']} executors now, and had {measured.num_executors}; fetch the problem again"
            )
            faults.append(Fault(message, measured.id))
    return faults
