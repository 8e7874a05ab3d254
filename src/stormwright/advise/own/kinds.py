"""Kinds of nodes with their prices, and mixes of them from the cheapest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice

from stormwright.model import Problem, Supervisor
from stormwright.model.requests import CPU


@dataclass(frozen=True)
class NodeKind:
    """A kind of node that can be had.

    Parameters
    ----------
    name
        What people call it.
    node
        What one of them is like.
    price
        Of one, per hour, in whatever money; above 0.
    there
        Nodes of this kind that the cluster has: they are taken first.
    most
        How many can be had; None for any number.
    """

    name: str
    node: Supervisor
    price: float
    there: tuple[Supervisor, ...] = ()
    most: int | None = None

    @property
    def cores(self) -> float:
        """CPU cores of one of them."""
        return self.node.resources[CPU] / 100

    @property
    def core_hz(self) -> float:
        """Speed of one of its cores."""
        return self.node.cpu_hz / self.cores

    def nodes(self, count: int) -> Iterator[Supervisor]:
        """So many of them, first those that are there."""
        yield from self.there[:count]
        taken, called = {name for node in self.there for name in (node.id, node.host)}, self.name.replace(" ", "-")
        free = (name for number in range(1, count + len(taken) + 1) if (name := f"{called}-{number}") not in taken)
        for name in islice(free, max(count - len(self.there), 0)):
            yield replace(self.node, id=name, host=name)


@dataclass(frozen=True)
class NodeMix:
    """Some nodes of each kind.

    Parameters
    ----------
    kinds, counts
        How many of each.
    """

    kinds: tuple[NodeKind, ...]
    counts: tuple[int, ...]

    @property
    def price(self) -> float:
        """Of all nodes together, per hour."""
        return sum(kind.price * count for kind, count in zip(self.kinds, self.counts, strict=True))

    @property
    def cpu_hz(self) -> float:
        """CPU of all nodes together."""
        return sum(kind.node.cpu_hz * count for kind, count in zip(self.kinds, self.counts, strict=True))

    @property
    def size(self) -> int:
        """How many nodes these are."""
        return sum(self.counts)

    @property
    def supervisors(self) -> tuple[Supervisor, ...]:
        """The nodes, kind by kind."""
        pairs = zip(self.kinds, self.counts, strict=True)
        return tuple(node for kind, count in pairs for node in kind.nodes(count))

    def kind_of(self, node: int) -> NodeKind:
        """The kind of a node, by its number."""
        for kind, count in zip(self.kinds, self.counts, strict=True):
            if node < count:
                return kind
            node -= count
        raise IndexError(node)

    def __str__(self) -> str:
        parts = [f"{count} × {kind.name}" for kind, count in zip(self.kinds, self.counts, strict=True) if count]
        return " + ".join(parts) or "no node"


def kinds_of(problem: Problem) -> tuple[NodeKind, ...]:
    """The kinds of nodes that a cluster has, the most frequent first; a node's price is its cores.

    Nodes that take nothing new are no kind. Of each kind there can be any number more.
    """
    found: dict[tuple[object, ...], list[Supervisor]] = {}
    for node, usable in zip(problem.supervisors, problem.node_usable.tolist(), strict=True):
        cores = _cores(node, problem.core_hz)
        if usable and cores > 0 and node.ports:
            like = (node.cpu_hz, cores, node.memory_mb, len(node.ports), node.link_bps)
            found.setdefault(like, []).append(node)
    return tuple(
        NodeKind(
            name=f"like {there[0].host}",
            node=replace(there[0], resources={**there[0].resources, CPU: 100 * _cores(there[0], problem.core_hz)}),
            price=_cores(there[0], problem.core_hz),
            there=tuple(there),
        )
        for there in sorted(found.values(), key=lambda nodes: -len(nodes))
    )


def _cores(node: Supervisor, core_hz: float) -> float:
    told = node.resources.get(CPU, 0.0) / 100
    return told if told > 0 else node.cpu_hz / core_hz


def mixes(kinds: Sequence[NodeKind], most_nodes: int, most_mixed: int | None = None) -> Iterator[NodeMix]:
    """All mixes of 1 to `most_nodes` nodes, the cheapest first; then fewer nodes first, then more of the first kinds.

    Parameters
    ----------
    kinds
        That can be had.
    most_nodes
        Nodes of all kinds together.
    most_mixed
        After so many mixes, of which some kinds have more than anybody waits for, only those of one kind; None for all.
    """
    kinds, last = tuple(kinds), 0.0
    for mix in islice(_mixed(kinds, most_nodes), most_mixed):
        last = mix.price
        yield mix
    alone = (
        NodeMix(kinds, (*(0,) * number, count, *(0,) * (len(kinds) - number - 1)))
        for number, kind in enumerate(kinds)
        for count in range(1, min(most_nodes, kind.most or most_nodes) + 1)
    )
    yield from sorted((mix for mix in alone if mix.price > last), key=lambda mix: (mix.price, mix.size))


def _mixed(kinds: tuple[NodeKind, ...], most_nodes: int) -> Iterator[NodeMix]:
    waiting: list[tuple[float, int, tuple[int, ...], tuple[int, ...]]] = [
        (0.0, 0, (0,) * len(kinds), (0,) * len(kinds))
    ]
    while waiting:
        _, size, _, counts = heappop(waiting)
        if size:
            yield NodeMix(kinds, counts)
        if size == most_nodes:
            continue
        # Each mix comes of one other: that with one node less of the last kind that it has.
        last = max((number for number, count in enumerate(counts) if count), default=0)
        for number in range(last, len(kinds)):
            if kinds[number].most is None or counts[number] < (kinds[number].most or 0):
                more = (*counts[:number], counts[number] + 1, *counts[number + 1 :])
                price = NodeMix(kinds, more).price
                heappush(waiting, (price, size + 1, tuple(-count for count in more), more))
