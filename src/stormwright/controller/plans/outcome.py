"""What came of a stage, beside what was promised: better or as good, or nobody can say."""

from __future__ import annotations

from collections.abc import Sequence

from stormwright.history.judged.evaluation import INTER_NODE, LATENCY
from stormwright.history.judged.judging import Judgement

#: Quantities of which less is better.
_LESS_IS_BETTER = (LATENCY, INTER_NODE)


def unclear(judgements: Sequence[Judgement]) -> str:
    """Why a person has to look at what came of a topology's move; empty where it came as promised or better.

    A change for the better counts as kept although it is smaller than promised, as long as it is one beyond chance.
    That a topology does worse is found out before, and by other means (`stormwright.history.judged.worse`).
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
