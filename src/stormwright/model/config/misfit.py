"""What is wrong with a configuration, as those find who read it."""

from __future__ import annotations

from typing import NamedTuple


class Misfit(NamedTuple):
    """A value that Storm would refuse: what it should be, what it is, and the keys and positions that lead to it."""

    message: str
    value: object
    steps: tuple[str | int, ...]
