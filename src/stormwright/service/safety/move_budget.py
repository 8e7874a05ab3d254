"""The move budget that adapts, kept over restarts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import orjson

from stormwright.controller.planning.plan import MoveBudget
from stormwright.controller.safety.holds import AdaptiveBudget, long_pause
from stormwright.service.storage.database import State

log = logging.getLogger(__name__)

_NAME = "budget"


class MoveBudgetKeeper:
    """How much may move now; used on the loop's thread.

    Parameters
    ----------
    state
        Keeps it.
    most
        What may move at most.
    pauses
        How long spouts were silent in the last moves, in seconds, this one's not among them.
    adapts
        Whether it adapts at all; else it is always the most, and nothing is kept.
    """

    def __init__(self, state: State, most: MoveBudget, pauses: Callable[[], Sequence[float]], adapts: bool) -> None:
        self._state, self.most, self._pauses, self._adapts = state, most, pauses, adapts
        kept = state.document(_NAME).load() if adapts else None
        self._now = AdaptiveBudget(**orjson.loads(kept)) if kept else AdaptiveBudget()

    def now(self) -> MoveBudget:
        """What one decision may move."""
        return self._now.of(self.most) if self._adapts else self.most

    def status(self) -> dict[str, object]:
        """For the status: ``topologies`` now and at ``most``, and ``why`` it was lowered."""
        return {"topologies": self.now().max_topologies, "most": self.most.max_topologies, "why": self._now.why}

    def moved(self, name: str, pause_s: float, rolled_back: bool) -> None:
        """A topology was moved.

        Parameters
        ----------
        name
            Of it.
        pause_s
            For so long its spouts were silent.
        rolled_back
            Whether that took back a move after which it did worse.
        """
        if not self._adapts:
            return
        if rolled_back:
            self._lower(f"the move of {name} was rolled back")
        elif long_pause(pause_s, self._pauses()):
            self._lower(f"{name} paused for {pause_s:.0f} s, longer than usual")
        else:
            self._now.went_well(self.most)
            self._save()

    def failed(self, name: str) -> None:
        """A topology could not be moved."""
        if self._adapts:
            self._lower(f"{name} could not be moved")

    def _lower(self, why: str) -> None:
        before = self.now().max_topologies
        self._now.went_badly(why)
        if self.now().max_topologies < before:
            log.info("one decision moves %d topologies at most from now on: %s", self.now().max_topologies, why)
        self._save()

    def _save(self) -> None:
        document = orjson.dumps({"topologies": self._now.topologies, "why": self._now.why}).decode()
        self._state.document(_NAME).save(document)
