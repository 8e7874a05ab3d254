"""Machine code for the loops that go through every pair of a large cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

#: The functions make no arrays, so none need to count who holds one: half of the time otherwise.
_OPTIONS: dict[str, Any] = {"_nrt": False, "nogil": True}

#: Of all sources here. The functions call each other across modules, and the code on disk includes what is called.
_SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parents[1].rglob("*.py"))))


def compiled(function: F) -> F:
    """Compile `function` with Numba when it is first called; kept on disk, where that may be written to.

    Numba looks only at the module of a function for whether what is kept is still good, and files it by qualified name;
    so that has a digest of all sources in it.
    """
    function.__qualname__ = f"{function.__qualname__}.{_SOURCES.hexdigest()[:12]}"
    try:
        return cast(F, numba.njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # neither the package's directory nor the user's cache can be written to
        return cast(F, numba.njit(**_OPTIONS)(function))
