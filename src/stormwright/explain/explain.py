"""Why an executor has no slot, or what it would cost elsewhere: every node's obstacles, counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.explain.counts import (
    FREE,
    FREE_FOR_ONE,
    Count,
    Obstacle,
    RuledOut,
    count_first,
    histogram,
    status_text,
)
from stormwright.explain.move_costs import MoveCosts
from stormwright.explain.obstacles import Obstacles
from stormwright.model import UNPLACED, Assignment, Problem, WorkerSlot
from stormwright.schedulers.kit.limits import max_executors_per_worker

#: Nodes that are named as the cheapest.
BEST = 5


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
        Numbered within the topology.
    slot
        Where it runs; None if unplaced.
    nodes
        In the problem's order; without the node that it is on.
    counts
        The nodes, each under its first obstacle.
    said
        What the scheduler itself said of the executor, or else of the topology.
    reasons, status
        What it said of the executor, and of the topology.
    workers_wanted
        min(W, E) of its topology.
    shortages
        What the executors of its topology without a slot lack together, even if each alone would find a node.
    """

    scheduler: str
    topology: str
    component: str
    executors: tuple[int, ...]
    slot: WorkerSlot | None
    nodes: tuple[NodeVerdict, ...]
    counts: tuple[Count, ...]
    said: tuple[str, ...]
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
        return histogram(self.counts, len(self.nodes), FREE if self.slot else FREE_FOR_ONE)

    @property
    def status_text(self) -> str:
        """The reasons for an executor without a slot in one line, as Storm's UI shows them."""
        return status_text(self.scheduler, self.said, self.component, self.counts, len(self.nodes))

    @property
    def what_matters(self) -> tuple[object, ...]:
        """All but which executors these are; what differs only by rounding is the same."""
        costs = tuple(None if node.cost_change is None else round(node.cost_change, 6) for node in self.nodes)
        alike = (replace(node, cost_change=None) for node in self.nodes)
        return self.component, self.slot, self.reasons, self.counts, costs, *alike

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


# Asking ------------------------------------------------------------------------------------------


def explain(
    problem: Problem, assignment: Assignment, topology: str | None = None, executor: int | None = None
) -> list[Explanation]:
    """Explain what was asked for; if nothing was, every executor without a slot.

    Parameters
    ----------
    problem, assignment
        What was to be placed, and where it was.
    topology
        Id or name of the one to explain: all its executors, or `executor` alone. The problem's only topology need not
        be named.
    executor
        Its number within the topology, from 0; None for all.

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


# Explaining --------------------------------------------------------------------------------------


class _State:
    """A placement, and what keeps its executors from other nodes."""

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self.problem, self.assignment = problem, assignment
        self.obstacles = Obstacles(problem, assignment)
        self.slots = self.obstacles.slots

    def slot(self, topology: int, executor: int) -> int:
        """Slot of an executor, numbered within its topology."""
        return int(self.slots[int(self.problem.executor_offset[topology]) + executor])

    def explain(self, topology: int, executors: Sequence[int]) -> Iterator[Explanation]:
        """Those without a slot, then those that run; executors that are alike together."""
        of, first = self.problem.topologies[topology], int(self.problem.executor_offset[topology])
        alike: dict[tuple[Any, ...], list[int]] = {}
        for executor in executors:
            if self.slot(topology, executor) == UNPLACED:
                e = first + executor
                key = (
                    int(of.executor_component[executor]),
                    float(self.problem.executor_cpu_hz[e]),
                    float(self.problem.executor_memory_mb[e]),
                    self.obstacles.reasons(topology, executor),
                )
                alike.setdefault(key, []).append(executor)
        for together in alike.values():
            yield self._explanation(topology, together)
        moves = MoveCosts(self.problem, topology, self.slots)
        running: dict[tuple[object, ...], list[Explanation]] = {}
        for executor in executors:
            if self.slot(topology, executor) != UNPLACED:
                one = self._explanation(topology, [executor], moves)
                running.setdefault(one.what_matters, []).append(one)
        for same in running.values():
            yield replace(same[0], executors=tuple(one.executors[0] for one in same))

    def _explanation(self, topology: int, executors: list[int], moves: MoveCosts | None = None) -> Explanation:
        """Of executors without a slot that are alike, or of one that runs, with the cost of moving it."""
        problem, of, executor = self.problem, self.problem.topologies[topology], executors[0]
        slot = self.slot(topology, executor)
        elsewhere = np.ones(len(problem.supervisors), dtype=bool)
        if slot != UNPLACED:
            elsewhere[problem.slot_node[slot]] = False
        ruled_out = self.obstacles.of(topology, executor)
        verdicts = {node: self._verdict(node, ruled_out) for node in np.flatnonzero(elsewhere).tolist()}
        if moves:
            verdicts = self._with_costs(verdicts, moves, topology, executor)
        return Explanation(
            scheduler=self.assignment.scheduler,
            topology=of.id,
            component=self.obstacles.component(topology, executor),
            executors=tuple(executors),
            slot=None if slot == UNPLACED else problem.slots[slot],
            nodes=tuple(verdicts.values()),
            counts=count_first(ruled_out, elsewhere),
            said=self.obstacles.said(topology, executor),
            reasons=self.obstacles.reasons(topology, executor),
            status=self.assignment.status.get(of.id, ""),
            workers_wanted=min(of.num_workers, of.num_executors),
            shortages=tuple(self.obstacles.shortages(topology)) if slot == UNPLACED else (),
        )

    def _verdict(self, node: int, ruled_out: Sequence[RuledOut]) -> NodeVerdict:
        supervisor = self.problem.supervisors[node]
        return NodeVerdict(supervisor.id, supervisor.host, tuple(one.at(node) for one in ruled_out if one.nodes[node]))

    def _with_costs(
        self, verdicts: dict[int, NodeVerdict], moves: MoveCosts, topology: int, executor: int
    ) -> dict[int, NodeVerdict]:
        """The verdicts with the cost of moving an executor to each node."""
        limit = max_executors_per_worker(self.problem.topologies[topology])
        changes = moves.changes(executor, limit, self.obstacles.clashing(topology, executor))
        own, sizes = np.unique(self.obstacles.own_slots(topology), return_counts=True)
        # An executor that is alone in its worker takes this worker along.
        others = len(own) - int(sizes[own == self.slot(topology, executor)].sum() == 1)
        found = {}
        for node, verdict in verdicts.items():
            change, joins = changes[node]
            slot = None if joins is None else self.problem.slots[joins]
            found[node] = replace(verdict, cost_change=change, joins=slot, workers=others + (slot is None))
        return found
