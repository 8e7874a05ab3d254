"""Blacklisted hosts take nothing new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model.limits.limit import Placed, Violation
from stormwright.model.texts import counted


@dataclass(frozen=True, kw_only=True)
class OnBlacklisted(Violation):
    """A node on a blacklisted host to which executors of a topology come; `amount` of them.

    None are allowed. Those that ran in the same slot before do not count.
    """

    limit: ClassVar[str] = "blacklisted hosts"
    of: ClassVar[str] = "executors"

    def __str__(self) -> str:
        return f"{self.topology}: {counted(int(self.amount), 'executor')} new on {self.node}, whose host is blacklisted"


class BlacklistedHosts:
    """No executor comes to a host that is blacklisted. What runs there already, in its slot, may stay.

    Nimbus offers no slots of such a host, so an answer that uses one cannot be carried out: the executors would be left
    to EvenScheduler. An executor that goes to another slot of the host is new there. Greylisted supervisors, which our
    schedulers do not use either, are no such limit.
    """

    def violations(self, placed: Placed) -> Iterator[OnBlacklisted]:
        """Topologies that newly use such hosts, node by node."""
        problem = placed.problem
        if not problem.cluster.node_blacklisted.any():
            return
        arriving = np.flatnonzero(placed.placed & (placed.slots != problem.current_slot))
        node = problem.slot_node[placed.slots[arriving]]
        bad = problem.cluster.node_blacklisted[node]
        pairs, counts = np.unique(
            np.stack([problem.executor_topology[arriving[bad]], node[bad]]), axis=1, return_counts=True
        )
        for (topology, where), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            yield OnBlacklisted(
                topology=problem.topologies[topology].id,
                node=problem.supervisors[where].id,
                amount=count,
                allowed=0,
            )
