"""Topologies that change places with each other: all in one answer to Nimbus, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stormwright.model import Problem, TopologyAssignment
from stormwright.storm.occupancy import Occupancy


@dataclass(frozen=True)
class Order:
    """Where the controller wants a topology, and why.

    Parameters
    ----------
    together
        Ids of topologies, this one among them, that change places with each other; all are paused and drained. Empty
        for one that moves alone.
    before
        Where it runs, and goes back to if it does not move after all.
    back
        It is not to move any more: it stays, and goes back should Nimbus take its slots all the same.
    """

    assignment: TopologyAssignment
    reason: str
    together: frozenset[str] = frozenset()
    before: TopologyAssignment | None = None
    back: bool = False

    def turned_back(self, why: str) -> Order:
        """To go nowhere, which needs `before`."""
        text = f"stormwright: back where it was: {why}"
        return replace(self, assignment=self.before or self.assignment, reason=text, together=frozenset(), back=True)


def change_places(problem: Problem, orders: Mapping[str, Order]) -> tuple[Problem, dict[str, Order]]:
    """What Nimbus showed, and orders, once those that change places have left their slots.

    It is time for that when one of them has none, which a rebalance has taken. If all slots can be had then, the others
    are taken for having left as well: so no slot is ever given to one while another has it. If not, nobody leaves, and
    the one without goes back to where it was.
    """
    orders = dict(orders)
    for group in {order.together for order in orders.values() if order.together}:
        known = [t for t in group if t in orders and t in problem.topology_index]
        if all(_has_slots(problem, topology) for topology in known):
            continue
        left = problem.with_current({t: runs for t, runs in problem.current.items() if t not in group})
        if len(known) == len(group) and _can_be_had(left, {t: orders[t].assignment for t in known}):
            problem = left
            continue
        for topology in known:
            if orders[topology].before is not None:
                orders[topology] = orders[topology].turned_back("not all that change places with it could")
    return problem, orders


def _has_slots(problem: Problem, topology: str) -> bool:
    own = problem.executors_of(problem.topology_index[topology])
    return bool((problem.current_slot[own] >= 0).all())


def _can_be_had(left: Problem, wanted: Mapping[str, TopologyAssignment]) -> bool:
    """Whether all are granted what they want once they have left their slots, by who grants it then."""
    occupancy = Occupancy(left)
    return all(
        occupancy.grants(left.topologies[left.topology_index[topology]], assignment)
        for topology, assignment in wanted.items()
    )
