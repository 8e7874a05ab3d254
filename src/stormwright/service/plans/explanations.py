"""Explanations of slots, as the API returns them: why executors are where they are, or have no slot."""

from __future__ import annotations

from itertools import islice

from stormwright.client import shapes
from stormwright.controller.description import SafetyOf, move_kinds
from stormwright.controller.safety.move_kinds import move_safety
from stormwright.explain.explain import explanations
from stormwright.explain.explanation import BEST, ComponentExplanation
from stormwright.model import Assignment, Problem

#: Maximum number of explanations in one answer: each considers all nodes.
_MAX = 20


def explained(
    problem: Problem, topology: str | None, executor: int | None, safety_of: SafetyOf = move_safety
) -> shapes.Explanations:
    """Explain the slot of one executor, or of all unplaced executors; of a topology without such ones, of all.

    Parameters
    ----------
    problem
        Problem with the current placement and the newest load.
    topology, executor
        As `stormwright.explain.explain.explain` has them.
    safety_of
        Returns how a topology can be moved.

    Raises
    ------
    InputError
        There is no such topology or executor.
    """
    runs = Assignment(problem.current_slot, scheduler="stormwright")
    each = explanations(problem, runs, topology, executor, only_unplaced=executor is None)
    found = list(islice(each, _MAX + 1))
    if topology is not None and not found:
        found = list(islice(explanations(problem, runs, topology, executor), _MAX + 1))
    kinds = move_kinds(problem, {each.topology for each in found[:_MAX]}, safety_of)
    return shapes.Explanations(explanations=tuple(map(_shaped, found[:_MAX])), more=len(found) > _MAX, kinds=kinds)


def _shaped(of: ComponentExplanation) -> shapes.Explanation:
    best = of.open_nodes[:BEST] if of.slot else []
    return shapes.Explanation(
        topology=of.topology,
        component=of.component,
        executors=of.executors,
        slot=of.slot,
        text=of.histogram if of.slot else of.status_text,
        shortages=of.shortages,
        ruled_out=tuple(shapes.ExcludedNodes(nodes=each.nodes, kind=each.kind, text=str(each)) for each in of.counts),
        best=tuple(
            shapes.OtherNode(
                node=each.node,
                supervisor=each.supervisor,
                host=each.host,
                cost_change=each.cost_change or 0.0,
                joins=each.worker,
            )
            for each in best
        ),
    )
