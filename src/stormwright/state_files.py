"""Files in which something is kept over restarts, and what becomes of one that is damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

log = logging.getLogger(__name__)

_T = TypeVar("_T")


def unless_damaged(path: Path, read: Callable[[], _T], from_scratch: Callable[[], _T], lost: str) -> _T:
    """What `read` makes of a file, or `from_scratch` where there is none.

    One that makes no sense, as after a loss of power, is put aside as ``*.damaged``.

    Parameters
    ----------
    path
        The file.
    read
        Reads it; raises where it is damaged.
    from_scratch
        What there is without it.
    lost
        What the log says of one that is damaged.
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
