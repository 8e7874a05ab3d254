"""State files that survive restarts, and recovery from damaged ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

log = logging.getLogger(__name__)

_T = TypeVar("_T")


def load_or_default(path: Path, read: Callable[[], _T], from_scratch: Callable[[], _T], lost: str) -> _T:
    """Return the result of `read` for a file, or of `from_scratch` without one.

    A damaged one, as after a loss of power, is renamed to ``*.damaged``.

    Parameters
    ----------
    path
        Path of the state file.
    read
        Reads it; raises if it is damaged.
    from_scratch
        Returns the state without a file.
    lost
        Log message for a damaged file.
    """
    if not path.exists():
        return from_scratch()
    try:
        return read()
    except OSError as error:
        log.warning("%s cannot be read (%s): %s", path, error, lost)
        return from_scratch()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s is damaged (%s): %s", path, error, lost)
        try:
            path.replace(path.with_suffix(".damaged"))
        except OSError:
            log.debug("it stays where it is", exc_info=True)
        return from_scratch()
