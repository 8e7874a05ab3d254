"""Reports of the compilation of machine code, which takes long at the first use of an installation without prebuilt
code."""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import Any

log = logging.getLogger(__name__)

#: Package with compiled functions → its work, for messages.
_WORK = {"stormwright.optimize": "the search", "stormwright.simulator": "the simulator"}


def report_compilation() -> None:
    """Log once per package if Numba compiles its functions, from now on; nothing happens before Numba is imported."""
    if "numba" in sys.modules:
        _listen()


@cache
def _listen() -> None:
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            """See Numba."""
            module = event.data["dispatcher"].py_func.__module__
            _report(".".join(module.split(".")[:2]))

        def on_end(self, event: Any) -> None:
            """See Numba."""

    event.register("numba:compile", Listener())


@cache
def _report(package: str) -> None:
    if package in _WORK:
        log.info("compiling %s, once, about a minute", _WORK[package])
