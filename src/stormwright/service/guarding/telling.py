"""What of the service's own doings the outside is told: plans that wait for a person, and that nothing moves."""

from __future__ import annotations

import logging
from collections.abc import Callable

from stormwright.controller.safety.holds import Hold
from stormwright.service.hooks.event import ServiceEvent
from stormwright.service.operating.plans import KeptPlans

log = logging.getLogger(__name__)

#: States of a plan in which a person has to look at it.
_TOLD = ("waiting", "stopped", "failed", "proposed")

#: Why nothing moves that is worth to be told: that a service has just started is not.
_HOLDS = ("missing", "rebalancing", "silent", "stale")


class Telling:
    """Looks each second what there is to tell.

    Parameters
    ----------
    plans
        Tell where they stand.
    hold
        Why nothing moves; None where things may.
    tell
        Takes events.
    """

    def __init__(self, plans: KeptPlans, hold: Callable[[], Hold | None], tell: Callable[[ServiceEvent], None]) -> None:
        self._plans, self._hold, self._tell = plans, hold, tell
        # What stood so before the service started was told by the one before.
        self._known = {(plan, state) for plan, state, _ in plans.standing(_TOLD)}
        self._held = ""

    def look(self) -> None:
        """Tell what is new."""
        stand = self._plans.standing(_TOLD)
        for plan, state, told in stand:
            if (plan, state) not in self._known:
                log.info("plan %s is %s: %s", plan, state, told)
                self._tell(ServiceEvent("plan", f"plan {plan}", f"it is {state}: {told}"))
        self._known = {(plan, state) for plan, state, _ in stand}
        hold = self._hold()
        word = hold.word if hold and hold.word in _HOLDS else ""
        if word != self._held:
            if self._held:
                log.info("things may move again")
                self._tell(ServiceEvent("hold", self._held, "things may move again", over=True))
            if hold and word:
                log.warning("nothing moves: %s", hold.why)
                self._tell(ServiceEvent("hold", word, hold.why))
            self._held = word
