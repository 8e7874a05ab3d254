"""Kinds of nodes with prices, and mixes of them in order of price."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice
from pathlib import Path

from stormwright.errors import Fault, InputError
from stormwright.formats import read_json
from stormwright.model import Problem, Supervisor
from stormwright.model.link_speed import link_bits_per_s
from stormwright.model.requests import CPU

_NAME = re.compile(r"[\w.+-]{1,64}")

#: Default number of slots of a node, and the first of their ports.
_SLOTS, _FIRST_PORT = 4, 6700

#: Fields of a kind: the least and the most that each may be, and whether it has to be there.
_FIELDS: Mapping[str, tuple[float, float, bool]] = {
    "core_mhz": (1, 1e6, True),
    "cores": (0.01, 1e4, True),
    "memory_mb": (1, 1e9, True),
    "price": (1e-9, 1e9, True),
    "slots": (1, 1000, False),
    "most": (1, 1000, False),
}
_WHOLE = ("slots", "most")


def parse_kind(text: str, faults: list[Fault]) -> NodeKind | None:
    """Parse a kind written as ``NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE``; errors are added to `faults`."""
    name, _, rest = text.partition("=")
    parts = rest.split(":")
    if not _NAME.fullmatch(name) or len(parts) != 4:
        message = f"should be NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE, as in large=3000:8:32768:0.40; got {text}"
        faults.append(Fault(message, "--node-kind"))
        return None
    values: dict[str, object] = {}
    for field, part in zip(_FIELDS, parts, strict=False):
        try:
            values[field] = float(part)
        except ValueError:
            values[field] = part
    return _kind(name, values, f"--node-kind {name}", faults)


def read_kinds(path: Path) -> tuple[NodeKind, ...]:
    """Read kinds from a file: TOML if its name ends with ``.toml``, else JSON.

    By name each has ``core_mhz``, ``cores``, ``memory_mb`` and ``price``, and may have ``slots`` (4), ``link`` (as in
    1gbit) and ``most``, how many can be had.

    Raises
    ------
    InputError
        The file cannot be read or has something else in it; all its faults.
    """
    document = _toml(path) if path.suffix == ".toml" else read_json(path)
    if not isinstance(document, Mapping) or not document:
        message = "should hold kinds of nodes by name, each with core_mhz, cores, memory_mb and price"
        raise InputError(str(path), [Fault(message, "$")])
    faults: list[Fault] = []
    found = []
    for name, values in document.items():
        if not _NAME.fullmatch(name) or not isinstance(values, Mapping):
            message = "should be a kind of nodes: core_mhz, cores, memory_mb, price, and maybe slots, link, most"
            faults.append(Fault(message, f"$.{name}"))
        elif kind := _kind(name, values, f"$.{name}", faults):
            found.append(kind)
    if faults:
        raise InputError(str(path), faults)
    return tuple(found)


def _toml(path: Path) -> object:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), [Fault(f"is not valid TOML: {error}", "$")]) from error


def _kind(name: str, values: Mapping[str, object], at: str, faults: list[Fault]) -> NodeKind | None:
    before = len(faults)
    known = {**_FIELDS, "link": None}
    faults += [Fault(f"unknown key; known: {', '.join(known)}", f"{at}.{key}") for key in values if key not in known]
    numbers: dict[str, float] = {}
    for field, (least, most, needed) in _FIELDS.items():
        value = values.get(field)
        if value is None:
            faults += [Fault("is missing", f"{at}.{field}")] if needed else []
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            faults.append(Fault(f"should be a number from {least:g} to {most:g}, got {value}", f"{at}.{field}"))
        elif field in _WHOLE and value != int(value):
            faults.append(Fault(f"should be a whole number, got {value:g}", f"{at}.{field}"))
        else:
            numbers[field] = float(value)
    link = values.get("link")
    link_bps = link_bits_per_s(link) if isinstance(link, str) else 0.0
    if link is not None and not link_bps:
        faults.append(Fault(f"should be a speed as in 1gbit or 100mbit, got {link}", f"{at}.link"))
    if len(faults) > before:
        return None
    node = Supervisor(
        id=name,
        host=name,
        ports=tuple(_FIRST_PORT + number for number in range(int(numbers.get("slots", _SLOTS)))),
        cpu_hz=numbers["core_mhz"] * 1e6 * numbers["cores"],
        resources={CPU: 100 * numbers["cores"], "memory.mb": numbers["memory_mb"]},
        link_bps=link_bps or None,
    )
    return NodeKind(name, node, numbers["price"], most=int(numbers["most"]) if "most" in numbers else None)


def duplicate_faults(kinds: Sequence[NodeKind]) -> list[Fault]:
    """Return faults of duplicate names of kinds."""
    names = [kind.name for kind in kinds]
    return [Fault("is given twice", f"node kind {name}") for name in sorted(set(names)) if names.count(name) > 1]


@dataclass(frozen=True)
class NodeKind:
    """An available kind of node.

    Parameters
    ----------
    name
        Name of the kind.
    node
        Resources of one node.
    price
        Price of one node per hour, in any currency; above 0.
    existing
        Nodes of this kind that the cluster has: they are taken first.
    most
        Number available; None for unlimited.
    """

    name: str
    node: Supervisor
    price: float
    existing: tuple[Supervisor, ...] = ()
    most: int | None = None

    @property
    def cores(self) -> float:
        """CPU cores of one of them."""
        return self.node.resources[CPU] / 100

    @property
    def core_hz(self) -> float:
        """Speed of one core."""
        return self.node.cpu_hz / self.cores

    def nodes(self, count: int) -> Iterator[Supervisor]:
        """Yield `count` nodes, existing ones first."""
        yield from self.existing[:count]
        taken, called = {name for node in self.existing for name in (node.id, node.host)}, self.name.replace(" ", "-")
        free = (name for number in range(1, count + len(taken) + 1) if (name := f"{called}-{number}") not in taken)
        for name in islice(free, max(count - len(self.existing), 0)):
            yield replace(self.node, id=name, host=name)


@dataclass(frozen=True)
class NodeMix:
    """A number of nodes of each kind.

    Parameters
    ----------
    kinds, counts
        Number of nodes of each kind.
    """

    kinds: tuple[NodeKind, ...]
    counts: tuple[int, ...]

    @property
    def price(self) -> float:
        """Price of all nodes together, per hour."""
        return sum(kind.price * count for kind, count in zip(self.kinds, self.counts, strict=True))

    @property
    def cpu_hz(self) -> float:
        """CPU of all nodes together."""
        return sum(kind.node.cpu_hz * count for kind, count in zip(self.kinds, self.counts, strict=True))

    @property
    def size(self) -> int:
        """Number of nodes."""
        return sum(self.counts)

    @property
    def supervisors(self) -> tuple[Supervisor, ...]:
        """Return the nodes, kind by kind."""
        pairs = zip(self.kinds, self.counts, strict=True)
        return tuple(node for kind, count in pairs for node in kind.nodes(count))

    def kind_of(self, node: int) -> NodeKind:
        """Return the kind of a node, by its number."""
        for kind, count in zip(self.kinds, self.counts, strict=True):
            if node < count:
                return kind
            node -= count
        raise IndexError(node)

    def __str__(self) -> str:
        parts = [f"{count} × {kind.name}" for kind, count in zip(self.kinds, self.counts, strict=True) if count]
        return " + ".join(parts) or "no node"


def kinds_of(problem: Problem) -> tuple[NodeKind, ...]:
    """Return the kinds of nodes of a cluster, the most frequent first; a node's price is its cores.

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
            name=f"like {nodes[0].host}",
            node=replace(nodes[0], resources={**nodes[0].resources, CPU: 100 * _cores(nodes[0], problem.core_hz)}),
            price=_cores(nodes[0], problem.core_hz),
            existing=tuple(nodes),
        )
        for nodes in sorted(found.values(), key=len, reverse=True)
    )


def _cores(node: Supervisor, core_hz: float) -> float:
    cores = node.resources.get(CPU, 0.0) / 100
    return cores if cores > 0 else node.cpu_hz / core_hz


def mixes(kinds: Sequence[NodeKind], most_nodes: int, most_mixed: int | None = None) -> Iterator[NodeMix]:
    """Yield all mixes of 1 to `most_nodes` nodes, cheapest first; then fewer nodes, then more of the first kinds.

    Parameters
    ----------
    kinds
        Available kinds of nodes.
    most_nodes
        Maximum number of nodes of all kinds together.
    most_mixed
        Number of mixes after which only those of one kind are yielded, as several kinds have very many; None for all.
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
