"""Why an executor has no slot, or what it would cost elsewhere: every node's obstacles, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.experiments.move_costs import MoveCosts
from stormwright.model import (
    UNPLACED,
    Assignment,
    Problem,
    Topology,
    WorkerSlot,
)
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.model.constraints import MAX_EXECUTORS_PER_WORKER, RELATIVE_TOLERANCE, node_sum
from stormwright.schedulers.support.registry import SCHEDULERS
from stormwright.schedulers.tag_aware import TAGS, UNTAGGED, tags_of

#: Nodes that are named as the cheapest.
BEST = 5


@dataclass(frozen=True)
class Obstacle:
    """One thing that rules a node out for an executor.

    Parameters
    ----------
    kind
        ``blacklisted``, ``greylisted``, ``tag``, ``crowded``, ``executors per worker``, ``incompatible``, ``slots``,
        ``workers``, ``memory``, ``CPU``.
    text
        What is missing; for ``memory`` and ``CPU`` without the amount, which is `short_by` in `unit`.
    """

    kind: str
    text: str
    short_by: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        return self.text if self.short_by is None else f"{self.text} short by {self.short_by:.4g} {self.unit}"


@dataclass(frozen=True)
class NodeVerdict:
    """What stands between an executor and a node, and, of an executor that runs elsewhere, what the move would cost.

    Parameters
    ----------
    obstacles
        Why it cannot take the executor; empty where it can. The first is the one that counts in a histogram.
    cost_change
        Weighted tuples/s that the cost would rise by; None for an executor without a slot, and for the node it is on.
    joins
        The worker of its topology that the executor would join there; None for a new worker.
    workers
        Workers that its topology would have after the move.
    """

    supervisor: str
    host: str
    obstacles: tuple[Obstacle, ...]
    cost_change: float | None = None
    joins: WorkerSlot | None = None
    workers: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "supervisor": self.supervisor,
            "host": self.host,
            "ruled_out_by": [
                {"kind": o.kind, "text": str(o), "short_by": o.short_by, "unit": o.unit or None} for o in self.obstacles
            ],
            "cost_change": self.cost_change,
            "joins": str(self.joins) if self.joins else None,
            "workers": self.workers,
        }


@dataclass(frozen=True)
class Explanation:
    """Where executors of one component stand, which differ in nothing that matters.

    Parameters
    ----------
    executors
        Numbered within the topology; those that run are explained one by one.
    slot
        Where it runs; None if unplaced.
    nodes
        In the problem's order; without the node that it is on.
    reasons, status
        What the scheduler itself said of the executor and the topology.
    workers_wanted
        min(W, E) of its topology.
    shortages
        What the executors of its topology without a slot lack together, even if each alone would find a node.
    """

    topology: str
    component: str
    executors: tuple[int, ...]
    slot: WorkerSlot | None
    nodes: tuple[NodeVerdict, ...]
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
        """One line: how many nodes are ruled out by what, and how many are not."""
        return histogram(self.nodes)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "topology": self.topology,
            "component": self.component,
            "executors": list(self.executors),
            "slot": str(self.slot) if self.slot else None,
            "reasons": list(self.reasons),
            "status": self.status,
            "workers_wanted": self.workers_wanted,
            "shortages": list(self.shortages),
            "histogram": self.histogram,
            "ruled_out": [
                {
                    "kind": group[0].kind,
                    "nodes": len(group),
                    "text": _together(group),
                    "short_by": _span(group),
                    "unit": group[0].unit or None,
                }
                for group in _groups(self.nodes)
            ],
            "best": [node.as_dict() for node in self.open_nodes[:BEST]] if self.slot else [],
            "nodes": [node.as_dict() for node in self.nodes],
        }


def histogram(nodes: Sequence[NodeVerdict]) -> str:
    """``2 of 3 nodes: memory short by 512 MB; 1 of 3: tag "etl" missing``: each node under its first obstacle."""
    total = len(nodes)
    parts = [(len(group), _together(group)) for group in _groups(nodes)]
    free = total - sum(count for count, _ in parts)
    if free:
        parts.append((free, "could take it"))
    return "; ".join(
        f"{count} of {total}{' nodes' if not position else ''}: {text}" for position, (count, text) in enumerate(parts)
    )


def _groups(nodes: Sequence[NodeVerdict]) -> list[list[Obstacle]]:
    """First obstacles that are alike, largest group first, ties in order of appearance."""
    groups: dict[tuple[str, str], list[Obstacle]] = {}
    for node in nodes:
        for first in node.obstacles[:1]:
            groups.setdefault((first.kind, first.text), []).append(first)
    return sorted(groups.values(), key=len, reverse=True)


def _span(group: Sequence[Obstacle]) -> tuple[float, float] | None:
    amounts = [obstacle.short_by for obstacle in group if obstacle.short_by is not None]
    return (min(amounts), max(amounts)) if amounts else None


def _together(group: Sequence[Obstacle]) -> str:
    span = _span(group)
    if span is None or f"{span[0]:.4g}" == f"{span[1]:.4g}":
        return str(group[0])
    return f"{group[0].text} short by {span[0]:.4g} to {span[1]:.4g} {group[0].unit}"


# Asking ------------------------------------------------------------------------------------------


def explain(
    problem: Problem, assignment: Assignment, topology: str | None = None, executor: int | None = None
) -> list[Explanation]:
    """Explain what was asked for; if nothing was, every executor without a slot.

    Parameters
    ----------
    topology
        Id or name of the one to explain: all its executors, or `executor` alone (numbered within it). The problem's
        only topology need not be named.

    Raises
    ------
    InputError
        There is no such topology or executor, or the executor's topology is not told.
    """
    state = _State(problem, assignment)
    if topology is None and executor is None:
        chosen = list(enumerate(range(t.num_executors) for t in problem.topologies))
        wanted = [(t, [e for e in own if state.slot(t, e) == UNPLACED]) for t, own in chosen]
    else:
        index = _find_topology(problem, topology)
        everyone = range(problem.topologies[index].num_executors)
        if executor is not None and executor not in everyone:
            last = f"its executors are 0 to {len(everyone) - 1}" if everyone else "it has none"
            why = f"{problem.topologies[index].id} has no such executor: {last}"
            raise InputError("--executor", [Fault(why, str(executor))])
        wanted = [(index, list(everyone) if executor is None else [executor])]
    return [explanation for t, executors in wanted for explanation in state.explain(t, executors)]


def _find_topology(problem: Problem, name: str | None) -> int:
    if name is None:
        if len(problem.topologies) == 1:
            return 0
        ids = ", ".join(t.id for t in problem.topologies) or "none"
        why = f"is missing: executors are numbered within a topology; there are {ids}"
        raise InputError("--executor", [Fault(why, "--topology")])
    if name in problem.topology_index:
        return problem.topology_index[name]
    named = [index for index, t in enumerate(problem.topologies) if t.name == name]
    if len(named) == 1:
        return named[0]
    ids = ", ".join(problem.topologies[index].id for index in (named or range(len(problem.topologies))))
    why = "several topologies have this name; by id" if named else "no such topology; there are"
    raise InputError("--topology", [Fault(f"{why} {ids or 'none'}", name)])


# Obstacles ---------------------------------------------------------------------------------------


class _State:
    """What a placement has left on every node."""

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self.problem, self.assignment = problem, assignment
        self.slots: IntArray = assignment.slot_of_executor
        # `online` has a parameter that leaves a part of the CPU alone.
        share = float(assignment.parameters.get("capacity", 100.0)) / 100 if assignment.scheduler == "online" else 1.0
        room = 1 + RELATIVE_TOLERANCE
        self.cpu_hz: FloatArray = problem.node_cpu_hz * share * room - node_sum(
            problem, self.slots, problem.executor_cpu_hz
        )
        self.memory_mb: FloatArray = problem.node_memory_mb * room - node_sum(
            problem, self.slots, problem.executor_memory_mb
        )
        ports = np.array([len(node.ports) for node in problem.supervisors], dtype=np.int64)
        used = np.unique(self.slots[self.slots != UNPLACED])
        self.ports: IndexArray = ports
        self.free_slots: IndexArray = ports - np.bincount(problem.slot_node[used], minlength=len(ports))
        self.reasons = {(u.topology, u.executor): u.reasons for u in assignment.unplaced}
        # Ours know no tags, except the one that is about them; of others we cannot tell.
        self.heeds_tags = assignment.scheduler == "tag_aware" or assignment.scheduler not in SCHEDULERS
        self.keeps_untagged_apart = assignment.scheduler == "tag_aware"

    @cached_property
    def node_tags(self) -> list[frozenset[str]]:
        """Tags of every node."""
        return [tags_of((node.scheduler_meta or {}).get(TAGS, "")) for node in self.problem.supervisors]

    def slot(self, topology: int, executor: int) -> int:
        """Slot of an executor, numbered within its topology."""
        return int(self.slots[int(self.problem.executor_offset[topology]) + executor])

    def explain(self, topology: int, executors: Sequence[int]) -> Iterator[Explanation]:
        """Those without a slot that are alike together, then those that run one by one."""
        of, first = self.problem.topologies[topology], int(self.problem.executor_offset[topology])
        alike: dict[tuple[Any, ...], list[int]] = {}
        for executor in executors:
            if self.slot(topology, executor) == UNPLACED:
                e = first + executor
                key = (
                    int(of.executor_component[executor]),
                    float(self.problem.executor_cpu_hz[e]),
                    float(self.problem.executor_memory_mb[e]),
                    self.reasons.get((of.id, executor), ()),
                )
                alike.setdefault(key, []).append(executor)
        for together in alike.values():
            obstacles = self._obstacles(topology, together[0])
            yield self._explanation(topology, together, self._verdicts(obstacles))
        moves = MoveCosts(self.problem, topology, self.slots)
        for executor in executors:
            if self.slot(topology, executor) != UNPLACED:
                yield self._explanation(topology, [executor], self._moves(moves, topology, executor))

    def _explanation(self, topology: int, executors: list[int], nodes: Sequence[NodeVerdict]) -> Explanation:
        of, slot = self.problem.topologies[topology], self.slot(topology, executors[0])
        return Explanation(
            topology=of.id,
            component=of.components[of.executor_component[executors[0]]].id,
            executors=tuple(executors),
            slot=None if slot == UNPLACED else self.problem.slots[slot],
            nodes=tuple(nodes),
            reasons=self.reasons.get((of.id, executors[0]), ()),
            status=self.assignment.status.get(of.id, ""),
            workers_wanted=min(of.num_workers, of.num_executors),
            shortages=tuple(self._shortages(topology)) if slot == UNPLACED else (),
        )

    def _shortages(self, topology: int) -> Iterator[str]:
        """What all executors of a topology without a slot lack together on the usable nodes."""
        problem, of = self.problem, self.problem.topologies[topology]
        own = np.arange(problem.num_executors)[problem.executors_of(topology)]
        waiting = own[self.slots[own] == UNPLACED]
        usable = problem.node_usable
        workers = min(of.num_workers, of.num_executors)
        missing = max(workers - len(np.unique(self._own_slots(topology))), 0)
        free = int(self.free_slots[usable].sum())
        nodes = f"on {np.count_nonzero(usable)} usable nodes together"
        if missing > free:
            yield f"{missing} worker slots wanted, {free} free {nodes}"
        if workers * _limit(of) < of.num_executors:
            yield f"{workers} workers of at most {_limit(of)} executors do not take {of.num_executors}"
        for what, unit, demand, room in (
            ("CPU", "Hz", problem.executor_cpu_hz, self.cpu_hz),
            ("memory", "MB", problem.executor_memory_mb, self.memory_mb),
        ):
            short_by = float(demand[waiting].sum() - np.maximum(room[usable], 0).sum())
            if short_by > 0:
                yield f"{what} short by {short_by:.4g} {unit} {nodes} for its {len(waiting)} executors without a slot"

    def _verdicts(self, obstacles: Sequence[tuple[Obstacle, ...]]) -> list[NodeVerdict]:
        nodes = self.problem.supervisors
        return [NodeVerdict(node.id, node.host, found) for node, found in zip(nodes, obstacles, strict=True)]

    def _moves(self, moves: MoveCosts, topology: int, executor: int) -> list[NodeVerdict]:
        """Every node but the one it is on, with the cost of moving there."""
        here = int(self.problem.slot_node[self.slot(topology, executor)])
        limit = _limit(self.problem.topologies[topology])
        changes = moves.changes(executor, limit, self._clashing(topology, executor))
        own, sizes = np.unique(self._own_slots(topology), return_counts=True)
        others = len(own) - int(sizes[own == self.slot(topology, executor)].sum() == 1)
        verdicts = []
        for node, verdict in enumerate(self._verdicts(self._obstacles(topology, executor))):
            if node != here:
                change, joins = changes[node]
                slot = None if joins is None else self.problem.slots[joins]
                workers = others + (slot is None)
                verdicts.append(replace(verdict, cost_change=change, joins=slot, workers=workers))
        return verdicts

    def _obstacles(self, topology: int, executor: int) -> list[tuple[Obstacle, ...]]:
        """What keeps an executor of a topology from every node."""
        problem, of = self.problem, self.problem.topologies[topology]
        e = int(problem.executor_offset[topology]) + executor
        cpu_hz, memory_mb = float(problem.executor_cpu_hz[e]), float(problem.executor_memory_mb[e])
        tags = tags_of(",".join(of.components[of.executor_component[executor]].tags))
        own, sizes = np.unique(self._own_slots(topology), return_counts=True)
        wanted, limit = min(of.num_workers, of.num_executors), _limit(of)
        # An executor that is alone in its worker takes this worker along.
        alone = self.slots[e] != UNPLACED and int(sizes[own == self.slots[e]].sum()) == 1
        may_open = self.slots[e] != UNPLACED or len(own) - alone < wanted
        clashing = self._clashing(topology, executor)
        fullest: dict[int, list[int]] = {}
        for slot, size in zip(own.tolist(), sizes.tolist(), strict=True):
            if slot not in clashing:
                fullest.setdefault(int(problem.slot_node[slot]), []).append(size)
        foes = Counter(problem.slot_node[list(clashing)].tolist())
        found = []
        for node, supervisor in enumerate(problem.supervisors):
            obstacles = []
            if supervisor.host in problem.blacklisted_hosts:
                obstacles.append(Obstacle("blacklisted", "blacklisted"))
            elif supervisor.id in problem.greylisted_supervisors:
                obstacles.append(Obstacle("greylisted", "greylisted"))
            obstacles += self._missing_tags(tags, node)
            obstacles += self._crowded(topology, executor, node)
            obstacles += self._full(node, fullest.get(node, []), limit, may_open, wanted, foes[node])
            if memory_mb > self.memory_mb[node]:
                obstacles.append(Obstacle("memory", "memory", float(memory_mb - self.memory_mb[node]), "MB"))
            if cpu_hz > self.cpu_hz[node]:
                obstacles.append(Obstacle("CPU", "CPU", float(cpu_hz - self.cpu_hz[node]), "Hz"))
            found.append(tuple(obstacles))
        return found

    def _of(self, topology: int) -> IntArray:
        """Slot of every executor of a topology."""
        return self.slots[self.problem.executors_of(topology)]

    def _own_slots(self, topology: int) -> IntArray:
        own = self._of(topology)
        placed: IntArray = own[own != UNPLACED]
        return placed

    def _missing_tags(self, tags: frozenset[str], node: int) -> Iterator[Obstacle]:
        if not self.heeds_tags:
            return
        missing = sorted(tags - self.node_tags[node])
        if missing:
            names = ", ".join(f'"{tag}"' for tag in missing)
            yield Obstacle("tag", f"{'tag' if len(missing) == 1 else 'tags'} {names} missing")
        elif not tags and self.node_tags[node] and self.keeps_untagged_apart:
            yield Obstacle("tag", f'tag "{UNTAGGED}" missing')

    def _clashing(self, topology: int, executor: int) -> frozenset[int]:
        """Slots of a topology's workers that hold executors which one may not share a worker with."""
        limits = self.problem.component_limits.get(topology)
        if limits is None:
            return frozenset()
        component, slots = self.problem.topologies[topology].executor_component, self._of(topology)
        foes = limits.incompatible[component[executor], component] & (slots != UNPLACED)
        foes[executor] = False
        return frozenset(slots[foes].tolist())

    def _crowded(self, topology: int, executor: int, node: int) -> Iterator[Obstacle]:
        limits = self.problem.component_limits.get(topology)
        if limits is None:
            return
        of, slots = self.problem.topologies[topology], self._of(topology)
        component = int(of.executor_component[executor])
        alike = slots[(of.executor_component == component) & (slots != UNPLACED)]
        there = np.count_nonzero(self.problem.slot_node[alike] == node)
        if there >= limits.most_on_node[component]:
            yield Obstacle("crowded", f"{there} executors of {of.components[component].id} already, the limit")

    def _full(
        self, node: int, sizes: Sequence[int], limit: int, may_open: bool, wanted: int, foes: int
    ) -> Iterator[Obstacle]:
        """Neither can the executor join a worker of its topology on the node, nor may a further one start there."""
        if any(size < limit for size in sizes):
            return
        free = int(self.free_slots[node])
        if free > 0 and may_open:
            return
        if sizes:
            yield Obstacle("executors per worker", f"{limit} executors in every worker of its topology, the limit")
        if foes:
            yield Obstacle("incompatible", f"incompatible components in {foes} workers of its topology")
        if free <= 0:
            # Of a node whose only workers are full it is known already why; that it has no slot either is the rest.
            yield Obstacle("slots", f"no free worker slot of {self.ports[node]}")
        elif not may_open:
            yield Obstacle("workers", f"all {wanted} workers of its topology are elsewhere")


def _limit(topology: Topology) -> int:
    return int(topology.conf.get(MAX_EXECUTORS_PER_WORKER, topology.num_executors))
