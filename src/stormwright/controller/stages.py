"""Stages of a plan: one topology, then a few, then the rest, each evaluated before the next begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stormwright.plans.plan import Move

#: Size of the first stage, and of the second: minimum number, and part of all.
FIRST, FEW, FEW_PART = 1, 3, 0.1


def staged(steps: Sequence[Move]) -> list[int]:
    """Return the stage of every step, from 0.

    A stage ends only when no topology is in a spare slot, so that a plan can stop between stages.
    Topologies that change places are one step, so a stage may have more than it is meant to.
    """
    total = len({move.topology for step in steps for move in step.moves})
    most = [FIRST, max(FEW, round(FEW_PART * total))]
    found, stage, moved = [], 0, set[str]()
    away = set[str]()
    for step in steps:
        found.append(stage)
        moved |= {move.topology for move in step.moves}
        away = away_after([step], away)
        if stage < len(most) and len(moved) >= most[stage] and not away:
            stage, moved = stage + 1, set()
    return found


def away_after(steps: Iterable[Move], away: Iterable[str] = ()) -> set[str]:
    """Return topologies (ids) that are in spare slots after the steps.

    Parameters
    ----------
    steps
        Steps in the order in which they are made.
    away
        Topologies in spare slots before.
    """
    found = set(away)
    for step in steps:
        for move in step.moves:
            (found.discard if move.arrives else found.add)(move.topology)
    return found
