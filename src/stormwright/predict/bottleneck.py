"""Bottlenecks of a placement, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stormwright.model import Problem
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.predict.demand import TreeDemand
from stormwright.predict.fairness import NO_LIMIT

#: Kinds of resources, in the order of rows of `TreeDemand.shared`; a topology's own thread comes after those.
CPU, LINK_OUT, LINK_IN, THREAD = "cpu", "link out", "link in", "thread"
PENDING, NOTHING = "pending", "nothing"

_SENTENCES = {
    CPU: "the CPU of node {}",
    LINK_OUT: "the link out of node {}",
    LINK_IN: "the link into node {}",
    PENDING: f"{MAX_SPOUT_PENDING}: all trees that may be pending are",
    NOTHING: "nothing",
}


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The resource that is full first.

    Parameters
    ----------
    kind
        ``cpu``, ``link out``, ``link in``, ``thread``, ``pending`` or ``nothing``.
    node
        Name of its node; empty if it has none.
    thread
        Description of the thread.
    """

    kind: str
    node: str = ""
    thread: str = ""

    def __str__(self) -> str:
        return self.thread or _SENTENCES[self.kind].format(self.node)

    def as_dict(self) -> dict[str, Any]:
        """Return the bottleneck for JSON, with texts for people."""
        return {"kind": self.kind, "node": self.node or None, "text": str(self)}


def bottleneck(problem: Problem, demand: TreeDemand, row: int) -> Bottleneck:
    """Return the bottleneck of a row of the resources.

    Parameters
    ----------
    problem
        The problem with the names.
    demand
        Demand under the placement.
    row
        One of the 3 N shared resources; beyond them the busiest thread of a topology; or `NO_LIMIT`.
    """
    nodes, names = len(problem.supervisors), problem.cluster.node_names
    if row == NO_LIMIT:
        return Bottleneck(NOTHING)
    if row < 3 * nodes:
        kind, node = divmod(row, nodes)
        return Bottleneck((CPU, LINK_OUT, LINK_IN)[kind], names[node])
    thread = int(demand.busiest[row - 3 * nodes])
    node = int(demand.thread_node[thread])
    return Bottleneck(THREAD, names[node], thread_name(problem, demand, thread))


def thread_name(problem: Problem, demand: TreeDemand, thread: int) -> str:
    """Return a description of a thread: ``the thread of executor 3 (component split) in node-1:6700``."""
    executors, workers = problem.num_executors, len(demand.worker_slot)
    if thread >= executors:
        kind, worker = divmod(thread - executors, workers)
        slot = problem.slots[demand.worker_slot[worker]]
        return f"the thread that {('sends', 'receives')[kind]} for {problem.cluster.slot_name(slot)}"
    topology = int(problem.executor_topology[thread])
    number = thread - int(problem.executor_offset[topology])
    component = problem.topologies[topology].components[problem.topologies[topology].executor_component[number]].id
    slot = problem.slots[demand.worker_slot[demand.executor_worker[thread]]]
    return f"the thread of executor {number} (component {component}) in {problem.cluster.slot_name(slot)}"
