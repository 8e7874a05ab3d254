"""Advice on capacity, as people and programs get it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from stormwright.model import Assignment, Problem


@dataclass(frozen=True, slots=True)
class ComponentAdvice:
    """What is advised of a component.

    Parameters
    ----------
    topology, component
        Names.
    executors_now, executors, tasks
        It has, should have, and may have at most.
    handled_tps
        Tuples/s of all its executors at the rate that is asked for.
    use
        Part of the time for which its busiest executor then has work.
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
    """What is advised of a topology.

    Parameters
    ----------
    topology
        Its id.
    name
        What people call it.
    measured_tps, rate_tps, highest_tps
        Trees/s as measured, as asked for, and those that the advised placement sustains.
    bottleneck
        What limits it then.
    mean_ms, p95_ms
        Complete latency at `rate_tps`.
    workers_now, workers
        It has, and should have.
    needs_pending
        ``topology.max.spout.pending`` that the rate needs, where what is configured is less; else None.
    enough_now
        Whether what runs sustains the rate; None where nothing runs.
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
    enough_now: bool | None


@dataclass(frozen=True, slots=True)
class NodeAdvice:
    """A node of the advised cluster.

    Parameters
    ----------
    node, kind, price
        Its name, its kind and what it costs per hour.
    there
        Whether the cluster has it.
    cpu, link
        In use at the rates that are asked for, in parts.
    executors
        How many run there.
    """

    node: str
    kind: str
    price: float
    there: bool
    cpu: float
    link: float
    executors: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another cluster that is enough: what it costs, and what stays free of the fullest thread, node or link."""

    nodes: str
    price: float
    executors: int
    headroom: float
    p95_ms: float


@dataclass(frozen=True, eq=False)
class Advice:
    """What is advised.

    Parameters
    ----------
    problem, assignment
        The topologies with their new executors on the advised nodes, and where they run.
    components, topologies, nodes
        What is advised of each.
    mix
        The nodes in words.
    price
        Of all nodes, per hour.
    headroom
        What stays free of the fullest thread, node or link.
    steps
        How it was come to.
    alternatives
        From the cheapest on, each with more headroom than the one before.
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

    def as_dict(self) -> dict[str, Any]:
        """Itself for JSON."""
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
