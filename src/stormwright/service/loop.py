"""The loop of the service: each second it decides, and carries out what was decided."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from stormwright.client.shapes import Mode
from stormwright.clock import WALL, Clock
from stormwright.controller.plans.modes import AUTO, SUGGEST
from stormwright.controller.policy import Decision
from stormwright.errors import StormwrightError
from stormwright.service.decider import Decider
from stormwright.service.executor import MoveExecutor
from stormwright.service.on_change import OnChange

log = logging.getLogger(__name__)


class _Dealing(Protocol):
    """Dispatches decisions, and advances plans."""

    def advance(self, stop: threading.Event | None) -> bool:
        """Advance the active plan by one step; return whether there is one."""

    def verdict(self, decision: Decision) -> tuple[Mode, str]:
        """Return what is done with a decision, and the reason."""

    def propose(self, decision: Decision) -> None:
        """Make it a plan that waits for a person."""


class Loop:
    """Keeps the placement good.

    Parameters
    ----------
    looking
        Decides.
    acting
        Moves what was decided.
    require_running
        Raises where the service cannot go on.
    resume
        Activates what earlier moves left paused.
    dealing
        Tells what becomes of decisions, and applies plans of people.
    clock
        Of the cluster.
    """

    def __init__(
        self,
        looking: Decider,
        acting: MoveExecutor,
        require_running: Callable[[], None],
        resume: Callable[[], None],
        dealing: _Dealing,
        clock: Clock = WALL,
    ) -> None:
        self._clock = clock
        self._looking = looking
        self._acting = acting
        self._require_running = require_running
        self._resume = resume
        self._dealing = dealing
        self._say = OnChange(log.info)

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Keep the placement good until `stop` is set.

        Raises
        ------
        StormwrightError
            Spark has ended. What supervises this process starts it again.
        """
        while not self._clock.stopped(stop, every_s):
            self._require_running()
            try:
                self._once(stop)
            except StormwrightError as error:
                # Nimbus may be restarting, or a bolt hold its tuples: the next look is another try.
                self._tell(str(error))
            except Exception as error:
                # A bug, or a full disk. Nimbus gets its answers as long as this process lives.
                self._tell(f"the look failed, and is tried again: {type(error).__name__}: {error}", error)

    def _once(self, stop: threading.Event) -> None:
        self._resume()
        if self._dealing.advance(stop):
            return
        decision = self._looking.look()
        mode, why = self._dealing.verdict(decision)
        self._tell(_told(decision, mode, why))
        if mode == AUTO:
            self._acting.act(decision, stop)
        elif mode == SUGGEST:
            self._dealing.propose(decision)

    def _tell(self, text: str, error: Exception | None = None) -> None:
        """Each second may end in the same."""
        if text and self._say(text) and error:
            log.debug("what failed", exc_info=error)


def _told(decision: Decision, mode: Mode, why: str) -> str:
    if not decision.looked or mode == AUTO or not decision.plan.moves:
        return decision.reason if decision.looked else ""
    # One that goes by way of spare slots has two moves.
    names = ", ".join(dict.fromkeys(move.topology.name for move in decision.plan.moves))
    return f"{why}, {names} would move: {decision.reason}"
