"""Whether a move came as promised, or a person has to look at it."""

from __future__ import annotations

from collections.abc import Sequence

from stormwright.history.evaluation.moves import HIGHEST_RATE, INTER_NODE, LATENCY
from stormwright.history.evaluation.verdict import Evaluation

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
