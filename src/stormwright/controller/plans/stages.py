"""Steps of a plan in stages: one topology, then a few, then the rest; each is judged before the next begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stormwright.controller.planning.plan import Step

#: Topologies of the first stage, and of the second: at least so many, or this part of all.
FIRST, FEW, FEW_PART = 1, 3, 0.1


def staged(steps: Sequence[Step]) -> list[int]:
    """The stage of every step, from 0.

    A stage ends only where nobody is in a spare slot: whatever is stopped between two stages is where it belongs.
    Topologies that change places are one step, so a stage may have more than it is meant to.
    """
    total = len({move.topology.id for step in steps for move in step.moves})
    most = [FIRST, max(FEW, round(FEW_PART * total))]
    found, stage, moved = [], 0, set[str]()
    away = set[str]()
    for step in steps:
        found.append(stage)
        moved |= {move.topology.id for move in step.moves}
        away = away_after([step], away)
        if stage < len(most) and len(moved) >= most[stage] and not away:
            stage, moved = stage + 1, set()
    return found


def away_after(steps: Iterable[Step], away: Iterable[str] = ()) -> set[str]:
    """Topologies (ids) that are in spare slots once steps are made.

    Parameters
    ----------
    steps
        In their order.
    away
        Those that are there before.
    """
    found = set(away)
    for step in steps:
        for move in step.moves:
            (found.discard if move.arrives else found.add)(move.topology.id)
    return found
