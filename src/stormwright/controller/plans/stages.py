"""Stages of a plan: one topology, then a few, then the rest, each evaluated before the next begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stormwright.controller.planning.plan import Step
from stormwright.history.evaluation.moves import INTER_NODE, LATENCY
from stormwright.history.evaluation.verdict import Judgement

# Outcome ------------------------------------------------------------------------------------------
# What came of a stage, beside what was promised: better or as good, or nobody can say.

#: Quantities of which less is better.
_LESS_IS_BETTER = (LATENCY, INTER_NODE)


def unclear(judgements: Sequence[Judgement]) -> str:
    """Return why the outcome of a move needs review; empty if it came as promised or better.

    A change for the better counts as kept although it is smaller than promised, as long as it is one beyond chance.
    That a topology does worse is found out before, and by other means (`stormwright.history.evaluation.moves`).
    """
    if not judgements:
        return "nothing was measured of it since"
    return "; ".join(filter(None, map(_unclear, judgements)))


def _unclear(judged: Judgement) -> str:
    if judged.measured is None or judged.low is None or judged.high is None:
        return f"{judged.quantity}: too little was measured"
    # As gains: the more, the better.
    sign = -1.0 if judged.quantity in _LESS_IS_BETTER else 1.0
    promised, worst, best = sign * judged.predicted, *sorted((sign * judged.low, sign * judged.high))
    better = worst > sign
    kept = promised <= sign + _NO_CHANGE and best >= promised and worst >= min(promised, sign) - _DOUBT
    if better or kept:
        return ""
    span = f"{judged.measured:.2f} of what it was ({judged.low:.2f} to {judged.high:.2f})"
    return f"{judged.quantity} is {span}, and {judged.predicted:.2f} was promised"


#: A promise of less than this part is one of no change; and how much worse than that it may be for all that is known.
_NO_CHANGE, _DOUBT = 0.01, 0.2


# Stages -------------------------------------------------------------------------------------------

#: Topologies of the first stage, and of the second: at least so many, or this part of all.
FIRST, FEW, FEW_PART = 1, 3, 0.1


def staged(steps: Sequence[Step]) -> list[int]:
    """Return the stage of every step, from 0.

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
    """Return topologies (ids) that are in spare slots after the steps.

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
