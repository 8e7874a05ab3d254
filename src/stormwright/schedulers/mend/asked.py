"""Topologies left out that ask for more than nodes and heaps have, where Storm's ResourceAwareScheduler counts."""

from __future__ import annotations

from stormwright.model import UNPLACED
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.resources import Asked, Requests
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.placing.staying import choose_slots


def leave_out_what_asks_too_much(draft: Draft) -> None:
    """Leave out the last topology on a node, or that of a worker, of which too much is asked, until none is left.

    What is fixed stays: it runs, so Storm's scheduler has let it.
    """
    problem = draft.problem
    if Asked.of(problem) is None:
        return
    while True:
        for broken in Requests().violations(PlacedExecutors(problem, choose_slots(draft))):
            on = [
                topology
                for topology, place, fixed in zip(draft.topology, draft.node, draft.fixed, strict=True)
                if not fixed
                and place == problem.node_index.get(broken.supervisor or "", UNPLACED)
                and place != UNPLACED
            ]
            if broken.topology is not None:
                on = [topology for topology in on if problem.topologies[topology].id == broken.topology]
            if on:
                draft.take_out(max(on))
                draft.reasons[max(on)] = (str(broken),)
                break
        else:
            return
