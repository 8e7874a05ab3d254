"""Preconditions of a plan, and changes that violate them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from stormwright.model import Problem, Topology, WorkerSlot
from stormwright.model.assignment import where
from stormwright.model.humanize import readable
from stormwright.plans.plan import Move, Preconditions, RequiredNode, RequiredTopology, TopologyMove

#: Relative change of a rate from which a plan no longer applies, and the absolute one in trees/s for almost idle
#: topologies.
OTHER_LOAD, IDLE_TPS = 0.25, 1.0


def preconditions(problem: Problem, steps: Sequence[Move], rate_tps: Mapping[str, float]) -> Preconditions:
    """Return the preconditions of a plan.

    The topologies that move, with their placement and rate; the nodes that they leave or enter; and other workers on
    these. Changes elsewhere in the cluster do not matter.

    Parameters
    ----------
    problem
        Problem that the plan was made for.
    steps
        Steps of the plan.
    rate_tps
        Trees/s as measured, by topology id.
    """
    moving = dict.fromkeys(move.topology for step in steps for move in step.moves)
    nodes = {
        slot.supervisor
        for step in steps
        for move in step.moves
        for placement in (move.before, *(leg.after for leg in move.legs))
        for slot in placement.slots
    }
    return Preconditions(
        topologies={
            topology: RequiredTopology(
                _executors(problem.topologies[problem.topology_index[topology]]),
                problem.current[topology],
                rate_tps.get(topology),
            )
            for topology in moving
        },
        nodes={node: _node(problem, node) for node in sorted(nodes)},
        others=_others(problem, nodes, moving.keys()),
    )


def changes(
    preconditions: Preconditions,
    problem: Problem,
    moved: Mapping[str, TopologyMove],
    rate_tps: Mapping[str, float] | None = None,
) -> list[str]:
    """Return violated preconditions, a sentence each; empty if the plan is still valid.

    Parameters
    ----------
    preconditions
        State for which the plan was made, from `preconditions`.
    problem
        Problem with the current nodes, placement and topologies.
    moved
        Moves that the plan has made already, by topology id.
    rate_tps
        Trees/s as measured; None where loads are not compared, as they are no measure between two steps.
    """
    found = [*_changed_nodes(preconditions.nodes, problem)]
    for topology, was in preconditions.topologies.items():
        found += _changed_topology(topology, was, problem, moved.get(topology), rate_tps)
    now = _others(problem, preconditions.nodes.keys(), preconditions.topologies.keys())
    for slot in sorted(preconditions.others.keys() | now.keys()):
        one, other = preconditions.others.get(slot), now.get(slot)
        if one != other:
            held = "free" if other is None else f"held by {other}"
            found.append(f"{_slot_name(slot, preconditions, problem)} is {held}, and was {one or 'free'}")
    return found


def _slot_name(slot: str, preconditions: Preconditions, problem: Problem) -> str:
    """Return the name of a slot; of a node that is gone, by its former host."""
    node, _, port = slot.rpartition(":")
    if node in problem.node_index:
        return problem.cluster.slot_name(WorkerSlot(node, int(port)))
    return f"{preconditions.nodes[node].host}:{port}"


def _changed_nodes(nodes: Mapping[str, RequiredNode], problem: Problem) -> Iterator[str]:
    for node, was in nodes.items():
        if node not in problem.node_index:
            yield f"node {was.host} is gone"
            continue
        now, name = _node(problem, node), problem.cluster.node_names[problem.node_index[node]]
        yield from (f"node {name} {each} when the plan was made" for each in _changed_node(was, now))


def _changed_node(was: RequiredNode, now: RequiredNode) -> Iterator[str]:
    if now.host != was.host:
        yield f"is on {now.host} now, and was on {was.host}"
    if now.ports != was.ports:
        yield f"has {_slots(now.ports)} now, and had {_slots(was.ports)}"
    for resource in sorted(now.resources.keys() | was.resources.keys()):
        has, had = now.resources.get(resource, 0.0), was.resources.get(resource, 0.0)
        if has != had:
            yield f"has {has:,g} of {resource} now, and had {had:,g}"
    if now.usable != was.usable:
        yield "is schedulable now, and was not" if now.usable else "is unschedulable now, and was schedulable"


def _slots(ports: Sequence[int]) -> str:
    return f"slots {', '.join(map(str, ports))}" if ports else "no slot"


def _changed_topology(
    topology: str,
    was: RequiredTopology,
    problem: Problem,
    moved: TopologyMove | None,
    rate_tps: Mapping[str, float] | None,
) -> Iterator[str]:
    index = problem.topology_index.get(topology)
    if index is None:
        yield f"{topology} is gone"
        return
    of = problem.topologies[index]
    if moved is not None and moved.executors:
        as_planned = has_executors(of, moved.executors)
    else:
        as_planned = _executors(of) == was.executors
    if not as_planned:
        yield f"{topology} has other executors"
    elif moved is not None and not has_conf(of, moved.conf):
        yield f"{topology} has another configuration"
    elif where(problem.current.get(topology)) != where(moved.after if moved else was.where):
        yield f"{topology} runs somewhere else"
    before = was.rate_tps
    if rate_tps is None or before is None:
        return
    now = rate_tps.get(topology)
    if now is None:
        yield f"{topology} is no longer measured"
    elif abs(now - before) > max(OTHER_LOAD * before, IDLE_TPS):
        yield f"{topology} does {readable(now)} trees/s, and did {readable(before)}"


def has_executors(topology: Topology, executors: Mapping[str, int]) -> bool:
    """Return whether components (ids) have the given numbers of executors."""
    return executors.items() <= topology.executor_counts.items()


def has_conf(topology: Topology, conf: Mapping[str, Any]) -> bool:
    """Return whether a topology's configuration has the given values by key; null is none."""
    return all(topology.conf.get(key) == value for key, value in conf.items())


def _executors(topology: Topology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return first task and component of each executor."""
    return tuple(topology.executor_start_task.tolist()), tuple(topology.executor_component.tolist())


def _node(problem: Problem, node: str) -> RequiredNode:
    index = problem.node_index[node]
    of = problem.supervisors[index]
    return RequiredNode(
        host=of.host,
        ports=tuple(of.ports),
        resources={name: float(amount) for name, amount in sorted(of.resources.items())},
        usable=bool(problem.node_usable[index]),
    )


def _others(problem: Problem, nodes: Container[str], moving: Container[str]) -> dict[str, str]:
    """Return the topology per slot of workers on some nodes that do not move."""
    return {
        str(slot): topology
        for topology, placement in problem.current.items()
        if topology not in moving and topology in problem.topology_index
        for slot in placement.slots
        if slot.supervisor in nodes
    }
