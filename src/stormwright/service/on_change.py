"""Logging of repeated messages only when they change."""

from __future__ import annotations

import re
from collections.abc import Callable

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class OnChange:
    """Hands a text on if it says something else than the one before; other numbers alone say nothing else.

    Parameters
    ----------
    say
        Takes the texts.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._said = ""

    def __call__(self, text: str) -> bool:
        """Say `text` where it is new; whether it was."""
        bare = _NUMBER.sub("#", text)
        if bare == self._said:
            return False
        self._said = bare
        self._say(text)
        return True

    def over(self) -> None:
        """Forget the last message: if it recurs, it is logged again."""
        self._said = ""
