"""Holds: no moves while many nodes are missing, or another client rebalances topologies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from stormwright.base.documents import read_or_default
from stormwright.controller.safety.holds import MAX_MISSING, Hold, NodePresence
from stormwright.model import Problem, WorkerSlot
from stormwright.model.cluster import Cluster
from stormwright.service.safety.drains import DrainedNodes
from stormwright.service.storage.database import State

# Names of nodes -----------------------------------------------------------------------------------
# Display names of nodes, also of absent ones, which Storm reports by supervisor id alone.

#: Maximum number of remembered absent nodes; the latest stay.
_MAX_GONE = 10_000

_NODE_NAMES = "node-names"


class NodeNames:
    """Remembers the display name of every node; written by the control loop, read by any thread.

    Parameters
    ----------
    state
        Database of the service, which stores the names over restarts.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._cluster: Cluster | None = None
        stored = read_or_default(state.document(_NODE_NAMES), orjson.loads, dict, "nodes that are gone have no names")
        self._names: dict[str, str] = dict(stored)

    def see(self, problem: Problem) -> None:
        """Record the names of the present nodes; cheap if the cluster is unchanged."""
        cluster = problem.cluster
        if cluster is self._cluster:
            return
        self._cluster = cluster
        names = dict(zip(cluster.node_index, cluster.node_names, strict=True))
        gone = [(node, name) for node, name in self._names.items() if node not in names]
        known = dict(gone[-_MAX_GONE:]) | names
        if list(known.items()) != list(self._names.items()):  # in their order, too: of those gone some are forgotten
            self._names = known
            self._state.document(_NODE_NAMES).save(orjson.dumps(known).decode())

    def of(self, node: str) -> str:
        """Return the display name of a node (by supervisor id), also of one that is gone.

        An absent node whose name is used by a new supervisor of the same host is shown as ``id@name``.
        """
        name = self._names.get(node, node)
        there = self._cluster
        other = there is not None and node not in there.node_index and there.find_node(name) is not None
        return f"{node}@{name}" if other else name

    def of_slot(self, slot: WorkerSlot) -> str:
        """Return the display name of a worker slot."""
        return f"{self.of(slot.supervisor)}:{slot.port}"


# Holds --------------------------------------------------------------------------------------------

#: Seconds between saves of the times of presence.
SAVE_S = 60.0

_NAME = "attendance"


class Holds:
    """Decides whether moves are allowed; used on the thread of the control loop, `before_moving` on any.

    Parameters
    ----------
    state
        Persistent state, so that a restarted service knows which nodes are missing.
    drains
        Drained nodes, which may be missing.
    most_missing
        Tolerated part of recently present nodes that are missing, from 0 to 1.
    rebalancing
        Returns the names of topologies that Nimbus is rebalancing.
    """

    def __init__(
        self,
        state: State,
        drains: DrainedNodes,
        most_missing: float = MAX_MISSING,
        rebalancing: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self._state, self._drains, self._rebalancing = state, drains, rebalancing
        self._presence = NodePresence(most_missing)
        #: Display names of all known nodes.
        self.names = NodeNames(state)
        self._saved_s = 0.0
        self._missing: Hold | None = None
        #: The current hold; None if moves are allowed.
        self.last: Hold | None = None
        lost = "nodes that are missing since before now do not count as missing"
        read_or_default(
            state.document(_NAME), lambda text: self._presence.restore(orjson.loads(text)), lambda: None, lost
        )

    def change(self, most_missing: float) -> None:
        """Change the tolerated part of missing nodes."""
        self._presence.most_missing = most_missing

    def look(self, problem: Problem) -> Hold | None:
        """Return a hold if too many nodes are missing; cheap enough to call each second."""
        nodes, now_s = problem.node_index.keys(), self._state.clock.time()
        self._presence.see(nodes, now_s)
        self.names.see(problem)
        if now_s - self._saved_s >= SAVE_S:
            self._saved_s = now_s
            self._state.document(_NAME).save(orjson.dumps(self._presence.last_present_s).decode())
        self.last = self._missing = self._presence.hold(nodes, self._excused(), self.names.of)
        return self.last

    def lost(self, problem: Problem, now_s: float, for_s: float) -> dict[str, float]:
        """Return seconds since a node was last present, of nodes absent for longer than `for_s` and not drained."""
        excused = self._excused()
        away = {node: now_s - at_s for node, at_s in self._presence.last_present_s.items() if node not in excused}
        return {node: s for node, s in away.items() if s > for_s and node not in problem.node_index}

    def _excused(self) -> set[str]:
        """Return the nodes whose absence is no reason for a hold."""
        return {node for drained in self._drains.all() for node in drained.nodes}

    def before_moving(self) -> Hold | None:
        """Return the hold of the last `look`, or one if Nimbus rebalances a topology; raises NimbusError.

        To be called right before a move: no move of ours is in progress then, so another client started the rebalance.
        """
        hold = self._missing
        if hold is None and (names := self._rebalancing()):
            hold = Hold(
                "rebalancing",
                f"another client rebalances {', '.join(sorted(names))}: no moves until it ends",
            )
        self.last = hold
        return hold
