"""The loop of the service: each second it decides, and executes plans."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from stormwright.base.clock import WALL, Clock
from stormwright.controller.requests import NoPlan
from stormwright.errors import StormwrightError
from stormwright.plans.modes import AUTO, SUGGEST
from stormwright.plans.plan import Plan
from stormwright.service.decider import Decider
from stormwright.service.on_change import OnChange
from stormwright.service.plans.executor import PlanExecutor
from stormwright.service.plans.guard import Guard

log = logging.getLogger(__name__)


class Loop:
    """Keeps the placement good.

    Parameters
    ----------
    decider
        Decides what should move.
    guard
        Modes, which say what is done with a decision.
    suggest
        Stores a plan, which waits for a person.
    executor
        Executes plans, those of the service and of people.
    before_each
        Called each second before anything else; raises if the service cannot go on.
    clock
        Clock of the cluster.
    """

    def __init__(
        self,
        decider: Decider,
        guard: Guard,
        suggest: Callable[[Plan], object],
        executor: PlanExecutor,
        before_each: Sequence[Callable[[], object]] = (),
        clock: Clock = WALL,
    ) -> None:
        self._decider, self._guard, self._suggest, self._executor = decider, guard, suggest, executor
        self._before_each, self._clock = before_each, clock
        self._log_changed = OnChange(log.info)

    def run(self, stop: threading.Event, every_s: float, require_running: Callable[[], None] = lambda: None) -> None:
        """Keep the placement good until `stop` is set.

        Parameters
        ----------
        stop
            Event that ends the loop once it is set.
        every_s
            Seconds between two rounds.
        require_running
            Called in each round; what it raises ends the loop.

        Raises
        ------
        StormwrightError
            Spark has ended. The supervisor of this process restarts it.
        """
        while not self._clock.stopped(stop, every_s):
            require_running()
            try:
                self._advance(stop)
            except StormwrightError as error:
                # Nimbus may be restarting, or a bolt may hold its tuples: the next round is another try.
                self._report(str(error))
            except Exception as error:
                # A bug, or a full disk. Nimbus gets its answers as long as this process lives.
                self._report(f"a round failed and is tried again: {type(error).__name__}: {error}", error)

    def _advance(self, stop: threading.Event) -> None:
        for work in self._before_each:
            work()
        if self._executor.advance(stop):
            return
        decision = self._decider.decide()
        if isinstance(decision, NoPlan):
            self._report(decision.reason if decision.searched else "")
            return
        mode, why = self._guard.verdict(decision)
        if mode == AUTO:
            self._report(decision.reason)
            self._executor.execute(decision, stop)
            return
        # A topology on a detour has two moves.
        names = ", ".join(dict.fromkeys(move.name for move in decision.moves))
        self._report(f"{why}, {names} would move: {decision.reason}")
        if mode == SUGGEST:
            self._suggest(decision)

    def _report(self, text: str, error: Exception | None = None) -> None:
        """Log a text unless it is the same as in the last round."""
        if text and self._log_changed(text) and error:
            log.debug("what failed", exc_info=error)
