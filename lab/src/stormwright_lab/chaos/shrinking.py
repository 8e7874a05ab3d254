"""Shrinking of a failing scenario or schedule to the smallest one that still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, Self, TypeVar


class Reducible(Protocol):
    """Something that fails and may have smaller variants."""

    def smaller(self) -> Iterator[Self]: ...


_Case = TypeVar("_Case", bound=Reducible)


def smallest(case: _Case, fails: Callable[[_Case], bool]) -> _Case:
    """Return the smallest variant of a failing case that still fails; each part left is necessary.

    Parameters
    ----------
    case
        A scenario or schedule that fails.
    fails
        Runs a smaller one, and returns whether it fails too.
    """
    while (found := next(filter(fails, case.smaller()), None)) is not None:
        case = found
    return case
