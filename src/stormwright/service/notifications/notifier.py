"""Asynchronous notification of events."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from stormwright.errors import HookError

log = logging.getLogger(__name__)

#: Kind of an event → what it is.
KINDS: Final = {
    "slow-node": "a node is slow",
    "node-lost": "a node is away",
    "overload": "a node is overloaded",
    "capacity": "a node declares other CPU than it may use",
    "hold": "nothing moves any more",
    "plan": "a plan waits for a person, or has failed",
    "rolled-back": "a move was rolled back, as a topology performed worse",
    "move-failed": "a move failed",
}

#: Seconds after a try that failed until the next; after the last the event is given up.
WAITS_S = (1.0, 5.0, 30.0, 120.0)

#: Events that wait for a place to be told them, at most.
MAX_WAITING = 100

#: Seconds that a call under way has to finish when the service ends.
SHUTDOWN_TIMEOUT_S = 12.0


class RefusedError(HookError):
    """It would be refused again."""


@dataclass(frozen=True)
class ServiceEvent:
    """Something that happened, or is over.

    Parameters
    ----------
    kind
        Key of `KINDS`, by which targets select events.
    subject
        What it is about: a node, a topology, a plan.
    text
        Message to send, as one sentence.
    over
        Whether it is so no longer.
    at_ms
        Time of the event in ms since 1970; now by default.
    """

    kind: str
    subject: str
    text: str
    over: bool = False
    at_ms: int = field(default_factory=lambda: round(time.time() * 1000))

    @property
    def title(self) -> str:
        """A line."""
        return f"stormwright: {self.subject}: {KINDS[self.kind]}" + (", no longer" if self.over else "")


@dataclass(frozen=True)
class Target:
    """A notification target and its events.

    Parameters
    ----------
    kinds
        Kinds of events that it receives, keys of `KINDS`.
    shown
        Description of it without secrets.
    send
        Sends one event; raises HookError where it cannot.
    """

    kinds: frozenset[str]
    shown: str
    send: Callable[[ServiceEvent], object]


class Notifier:
    """Notifies each target of its events, in order, in its own thread; a context manager.

    An event that cannot be sent is tried again, less and less often, and dropped after the last of `WAITS_S`; of events
    that wait the oldest is given up where there are `MAX_WAITING`.

    Parameters
    ----------
    targets
        Targets, each with a queue and thread of its own.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._lines = [_Line(target) for target in targets]
        self._leaving: list[_Line] = []

    def __enter__(self) -> Self:
        for line in self._lines:
            line.start()
        return self

    def change(self, targets: Sequence[Target]) -> None:
        """Replace the targets; queued events still go to the old ones."""
        lines = [_Line(target) for target in targets]
        for line in lines:
            line.start()
        before, self._lines = self._lines, lines
        for line in before:
            line.leave()
        self._leaving = [line for line in (*self._leaving, *before) if line.runs()]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        lines = [*self._lines, *self._leaving]
        for line in lines:
            line.end()
        for line in lines:
            line.join()

    def notify(self, event: ServiceEvent) -> None:
        """Take an event; returns at once."""
        for line in self._lines:
            line.take(event)


class _Line:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._waiting: deque[ServiceEvent] = deque()
        self._ending, self._leaving = False, False
        self._changed = threading.Condition()
        # A daemon: a place that never answers does not keep the service from ending.
        self._thread = threading.Thread(target=self._run, name="stormwright-notify", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def runs(self) -> bool:
        return self._thread.is_alive()

    def leave(self) -> None:
        with self._changed:
            self._leaving = True
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify()

    def join(self) -> None:
        self._thread.join(SHUTDOWN_TIMEOUT_S)

    def take(self, event: ServiceEvent) -> None:
        if event.kind not in self._target.kinds:
            return
        with self._changed:
            if len(self._waiting) == MAX_WAITING:
                log.warning(
                    "%s: %s was dropped, as %d notifications are queued",
                    self._target.shown,
                    self._waiting[0].title,
                    MAX_WAITING,
                )
                self._waiting.popleft()
            self._waiting.append(event)
            self._changed.notify()

    def _run(self) -> None:
        while (event := self._next()) is not None:
            for wait_s in (*WAITS_S, None):
                why = self._try(event)
                if why is None or self._over(wait_s):
                    break
            if why is not None:
                log.warning("%s: notification of %s failed: %s", self._target.shown, event.title, why)

    def _try(self, event: ServiceEvent) -> str | None:
        """Deliver an event; return the error if a retry makes sense."""
        try:
            self._target.send(event)
        except RefusedError as error:
            log.warning("%s: notification of %s failed: %s", self._target.shown, event.title, error)
        except HookError as error:
            return str(error)
        except Exception as error:  # a bug, whose text may have the address in it
            log.debug("%s", traceback.format_exc())
            return type(error).__name__
        return None

    def _over(self, wait_s: float | None) -> bool:
        """Wait for the next try; whether there is none."""
        if wait_s is None:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._ending, wait_s)

    def _next(self) -> ServiceEvent | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending or self._leaving)
            return self._waiting.popleft() if self._waiting and not self._ending else None
