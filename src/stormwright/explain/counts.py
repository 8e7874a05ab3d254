"""What rules nodes out, counted, and the one line that tells it, in Storm's UI too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.model.humanize import amount, amount_range


@dataclass(frozen=True)
class Obstacle:
    """One thing that rules a node out for an executor.

    Parameters
    ----------
    kind
        ``drained``, ``blacklisted``, ``greylisted``, ``tag``, ``crowded``, ``executors per worker``, ``incompatible``,
        ``slots``, ``workers``, ``memory``, ``CPU``, or the name of a generic resource.
    text
        What is missing; for resources without the amount, which is `short_by` in `unit`.
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
        As of an `Obstacle`.
    nodes
        Which, shape (N,).
    short_by
        What each is short by, shape (N,), where the obstacle has an amount.
    """

    kind: str
    text: str
    nodes: BoolArray
    short_by: FloatArray | None = None
    unit: str = ""

    def at(self, node: int) -> Obstacle:
        """The obstacle at one of the nodes."""
        short_by = None if self.short_by is None else float(self.short_by[node])
        return Obstacle(self.kind, self.text, short_by, self.unit)


@dataclass(frozen=True)
class NodeCount:
    """How many nodes have one obstacle as their first, and the least and the most that they are short by."""

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
    """Each node of `among`, shape (N,), under its first obstacle; most nodes first, ties by the first of the nodes."""
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


#: What is said of nodes that nothing rules out: for an executor that runs, and for one that was left out. There may
#: be room for each such executor on its own, and none for its topology as a whole.
FREE, FREE_FOR_ONE = "could take it", "could take each one alone"


def histogram(counts: Sequence[NodeCount], total: int, of_free: str) -> str:
    """``2 of 3 nodes: memory short by 512 MB; 1 of 3: tag "etl" missing``; empty if there are no nodes."""
    parts = [(count.nodes, str(count)) for count in counts]
    free = total - sum(nodes for nodes, _ in parts)
    if free:
        parts.append((free, of_free))
    return "; ".join(
        f"{nodes} of {total}{' nodes' if not position else ''}: {text}" for position, (nodes, text) in enumerate(parts)
    )


def status_text(scheduler: str, said: Sequence[str], component: str, counts: Sequence[NodeCount], total: int) -> str:
    """The reasons for an executor without a slot in one line: the scheduler's own, then how many nodes lack what.

    Parameters
    ----------
    scheduler
        Its name; may be empty.
    said
        What the scheduler itself gave as reasons.
    component
        Of the executor.
    counts
        Nodes by what rules them out first (`count_first`).
    total
        How many nodes there are; those that nothing rules out are the rest.
    """
    nodes = f"{component}: {histogram(counts, total, FREE_FOR_ONE) or 'there are 0 nodes'}"
    return f"{scheduler or 'scheduler'}: {'; '.join([*said, nodes])}"
