"""Why an executor is where it is now, or others have no slot."""

from __future__ import annotations

from itertools import islice

from stormwright.client import shapes
from stormwright.explain.explain import explanations
from stormwright.explain.explanation import BEST, ComponentExplanation
from stormwright.model import Assignment, Problem

#: Explanations of one answer at most: each looks at all nodes.
_MOST = 20


def explained(problem: Problem, topology: str | None, executor: int | None) -> shapes.Explained:
    """Explain what runs: one executor, or those of a topology, or all, that have no slot.

    Parameters
    ----------
    problem
        What runs now.
    topology, executor
        As `stormwright.explain.explain.explain` has them.

    Raises
    ------
    InputError
        There is no such topology or executor.
    """
    runs = Assignment(problem.current_slot, scheduler="stormwright")
    each = explanations(problem, runs, topology, executor, only_unplaced=executor is None)
    found = list(islice(each, _MOST + 1))
    return shapes.Explained(explanations=tuple(map(_shaped, found[:_MOST])), more=len(found) > _MOST)


def _shaped(of: ComponentExplanation) -> shapes.Explanation:
    best = of.open_nodes[:BEST] if of.slot else []
    return shapes.Explanation(
        topology=of.topology,
        component=of.component,
        executors=of.executors,
        slot=of.slot,
        text=of.histogram if of.slot else of.status_text,
        shortages=of.shortages,
        ruled_out=tuple(shapes.RuledOut(nodes=each.nodes, kind=each.kind, text=str(each)) for each in of.counts),
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
