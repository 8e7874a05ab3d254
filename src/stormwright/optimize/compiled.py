"""Machine code for the loops that go through every pair of a large cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

#: The functions make no arrays, so none need to count who holds one: half of the time otherwise.
_OPTIONS: dict[str, Any] = {"_nrt": False}


def compiled(function: F) -> F:
    """Compile `function` with Numba when it is first called; kept on disk, where that may be written to."""
    try:
        return cast(F, numba.njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # neither the package's directory nor the user's cache can be written to
        return cast(F, numba.njit(**_OPTIONS)(function))
