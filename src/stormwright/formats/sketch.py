"""Problems in a line of text: a cluster by its size, topologies as chains of components."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyLoad,
    assumed_load,
    default_executor_runs,
)
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.model.requests import ACKER

#: Groupings by their names in a chain.
GROUPINGS = ("shuffle", "fields", "all", "global", "none", "local_or_shuffle")

_STEP = re.compile(r"\s*(?P<name>[^\s>]+?)(?:\s+(?P<count>\d+))?(?:\s+(?P<kind>[a-z_]+))?\s*")

#: Stream to ackers by type of component: of a tree that begins, and of a tuple that was handled.
_ACKED_BY = {"spout": "__ack_init", "bolt": "__ack_ack"}

#: Most executors of a component in a sketch.
_MAX = 1_000_000


def sketch(
    topologies: str | Mapping[str, str | Sequence[str]] | Iterable[Topology],
    *,
    nodes: int | Sequence[Supervisor] = 3,
    cores: float = 4.0,
    memory_mb: float = 16_384.0,
    slots: int = 4,
    racks: int = 1,
    workers: int | None = None,
    ackers: int = 0,
    rate_tps: float = 1_000.0,
) -> Problem:
    """Return a problem from a short description.

    ``sketch("lines 2 -> split 4 -> count 4 fields")`` is one topology of three components; a number is how many
    executors, followed by the grouping of their input, shuffled by default. Chains of one topology that name
    a component again continue from it: ``sketch({"diamond": ["in 2 -> left 4 -> out 2", "in -> right 4 -> out"]})``.

    Parameters
    ----------
    topologies
        A chain, or by name of the topology one or several of them, or topologies of the model.
    nodes
        Number of identical nodes, or the supervisors themselves; then `cores`, `memory_mb`, `slots` and `racks` are
        ignored.
    cores, memory_mb, slots
        CPU cores, memory for workers in MB, and worker slots of each node.
    racks
        Number of racks, to which the nodes are assigned in turn.
    workers
        Of each topology that is a chain; by default one for every four executors, and no more than there are nodes.
    ackers
        Executors that track trees, in each topology that is a chain, after all others; with at least one `simulate`
        measures complete latency. Storm's default is as many as workers.
    rate_tps
        Tuples/s that each executor of a spout emits; bolts pass on their input. CPU and memory are Storm's default
        requests of components.

    Returns
    -------
    Problem
        Nothing runs in it yet; its loads are assumed ones.

    Raises
    ------
    InputError
        A chain cannot be read, or numbers are out of range; all faults at once.
    """
    faults = _wrong_sizes(nodes=nodes, cores=cores, memory_mb=memory_mb, slots=slots, racks=racks, rate_tps=rate_tps)
    if not isinstance(ackers, int) or not 0 <= ackers <= _MAX:
        faults.append(Fault(f"should be a number from 0 to {_MAX:,}, got {ackers}", "ackers"))
    supervisors: tuple[Supervisor, ...] = ()
    if not faults:
        supervisors = _nodes(nodes, cores, memory_mb, slots, racks) if isinstance(nodes, int) else tuple(nodes)
    made: tuple[Topology, ...]
    if isinstance(topologies, str):
        topologies = {"topology": topologies}
    if isinstance(topologies, Mapping):
        chains = {name: [text] if isinstance(text, str) else list(text) for name, text in topologies.items()}
        drafts = [_Draft.of(name, texts, faults) for name, texts in chains.items()]
        if faults:
            raise InputError("sketch", faults)
        made = tuple(
            draft.topology(number, workers, ackers, len(supervisors)) for number, draft in enumerate(drafts, 1)
        )
    else:
        made = tuple(topologies)
    if faults:
        raise InputError("sketch", faults)
    loads = {topology.id: _at_rate(assumed_load(topology, DEFAULT_CORE_HZ), rate_tps) for topology in made}
    return Problem(supervisors, made, name="sketch", load=LoadProfile(loads))


@dataclass
class _Draft:
    """A topology while its chains are read."""

    name: str
    sizes: dict[str, int | None] = field(default_factory=dict)
    inputs: dict[str, list[Grouping]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, chains: Sequence[str], faults: list[Fault]) -> _Draft:
        draft = cls(name)
        for number, chain in enumerate(chains):
            draft.add(chain, f"$.{name}[{number}]" if len(chains) > 1 else f"$.{name}", faults)
        for component, size in draft.sizes.items():
            if size is None:
                faults.append(Fault(f"no number of executors: say {component} 4 where it comes first", f"$.{name}"))
        if not chains:
            faults.append(Fault("no chain; such as spout 2 -> bolt 4", f"$.{name}"))
        return draft

    def add(self, chain: str, path: str, faults: list[Fault]) -> None:
        """Read one chain."""
        before: str | None = None
        for text in chain.split("->"):
            step = _STEP.fullmatch(text)
            if step is None:
                faults.append(Fault(f"should be NAME NUMBER [GROUPING] between arrows, got {text.strip()!r}", path))
                return
            component, kind = step["name"], step["kind"] or "shuffle"
            if kind not in GROUPINGS:
                faults.append(Fault(f"no grouping {kind!r}; there are {', '.join(GROUPINGS)}", path))
                return
            self._size(component, step["count"], path, faults)
            if before is not None:
                self.inputs.setdefault(component, []).append(Grouping(before, kind=kind))
            before = component

    def _size(self, component: str, count: str | None, path: str, faults: list[Fault]) -> None:
        known = self.sizes.setdefault(component, None)
        if count is None:
            return
        if not 1 <= int(count[:8]) <= _MAX or len(count) > len(str(_MAX)):
            faults.append(Fault(f"{component}: from 1 to {_MAX:,} executors, got {count[:20]}", path))
        elif known is not None and known != int(count):
            faults.append(Fault(f"{component}: {known} executors before, {count} here", path))
        else:
            self.sizes[component] = int(count)

    def topology(self, number: int, workers: int | None, ackers: int, nodes: int) -> Topology:
        """Return the topology, once every component has its size.

        Parameters
        ----------
        number
            Its number in the sketch.
        workers, ackers
            Workers, by default by size, and ackers.
        nodes
            Number of nodes, which limits the default number of workers.
        """
        components = tuple(
            Component(name, "bolt" if name in self.inputs else "spout", size or 1, tuple(self.inputs.get(name, ())))
            for name, size in self.sizes.items()
        )
        if ackers:
            inputs = (Grouping(each.id, _ACKED_BY[each.type], "fields") for each in components)
            components += (Component(ACKER, "system", ackers, tuple(inputs)),)
        executors = sum(component.parallelism for component in components)
        wanted = workers or max(1, min(nodes, -(-executors // 4)))
        return Topology(f"{self.name}-{number}-0", self.name, wanted, components, default_executor_runs(components))


def _wrong_sizes(nodes: int | Sequence[Supervisor], **sizes: float) -> list[Fault]:
    if isinstance(nodes, str) or not isinstance(nodes, (int, Sequence)):
        return [Fault(f"should be a number of nodes, or supervisors, got {nodes!r}", "nodes")]
    given = {"nodes": nodes, **sizes} if isinstance(nodes, int) else sizes
    return [
        Fault(f"should be a finite number above 0, got {value}", name)
        for name, value in given.items()
        if not (np.isfinite(value) and value > 0)
    ]


def _nodes(count: int, cores: float, memory_mb: float, slots: int, racks: int) -> tuple[Supervisor, ...]:
    resources = {"cpu.pcore.percent": 100 * cores, "memory.mb": memory_mb}
    ports = tuple(range(6700, 6700 + slots))
    return tuple(
        Supervisor(
            f"node-{number + 1}",
            f"node-{number + 1}",
            ports,
            cores * DEFAULT_CORE_HZ,
            rack=f"rack-{number % racks + 1}",
            resources=resources,
        )
        for number in range(count)
    )


def _at_rate(load: TopologyLoad, rate_tps: float) -> TopologyLoad:
    """Return an assumed load, in which spouts emit 1 tuple/s, at another rate."""
    return replace(load, pair_tps=load.pair_tps * rate_tps, flow_tps=load.flow_tps * rate_tps)
