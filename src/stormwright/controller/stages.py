"""Stages of a plan: one topology, then a few, then the rest, each evaluated before the next begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stormwright.history.evaluation.moves import HIGHEST_RATE, INTER_NODE, LATENCY
from stormwright.history.evaluation.verdict import Evaluation
from stormwright.plans.plan import Move

# Outcome ------------------------------------------------------------------------------------------
# Outcome of a stage compared with its promise: at least as good, or unclear.

#: Quantities of which less is better.
_LESS_IS_BETTER = (LATENCY, INTER_NODE)


def unclear(evaluations: Sequence[Evaluation]) -> str:
    """Return why the outcome of a move needs review; empty if it came as promised or better.

    A significant improvement counts as a success even if it is smaller than promised. Regressions are detected earlier
    and separately (`stormwright.history.evaluation.moves`). The highest rate is compared with its prediction only: it
    does not say whether the topology is better off.
    """
    compared = [each for each in evaluations if each.quantity != HIGHEST_RATE]
    if not compared:
        return "nothing was measured of it since"
    return "; ".join(filter(None, map(_unclear, compared)))


def _unclear(evaluated: Evaluation) -> str:
    if evaluated.measured is None or evaluated.low is None or evaluated.high is None:
        return f"{evaluated.quantity}: too little was measured"
    # Converted to gains: more is better.
    sign = -1.0 if evaluated.quantity in _LESS_IS_BETTER else 1.0
    promised, worst, best = sign * evaluated.predicted, *sorted((sign * evaluated.low, sign * evaluated.high))
    better = worst > sign
    holds = promised <= sign + _NO_CHANGE and best >= promised and worst >= min(promised, sign) - _DOUBT
    if better or holds:
        return ""
    span = f"{evaluated.measured:.2f} of what it was ({evaluated.low:.2f} to {evaluated.high:.2f})"
    return f"{evaluated.quantity} is {span}, and {evaluated.predicted:.2f} was promised"


#: Relative size below which a promise means no change; and tolerated deterioration in that case.
_NO_CHANGE, _DOUBT = 0.01, 0.2


# Stages -------------------------------------------------------------------------------------------

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
