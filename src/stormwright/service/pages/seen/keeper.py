"""Something that takes long to make, kept while it is fresh; who asks gets the last one at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

_Made = TypeVar("_Made")

#: It is made at most this part of the time, however often it is asked for.
_PART_OF_TIME = 0.1


class Keeper(Generic[_Made]):
    """Makes a thing anew, in a thread of its own, when somebody asks for it and the last one is old.

    Parameters
    ----------
    make
        Takes the last one (None at first), and gives the next, or None where there is none.
    fresh_s
        Seconds for which one is new enough; longer where it takes long to make.
    """

    def __init__(self, make: Callable[[_Made | None], _Made | None], fresh_s: float) -> None:
        self._make, self._fresh_s = make, fresh_s
        self._lock = threading.Lock()
        self._made = threading.Event()
        self._value: _Made | None = None
        self._due_s = float("-inf")
        self._busy = False
        #: Why the last one could not be made; empty where it could.
        self.error = ""
        #: Seconds from one to the next.
        self.every_s = fresh_s

    def get(self, wait_s: float = 0.0) -> _Made | None:
        """The last one made; where there is none yet, or none any more, wait for it so long at most."""
        with self._lock:
            begin = not self._busy and time.monotonic() >= self._due_s
            if begin:
                self._busy = True
                self._made.clear()
        if begin:
            threading.Thread(target=self._renew, name="stormwright-pages", daemon=True).start()
        if self._value is None and wait_s:
            self._made.wait(wait_s)
        return self._value

    def _renew(self) -> None:
        began_s = time.monotonic()
        try:
            self._value = self._make(self._value)
            self.error = ""
        except Exception as error:  # a page says so; the service goes on
            log.warning("the dashboard cannot show what runs: %s: %s", type(error).__name__, error)
            log.debug("what failed", exc_info=error)
            self.error = f"{type(error).__name__}: {error}"
        with self._lock:
            took_s = time.monotonic() - began_s
            self.every_s = max(self._fresh_s, took_s / _PART_OF_TIME)
            # What is not there yet may be there soon.
            self._due_s = time.monotonic() + (self.every_s if self._value is not None else min(self.every_s, 1.0))
            self._busy = False
        self._made.set()
