"""What is given up, and what is forgotten, as time goes by."""

from __future__ import annotations

from stormwright.service.operating.ledger import Ledger
from stormwright.service.operating.plans import KeptPlans

#: Proposals that nobody has applied after so many seconds are discarded: the load has changed.
PROPOSED_S = 3600.0

_DAY_MS = 86_400_000


class Tidying:
    """Gives up what was proposed long ago; once a day forgets plans and what was done.

    Parameters
    ----------
    plans, ledger
        Keep them.
    keep_days
        For so long.
    """

    def __init__(self, plans: KeptPlans, ledger: Ledger, keep_days: int) -> None:
        self._plans, self._ledger, self._keep_days, self._last_ms = plans, ledger, keep_days, 0.0

    def tidy(self) -> None:
        """Do what is due; cheap enough for each second."""
        now_ms = self._plans.clock.time() * 1000
        self._plans.give_up(now_ms - PROPOSED_S * 1000, "nobody has applied it for an hour")
        if now_ms - self._last_ms > _DAY_MS:
            before_ms = now_ms - self._keep_days * _DAY_MS
            self._plans.forget(before_ms)
            self._ledger.forget(before_ms)
            self._last_ms = now_ms
