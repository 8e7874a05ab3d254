"""What a move promises, and what of it holds under the load that there was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stormwright.history.judged.window import Sample
from stormwright.history.judged.worse import Bar

#: Of the trees that may be pending, the part from which their number limits the rate; and of the rate that a placement
#: is predicted to sustain, where their number has no limit.
_ALL_PENDING, _ALL_SUSTAINED = 0.8, 0.9


@dataclass(frozen=True)
class Promise:
    """What is predicted of a topology in its new place, as multiples of what is predicted of it where it is.

    Parameters
    ----------
    inter_node
        Its traffic between nodes; None where there is none to be a multiple of.
    sustained
        Highest rate that it comes to.
    latency, full_latency
        Mean complete latency at the rate that was measured, and at the highest one; None where there is none.
    pending_limit
        Tuple trees that may be pending; None for no limit.
    sustained_tps, wanted_tps
        Trees/s that it is predicted to come to where it is and in its new place; None where nothing was predicted.
    worth
        What the new place is worth to it by what is wanted, the more the better; None where that is not predicted.
    rate_tps
        Trees/s as measured when it was predicted.
    """

    inter_node: float | None = None
    sustained: float | None = None
    latency: float | None = None
    full_latency: float | None = None
    pending_limit: float | None = None
    sustained_tps: float | None = None
    wanted_tps: float | None = None
    worth: float | None = None
    rate_tps: float = 0.0

    def holds_for(self, before: Sequence[Sample]) -> Bar:
        """What it comes to for the load of these windows.

        Spouts that wait for trees, or for executors, emit more where more is sustained. Others are limited from
        outside: what they emit stays as it is, as long as it is sustained.
        """
        if self.sustained is None or self.wanted_tps is None or not before:
            return Bar()
        rate_tps = float(np.mean([sample.acked_tps for sample in before]))
        if self._full(before, rate_tps):
            return Bar(self.sustained, self.full_latency or self.latency or 1.0)
        enough = self.wanted_tps >= rate_tps or not rate_tps
        return Bar(1.0 if enough else self.wanted_tps / rate_tps, self.latency or 1.0)

    def _full(self, before: Sequence[Sample], rate_tps: float) -> bool:
        told = [sample.pending for sample in before if sample.pending is not None]
        if self.pending_limit is not None and told:
            return float(np.mean(told)) >= _ALL_PENDING * self.pending_limit
        return self.sustained_tps is not None and rate_tps >= _ALL_SUSTAINED * self.sustained_tps
