"""Capacity advice as data and text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from stormwright.advise.search.kinds import NodeMix
from stormwright.advise.search.trials import ExecutorCounts, MixTrials
from stormwright.base.tables import Tabular
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.humanize import counted

#: Numbers of reasons against mixes that are listed, first and last.
_SHOWN = 3


class RefusedMixes:
    """Reasons against mixes of nodes; the first and the last ones are stored."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last = deque[str](maxlen=_SHOWN)
        self._count = 0

    def add(self, mix: NodeMix, why: str) -> None:
        """Add a reason."""
        self._count += 1
        (self._first if len(self._first) < _SHOWN else self._last).append(f"{mix}: {why}")

    @property
    def newest(self) -> str:
        """Return the last reason; empty if there is none."""
        return ["", *self._first, *self._last][-1]

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        if left := self._count - len(self._first) - len(self._last):
            yield f"… and {left:,} more"
        yield from self._last


def now_text(problem: Problem) -> str:
    """Return a text about the present nodes."""
    slots = problem.current_slot[problem.current_slot != UNPLACED]
    used = len(np.unique(problem.slot_node[slots]))
    return (
        f"now: {counted(len(problem.supervisors), 'node')}, {used} of them in use, with "
        f"{counted(problem.num_executors, 'executor')}"
    )


def work_text(trials: MixTrials, least: ExecutorCounts) -> str:
    """Return a text about the minimum resources of all executors."""
    cores, core_ghz = trials.work_hz / trials.base.core_hz, trials.base.core_hz / 1e9
    return (
        f"at the requested rates all executors take {cores:,.2f} cores of {core_ghz:g} GHz and "
        f"{trials.memory_mb(least):,.0f} MB, messages left aside; {trials.goals.headroom:.0%} is to stay free"
    )


def single_executor_texts(trials: MixTrials, least: ExecutorCounts) -> Iterator[str]:
    """Yield components for which one executor is enough, a line per topology."""
    for topology in trials.requested:
        one = trials.base.topologies[topology]
        names = [one.components[key[1]].id for key, count in least.items() if key[0] == topology and count == 1]
        if names:
            yield f"{one.name}: 1 executor is enough for {' and for '.join(names)}"


def too_small_text(trials: MixTrials, mix: NodeMix, work_hz: float, memory_mb: float) -> str:
    """Return why nodes have too little for the work alone; empty if they have enough.

    Parameters
    ----------
    trials, mix
        The trials, with the required headroom, and the nodes.
    work_hz, memory_mb
        CPU and memory of all executors, without messages.
    """
    worker_cores, pairs = trials.known[0].worker_cores, zip(mix.kinds, mix.counts, strict=True)
    taken = [(kind, count) for kind, count in pairs if count]
    free_hz = sum(count * max(trials.allowed * k.cores - worker_cores, 0.0) * k.core_hz for k, count in taken)
    has_mb = sum(count * kind.node.memory_mb for kind, count in taken)
    if free_hz < work_hz:
        return f"{free_hz / trials.base.core_hz:,.2f} such cores for executors, which are too few"
    return f"{has_mb:,.0f} MB of memory, which is too little" if has_mb < memory_mb else ""


@dataclass(frozen=True, slots=True)
class ComponentAdvice:
    """Advice for a component.

    Parameters
    ----------
    topology, component
        Names of the topology and the component.
    executors_now, executors, tasks
        Current, recommended and maximum number of executors.
    handled_tps
        Tuples/s of all its executors at the required rate.
    use
        Utilisation of its busiest executor at that rate.
    """

    topology: str
    component: str
    executors_now: int
    executors: int
    tasks: int
    handled_tps: float
    use: float


@dataclass(frozen=True, slots=True)
class TopologyAdvice:
    """Advice for a topology.

    Parameters
    ----------
    topology
        Id of the topology.
    name
        Name of the topology.
    measured_tps, rate_tps, highest_tps
        Measured, required and sustainable trees/s of the advised placement.
    bottleneck
        Resource that limits `highest_tps`.
    mean_ms, p95_ms
        Complete latency at `rate_tps`.
    workers_now, workers
        Current and recommended number of workers.
    needs_pending
        ``topology.max.spout.pending`` that the rate needs, if less is configured; else None.
    free_now, enough_now
        Part of the fullest resource that the running placement leaves free at the rate, and whether that is as much as
        required; None without one.
    """

    topology: str
    name: str
    measured_tps: float
    rate_tps: float
    highest_tps: float
    bottleneck: str
    mean_ms: float
    p95_ms: float
    workers_now: int
    workers: int
    needs_pending: int | None
    free_now: float | None
    enough_now: bool | None


@dataclass(frozen=True, slots=True)
class NodeAdvice:
    """A node of the recommended cluster.

    Parameters
    ----------
    node, kind, price
        Its name, its kind and its price per hour.
    exists
        Whether the cluster has it.
    cpu, link
        Utilisation at the required rates, from 0 to 1.
    executors
        Number of its executors.
    """

    node: str
    kind: str
    price: float
    exists: bool
    cpu: float
    link: float
    executors: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another sufficient cluster: its price, and the headroom of its fullest thread, node or link."""

    nodes: str
    price: float
    executors: int
    headroom: float
    p95_ms: float


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Tabular):
    """Complete advice; a sequence of that for each component.

    Parameters
    ----------
    problem, assignment
        The topologies with their new executors on the recommended nodes, and their placement.
    components, topologies, nodes
        Advice for each component, topology and node.
    mix
        The nodes as text.
    price
        Price of all nodes, per hour.
    headroom
        Free fraction of the fullest thread, node or link.
    steps
        Log of the search.
    alternatives
        Other sufficient clusters, cheapest first, each with more headroom than the previous one.
    """

    problem: Problem
    assignment: Assignment
    components: tuple[ComponentAdvice, ...]
    topologies: tuple[TopologyAdvice, ...]
    nodes: tuple[NodeAdvice, ...]
    mix: str
    price: float
    headroom: float
    steps: tuple[str, ...]
    alternatives: tuple[Alternative, ...] = ()

    empty_columns: ClassVar[Mapping[str, Sequence[str]]] = {
        "alternatives": tuple(field.name for field in fields(Alternative))
    }

    def __iter__(self) -> Iterator[ComponentAdvice]:
        return iter(self.components)

    def __len__(self) -> int:
        return len(self.components)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return components, topologies, nodes and alternatives as tables."""
        document = self.as_dict()
        return {name: document[name] for name in ("components", "topologies", "nodes", "alternatives")}

    def headline(self) -> str:
        """Return the first line of the text."""
        return f"{self.mix}: price {self.price:g}; {self.headroom:.0%} of the fullest thread, node or link stays free"

    def as_dict(self) -> dict[str, Any]:
        """Return the advice as a JSON object."""
        return {
            "components": [asdict(each) for each in self.components],
            "topologies": [
                {**asdict(each), "highest_tps": each.highest_tps if isfinite(each.highest_tps) else None}
                for each in self.topologies
            ],
            "nodes": [asdict(each) for each in self.nodes],
            "mix": self.mix,
            "price": self.price,
            "headroom": self.headroom,
            "steps": list(self.steps),
            "alternatives": [asdict(each) for each in self.alternatives],
        }
