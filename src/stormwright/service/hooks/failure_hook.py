"""Tells somebody outside of topologies that have no slots: what the operator names."""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Collection
from types import TracebackType
from typing import Self

from stormwright.errors import HookError
from stormwright.service.hooks.hook_program import LIMIT_S, Hook
from stormwright.storm.bridge import Failure

log = logging.getLogger(__name__)

#: Seconds that a call under way has to finish when the service ends: a little more than its process has.
FAREWELL_S = LIMIT_S + 2

#: A number by itself; digits within a name (``bolt-2``, ``10.0.0.7``, ``"4"``) are part of the name.
_NUMBER = re.compile(r"(?<![\w.\"'-])[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)(?![\w-])(?!\.\w)", re.IGNORECASE)


class FailureHook:
    """Calls `hook` once for every topology that cannot be placed, and again when other reasons come.

    A context manager; the calls come one at a time, from a thread of its own, while the `with` block runs.

    1. A topology that is placed, or gone, is forgotten: if it fails later, that is news.
    2. However slow the hook is, nothing piles up: of each topology only the newest failure waits, and none of one that
       is over.
    3. What the hook raises is logged, and the failure counts as told.
    4. Reasons that differ in numbers alone are the same: those measured are others in every answer.
    5. Another hook is told of all that fail by then. Without one nobody is told, and all of it is news to the first.
    """

    def __init__(self, hook: Hook | None) -> None:
        self._hook = hook
        self._failing: dict[str, Failure] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._closing = False
        self._changed = threading.Condition()
        # A daemon: a hook that never returns does not keep the service from ending.
        self._thread = threading.Thread(target=self._run, name="stormwright-on-failure", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(FAREWELL_S)

    def update(self, failures: Collection[Failure]) -> None:
        """Take note of all that cannot be placed now; returns at once."""
        with self._changed:
            self._failing = {failure.topology_id: failure for failure in failures}
            self._told = {t: reasons for t, reasons in self._told.items() if t in self._failing}  # 1
            self._changed.notify()

    def change(self, hook: Hook | None) -> None:
        """Tell somebody else from now on, or nobody."""
        with self._changed:
            self._hook, self._told = hook, {}  # 5
            self._changed.notify()

    def _run(self) -> None:
        while following := self._next():
            hook, failure = following
            try:
                hook(failure)
            except HookError as error:  # 3
                self._complain(failure, str(error))
            except (Exception, SystemExit):
                self._complain(failure, traceback.format_exc())

    def _complain(self, failure: Failure, text: str) -> None:
        log.warning("--on-failure, told of %s: %s", failure.topology_name, text)

    def _next(self) -> tuple[Hook, Failure] | None:
        """Waits for a failure that the hook does not know of yet; None once the service ends."""
        with self._changed:
            while not self._closing:
                hook = self._hook
                for failure in self._failing.values():  # 2
                    reasons = tuple(_NUMBER.sub("#", reason) for reason in failure.reasons)  # 4
                    if hook and self._told.get(failure.topology_id) != reasons:
                        self._told[failure.topology_id] = reasons
                        return hook, failure
                self._changed.wait()
            return None
