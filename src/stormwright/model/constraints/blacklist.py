"""Constraint: blacklisted hosts accept no new executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray
from stormwright.model.constraints.constraint import PlacedExecutors, Violation
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from stormwright.model.problem import Problem

#: Kinds of nodes that take nothing new.
DRAINED, BLACKLISTED, GREYLISTED = "drained", "blacklisted", "greylisted"

#: Maximum number of drains described one by one: by whom and since when.
_MAX_DRAINS = 5


class ClosedNodes(NamedTuple):
    """Nodes, shape (N,), that accept no new executors for one reason: its kind, and a sentence."""

    kind: str
    text: str
    nodes: BoolArray


def closed_nodes(problem: Problem) -> list[ClosedNodes]:
    """Return all nodes that accept no new executors, by reason, the most frequent reason first."""
    if problem.node_usable.all():
        return []
    listed = problem.cluster.node_blacklisted
    texts = np.array([problem.drained.get(node.host, "") for node in problem.supervisors], dtype=object)
    texts[~listed] = ""
    counts = Counter(text for text in texts.tolist() if text)
    reasons = [text for text, _ in counts.most_common(_MAX_DRAINS)]
    found = [ClosedNodes(DRAINED, text, texts == text) for text in reasons]
    found.append(ClosedNodes(DRAINED, DRAINED, (texts != "") & ~np.isin(texts, reasons)))
    found.append(ClosedNodes(BLACKLISTED, BLACKLISTED, listed & (texts == "")))
    found.append(ClosedNodes(GREYLISTED, GREYLISTED, ~listed & ~problem.node_usable))
    return [each for each in found if each.nodes.any()]


@dataclass(frozen=True, kw_only=True)
class BlacklistedHostUse(Violation):
    """New executors (`amount`) of a topology on a node of a blacklisted host, where none are allowed.

    Parameters
    ----------
    why
        ``blacklisted``, or who drained the host and when.
    """

    limit: ClassVar[str] = "blacklisted hosts"
    counted_items: ClassVar[str] = "executors"

    why: str = BLACKLISTED

    def __str__(self) -> str:
        return f"{self.topology}: {counted(int(self.amount), 'executor')} new on {self.node}, whose host is {self.why}"


class BlacklistedHosts:
    """Blacklisted hosts get no new executors; those already there may stay in their slots.

    Nimbus offers no slots of such a host: an answer that uses one cannot be carried out. Greylisted supervisors, which
    our schedulers avoid too, are no violation.
    """

    def violations(self, placed: PlacedExecutors) -> Iterator[BlacklistedHostUse]:
        """Yield topologies that newly use such hosts, node by node."""
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
            yield BlacklistedHostUse(
                topology=problem.topologies[topology].id,
                node=problem.cluster.node_names[where],
                supervisor=problem.supervisors[where].id,
                amount=count,
                allowed=0,
                why=problem.drained.get(problem.supervisors[where].host, BLACKLISTED),
            )
