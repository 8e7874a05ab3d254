"""An explanation: for identical executors, every node with its obstacles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.model.humanize import amount, amount_range

#: Text for nodes without an obstacle: for a placed executor, and for an unplaced one. Each such executor may fit on its
#: own, but not its topology as a whole.
FREE, FREE_FOR_ONE = "could take it", "could take each one alone"

#: Number of cheapest nodes in a report.
BEST = 5


@dataclass(frozen=True)
class Obstacle:
    """A reason that rules a node out for an executor.

    Parameters
    ----------
    kind
        ``drained``, ``blacklisted``, ``greylisted``, ``tag``, ``isolation``, ``crowded``, ``users``,
        ``heap of a worker``, ``executors per worker``, ``incompatible``, ``slots``, ``workers``, ``memory``, ``CPU``,
        ``requested memory``, ``requested CPU``, or the name of a generic resource.
    text
        Description; for resources without the amount, which is `short_by` in `unit`.
    """

    kind: str
    text: str
    short_by: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        return self.text if self.short_by is None else f"{self.text} short by {amount(self.short_by, self.unit)}"


@dataclass(frozen=True)
class RuledOutNodes:
    """The nodes that have one obstacle.

    Parameters
    ----------
    kind, text, unit
        Kind and description of the obstacle, and unit of its amount, as in `Obstacle`.
    nodes
        Nodes that it rules out, shape (N,).
    short_by
        Missing amount of each, shape (N,), if the obstacle has an amount.
    """

    kind: str
    text: str
    nodes: BoolArray
    short_by: FloatArray | None = None
    unit: str = ""

    def at(self, node: int) -> Obstacle:
        """Return the obstacle at one of the nodes."""
        short_by = None if self.short_by is None else float(self.short_by[node])
        return Obstacle(self.kind, self.text, short_by, self.unit)


@dataclass(frozen=True)
class NodeCount:
    """Number of nodes with one obstacle as their first, and the least and the most missing amount."""

    kind: str
    text: str
    nodes: int
    short_by: tuple[float, float] | None
    unit: str

    def __str__(self) -> str:
        if self.short_by is None:
            return self.text
        return f"{self.text} short by {amount_range(*self.short_by, self.unit)}"


def count_first(ruled_out: Sequence[RuledOutNodes], among: BoolArray) -> tuple[NodeCount, ...]:
    """Count each node of `among`, shape (N,), under its first obstacle; most nodes first, ties by the first node."""
    left = among.copy()
    found = []
    for one in ruled_out:
        nodes = np.flatnonzero(one.nodes & left)
        if len(nodes):
            amounts = None if one.short_by is None else one.short_by[nodes]
            span = None if amounts is None else (float(amounts.min()), float(amounts.max()))
            found.append((-len(nodes), int(nodes[0]), NodeCount(one.kind, one.text, len(nodes), span, one.unit)))
            left[nodes] = False
    return tuple(count for *_, count in sorted(found, key=lambda entry: entry[:2]))


def histogram(counts: Sequence[NodeCount], total: int, of_free: str) -> str:
    """Return ``2 of 3 nodes: memory short by 512 MB; 1 of 3: tag "etl" missing``; empty if there are no nodes."""
    parts = [(count.nodes, str(count)) for count in counts]
    free = total - sum(nodes for nodes, _ in parts)
    if free:
        parts.append((free, of_free))
    return "; ".join(
        f"{nodes} of {total}{' nodes' if not position else ''}: {text}" for position, (nodes, text) in enumerate(parts)
    )


def status_text(scheduler: str, reasons: Sequence[str], component: str, counts: Sequence[NodeCount], total: int) -> str:
    """Return the reasons for an executor without a slot in one line: the scheduler's own, then counted nodes.

    Parameters
    ----------
    scheduler
        Name of the scheduler; may be empty.
    reasons
        Reasons given by the scheduler itself.
    component
        Component of the executor.
    counts
        Nodes by their first obstacle (`count_first`).
    total
        Number of nodes; those that nothing rules out are the rest.
    """
    nodes = f"{component}: {histogram(counts, total, FREE_FOR_ONE) or 'there are 0 nodes'}"
    return f"{scheduler or 'scheduler'}: {'; '.join([*reasons, nodes])}"


@dataclass(frozen=True)
class NodeVerdict:
    """Obstacles between an executor and a node, and, for a placed executor, the cost of the move.

    Parameters
    ----------
    node, supervisor, host
        Its name, the id of its supervisor, and its host.
    obstacles
        Why it cannot take the executor; empty if it can. The first is the one that counts in a histogram.
    cost_change
        Increase of the cost in weighted tuples/s; None for an executor without a slot, and for the node it is on.
    joins
        Port of the worker of its topology that the executor would join there; None for a new worker.
    workers
        Workers that its topology would have after the move.
    """

    node: str
    supervisor: str
    host: str
    obstacles: tuple[Obstacle, ...]
    cost_change: float | None = None
    joins: int | None = None
    workers: int | None = None

    @property
    def worker(self) -> str | None:
        """Name of the worker that it would join."""
        return None if self.joins is None else f"{self.node}:{self.joins}"

    def as_dict(self) -> dict[str, Any]:
        """Return the same for programs."""
        return {
            "node": self.node,
            "supervisor": self.supervisor,
            "host": self.host,
            "ruled_out_by": [
                {"kind": o.kind, "text": str(o), "short_by": o.short_by, "unit": o.unit or None} for o in self.obstacles
            ],
            "cost_change": self.cost_change,
            "joins": self.worker,
            "workers": self.workers,
        }


@dataclass(frozen=True)
class ComponentExplanation:
    """Explanation of identical executors of one component.

    Parameters
    ----------
    executors
        Numbered within the topology.
    slot
        Name of the worker slot where it runs; None if unplaced.
    nodes
        Other nodes, in the problem's order.
    counts
        The nodes, each under its first obstacle.
    scheduler_reasons
        Reasons of the scheduler itself for the executor, or else for the topology.
    reasons, status
        Its reasons for the executor, and its status of the topology.
    workers_wanted
        min(W, E) of its topology.
    shortages
        Total lack of the executors of its topology without a slot, even if each alone would fit on a node.
    """

    scheduler: str
    topology: str
    component: str
    executors: tuple[int, ...]
    slot: str | None
    nodes: tuple[NodeVerdict, ...]
    counts: tuple[NodeCount, ...]
    scheduler_reasons: tuple[str, ...]
    reasons: tuple[str, ...]
    status: str
    workers_wanted: int
    shortages: tuple[str, ...] = ()

    @property
    def open_nodes(self) -> list[NodeVerdict]:
        """The nodes that could take it, cheapest first, ties in the problem's order."""
        return sorted((node for node in self.nodes if not node.obstacles), key=lambda node: node.cost_change or 0.0)

    @property
    def histogram(self) -> str:
        """One line: the numbers of nodes by obstacle, and without any."""
        return histogram(self.counts, len(self.nodes), FREE if self.slot else FREE_FOR_ONE)

    @property
    def status_text(self) -> str:
        """The reasons for an executor without a slot in one line, as in Storm's UI."""
        return status_text(self.scheduler, self.scheduler_reasons, self.component, self.counts, len(self.nodes))

    @property
    def relevant_facts(self) -> tuple[object, ...]:
        """Key of equal explanations: all but the executor numbers, without rounding errors."""
        costs = tuple(None if node.cost_change is None else round(node.cost_change, 6) for node in self.nodes)
        alike = (replace(node, cost_change=None) for node in self.nodes)
        return self.component, self.slot, self.reasons, self.counts, costs, *alike

    def as_dict(self) -> dict[str, Any]:
        """Return the same for programs."""
        return {
            "topology": self.topology,
            "component": self.component,
            "executors": list(self.executors),
            "slot": self.slot,
            "reasons": list(self.reasons),
            "status": self.status,
            "workers_wanted": self.workers_wanted,
            "shortages": list(self.shortages),
            "histogram": self.histogram,
            "status_text": None if self.slot else self.status_text,
            "ruled_out": [
                {
                    "kind": count.kind,
                    "nodes": count.nodes,
                    "text": str(count),
                    "short_by": count.short_by,
                    "unit": count.unit or None,
                }
                for count in self.counts
            ],
            "best": [node.as_dict() for node in self.open_nodes[:BEST]] if self.slot else [],
            "nodes": [node.as_dict() for node in self.nodes],
        }
