"""Conversion of advice to ``storm rebalance`` commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from stormwright.advise.search.advice import Advice


@dataclass(frozen=True)
class RebalanceOrder:
    """Changes of one topology by a rebalance.

    Parameters
    ----------
    topology, name
        Id and name of the topology.
    executors
        Component → executors, for components whose number changes.
    workers
        Number of workers; None for no change.
    """

    topology: str
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
            orders.append(RebalanceOrder(topology.topology, topology.name, executors, workers))
    return tuple(orders)
