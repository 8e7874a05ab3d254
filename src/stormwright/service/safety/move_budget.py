"""The adaptive move budget, stored over restarts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import orjson

from stormwright.base.documents import read_or_default
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.safety.holds import AdaptiveBudget, long_pause
from stormwright.service.storage.database import State

log = logging.getLogger(__name__)

_NAME = "budget"


class MoveBudgetKeeper:
    """The current move budget; used on the thread of the control loop.

    Parameters
    ----------
    state
        Database of the service, which stores the budget over restarts.
    most
        Upper limit of the budget, from the settings.
    pauses
        Returns the pauses of earlier moves, in seconds.
    adapts
        Whether the budget adapts; otherwise it is always `most`.
    """

    def __init__(self, state: State, most: MoveBudget, pauses: Callable[[], Sequence[float]], adapts: bool) -> None:
        self._state, self.most, self._pauses, self._adapts = state, most, pauses, adapts
        self._now = AdaptiveBudget()
        if adapts:
            lost = "the budget of moves begins at its maximum"
            self._now = read_or_default(
                state.document(_NAME), lambda text: AdaptiveBudget(**orjson.loads(text)), AdaptiveBudget, lost
            )

    def now(self) -> MoveBudget:
        """Return the budget of one decision."""
        return self._now.of(self.most) if self._adapts else self.most

    def status(self) -> dict[str, object]:
        """For the status: ``topologies`` now and at ``most``, and ``why`` it was lowered."""
        return {"topologies": self.now().max_topologies, "most": self.most.max_topologies, "why": self._now.why}

    def moved(self, name: str, pause_s: float, rolled_back: bool) -> None:
        """Adapt the budget after a move.

        Parameters
        ----------
        name
            Name of the topology.
        pause_s
            Time without output of its spouts, in seconds.
        rolled_back
            Whether the move was a rollback.
        """
        if not self._adapts:
            return
        if rolled_back:
            self._lower(f"the move of {name} was rolled back")
        elif long_pause(pause_s, self._pauses()):
            self._lower(f"{name} paused for {pause_s:.0f} s, longer than usual")
        else:
            self._now.record_success(self.most)
            self._save()

    def failed(self, name: str) -> None:
        """Lower the budget after a failed move."""
        if self._adapts:
            self._lower(f"{name} could not be moved")

    def _lower(self, why: str) -> None:
        before = self.now().max_topologies
        self._now.record_failure(why)
        if self.now().max_topologies < before:
            log.info("one decision moves %d topologies at most from now on: %s", self.now().max_topologies, why)
        self._save()

    def _save(self) -> None:
        document = orjson.dumps({"topologies": self._now.topologies, "why": self._now.why}).decode()
        self._state.document(_NAME).save(document)
