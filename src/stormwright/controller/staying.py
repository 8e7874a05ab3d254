"""Topologies that stay where they are although others move, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from stormwright.controller.planning.order import Excluded, MoveOrder
from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.model import UNPLACED, Problem
from stormwright.model.topology_config import MOVE


def require_matches(problem: Problem, topologies: Sequence[str], nodes: Sequence[str]) -> None:
    """Check that each pattern fits a topology, or a node; InputError names those that do not."""
    known: list[tuple[str, ...]] = [(each.name, each.id) for each in problem.topologies]
    hosts: list[tuple[str, ...]] = [
        (name, each.host, each.id) for name, each in zip(problem.cluster.node_names, problem.supervisors, strict=True)
    ]
    faults = []
    for kind, patterns, names in (("topology", topologies, known), ("node", nodes, hosts)):
        for pattern in patterns:
            if not any(_matches(each, (pattern,)) for each in names):
                there = suggestion_for(pattern, {each[0] for each in names})
                faults.append(Fault(f"fits no {kind}{there}", pattern))
    if faults:
        raise InputError("plan", faults)


def pinned(problem: Problem) -> dict[str, str]:
    """Return topologies (ids) that their owners do not want to be moved."""
    return {t.id: f"{MOVE} is false in its configuration" for t in problem.topologies if t.conf.get(MOVE) is False}


def out_of_scope(problem: Problem, topologies: Sequence[str], nodes: Sequence[str]) -> dict[str, str]:
    """Return topologies (ids) that patterns leave out."""
    matching = {
        number
        for number, node in enumerate(problem.supervisors)
        if _matches((problem.cluster.node_names[number], node.host, node.id), nodes)
    }
    stay = {}
    for index, topology in enumerate(problem.topologies):
        if topologies and not _matches((topology.id, topology.name), topologies):
            stay[topology.id] = "it is not among the topologies of this plan"
        elif nodes:
            own = problem.current_slot[problem.executors_of(index)]
            if not matching & set(np.unique(problem.slot_node[own[own != UNPLACED]]).tolist()):
                stay[topology.id] = "it runs on none of the nodes of this plan"
    return stay


def _matches(names: tuple[str, ...], patterns: Sequence[str]) -> bool:
    """Return whether any of several names matches a pattern."""
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def being_placed(problem: Problem) -> dict[str, str]:
    """Return topologies (ids) with an executor without a slot: Nimbus would give it other slots than planned."""
    lost = np.bincount(problem.executor_topology[problem.current_slot == UNPLACED], minlength=len(problem.topologies))
    return {problem.topologies[index].id: "it is being placed" for index in np.flatnonzero(lost).tolist()}


def names_blocked(problem: Problem, order: MoveOrder) -> dict[str, str]:
    """Return the names of topologies that should move and stay, with the reason; without those excluded by request."""
    return {name_of(problem, each): str(why) for each, why in order.blocked.items() if not isinstance(why, Excluded)}


def name_of(problem: Problem, topology: str) -> str:
    """Return the name of a topology (id), or the id of one that is gone."""
    index = problem.topology_index.get(topology)
    return topology if index is None else problem.topologies[index].name
