"""Logging of repeated messages only when they change."""

from __future__ import annotations

import re
from collections.abc import Callable

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class OnChange:
    """Passes a message on unless it equals the last one up to numbers.

    Parameters
    ----------
    say
        Takes the messages, as `logging.Logger.warning` does.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._last = ""

    def __call__(self, text: str) -> bool:
        """Pass a message on if it is new; return whether it was."""
        bare = _NUMBER.sub("#", text)
        if bare == self._last:
            return False
        self._last = bare
        self._say(text)
        return True

    def over(self) -> None:
        """Forget the last message: if it recurs, it is logged again."""
        self._last = ""
