"""What nodes are called, also those that are gone: Storm tells of these by the ids of supervisors alone."""

from __future__ import annotations

import orjson

from stormwright.model import Problem, WorkerSlot
from stormwright.model.cluster import Cluster
from stormwright.service.operating.state import State

#: Nodes that are gone are remembered up to this number, those seen last.
_MOST_GONE = 10_000

_NAME = "node-names"


class NodeNames:
    """Remembers the name of every node that was there; used on the loop's thread, read on any.

    Parameters
    ----------
    state
        Keeps them over restarts.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: Cluster | None = None
        self._names: dict[str, str] = orjson.loads(state.kept(_NAME) or "{}")

    def see(self, problem: Problem) -> None:
        """Take the names of the nodes that are there; next to nothing where they are those of before."""
        cluster = problem.cluster
        if cluster is self._seen:
            return
        self._seen = cluster
        names = dict(zip(cluster.node_index, cluster.node_names, strict=True))
        gone = [(node, name) for node, name in self._names.items() if node not in names]
        known = dict(gone[-_MOST_GONE:]) | names
        if list(known.items()) != list(self._names.items()):  # in their order, too: of those gone some are forgotten
            self._names = known
            self._state.keep(_NAME, orjson.dumps(known).decode())

    def of(self, node: str) -> str:
        """What a node (id of its supervisor) is called, or was; the id where it was never seen.

        One that is gone has its id beside its name where another has that now: its host has come back as a new node.
        """
        name = self._names.get(node, node)
        there = self._seen
        other = there is not None and node not in there.node_index and there.find_node(name) is not None
        return f"{node}@{name}" if other else name

    def of_slot(self, slot: WorkerSlot) -> str:
        """What a worker slot is called."""
        return f"{self.of(slot.supervisor)}:{slot.port}"
