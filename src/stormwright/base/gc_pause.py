"""Pausing garbage collection."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()

#: Blocks that pause it now, and whether it was enabled before the first of them.
_depth, _was_enabled = 0, False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Suspend cyclic garbage collection: among millions of new objects it costs more than creating them.

    Several threads may pause it at once; it resumes when the last of them has ended its block.
    """
    global _depth, _was_enabled
    with _lock:
        if _depth == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0 and _was_enabled:
                gc.enable()
