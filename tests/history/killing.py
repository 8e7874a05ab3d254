"""Kills in one process: whatever is called for the n-th time ends it, before or after it has done its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest


class Killed(BaseException):
    """As kill −9: nothing catches it."""


def each_kill(points: Sequence[tuple[Any, str]], run: Callable[[], object]) -> Iterator[str]:
    """Run again and again, each time killed at a later one of the calls of `points` (object, attribute).

    Yields after each kill where it was, and ends with the first run that survives.
    """
    number = 0
    while True:
        where = _killed_at(points, run, number)
        if where is None:
            assert number > len(points), "no run was killed"
            return
        yield where
        number += 1


def _killed_at(points: Sequence[tuple[Any, str]], run: Callable[[], object], number: int) -> str | None:
    calls = 0

    def killing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 2
            if calls - 2 == number:
                raise Killed(f"before {name}")
            value = function(*args, **kwargs)
            if calls - 1 == number:
                raise Killed(f"after {name}")
            return value

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in points:
            patch.setattr(owner, name, killing(name, getattr(owner, name)))
        try:
            run()
        except Killed as killed:
            return str(killed)
    return None
