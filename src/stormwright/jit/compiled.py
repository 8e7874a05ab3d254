"""Decorators that compile loops to machine code: over every pair of a large cluster, and every tuple of one.

`compiled` is for functions that Python calls: their machine code is stored on disk (`cache`). `inner` is for those that
only compiled ones call: they have no code of their own, but become part of their callers (`inlined`); `seldom` for
those that are called only if a problem needs it, `often` for those that are called at every step. Either way a
function is compiled once: any whole number, such as a field of 32 bits, is one of 64 bits to it.

Such functions are limited by how they are compiled. They allocate no arrays, as memory is not counted
(`_nrt`): all scratch comes with their arguments, and NumPy expressions that would allocate an array do not compile.
They release the interpreter's lock, so that threads run in parallel, on arrays that they do not share. Arguments
are numbers, arrays and named tuples of these; a named tuple is the same type each time only if its fields are, which
is why values from Python numbers are converted to `float` or `int` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numpy.typing import NDArray

from stormwright.jit.cache import CachedCode, CompiledPackage
from stormwright.jit.inlined import OftenPartCompiler, PartCompiler, SeldomPartCompiler, WholeCompiler

#: An array of records, and one of its records, of which Numba knows the fields.
Records: TypeAlias = NDArray[np.void]
Record: TypeAlias = Any

F = TypeVar("F", bound=Callable[..., object])

#: Every compiled function that Python calls.
ENTRIES: list[Any] = []

#: The functions allocate no arrays, so reference counting is off: it takes half of the time otherwise.
_OPTIONS: dict[str, Any] = {"_nrt": False, "nogil": True, "no_cfunc_wrapper": True}


def compiled(function: F) -> F:
    """Compile `function` with Numba when it is first called, unless its machine code is stored on disk.

    Parameters
    ----------
    function
        Calls no Python. In compiled ones that call it, it is a part as `inner` ones are. Its qualified name gets a part
        of the digest of all sources of its package, under which Numba files the code: other sources are another file,
        even if the function itself is the same.

    Returns
    -------
    A function that is called like `function`, and is in `ENTRIES`.
    """
    function.__qualname__ = (
        f"{function.__qualname__}.{CompiledPackage.of(function).short_digest}"  # by which Numba files it
    )
    dispatcher = numba.njit(pipeline_class=WholeCompiler, **_OPTIONS)(function)
    dispatcher._cache = CachedCode(function)  # noqa: SLF001 (Numba knows its own cache only)
    ENTRIES.append(dispatcher)
    part: Any = inner(function)
    if hasattr(part, "get_overload"):  # a dispatcher; a plain function, with NUMBA_DISABLE_JIT
        dispatcher.get_call_template, dispatcher.get_overload = part.get_call_template, part.get_overload
    return cast(F, dispatcher)


def inner(function: F) -> F:
    """Compile `function`, which only compiled functions call, as a part of these.

    It cannot be called from Python, as it has no code of its own (`inlined`). To try one, call a `compiled`
    function around it, or set NUMBA_DISABLE_JIT, by which all of them stay plain Python.
    """
    dispatcher = numba.njit(pipeline_class=PartCompiler, no_cpython_wrapper=True, **_OPTIONS)(function)
    return cast(F, _with_one_signature(dispatcher))


def seldom(function: F) -> F:
    """Compile `function` as `inner` does, but never inlined into its callers, which so stay small and fast.

    For code that most problems do not need, called behind a test of whether this one does.
    """
    dispatcher = numba.njit(pipeline_class=SeldomPartCompiler, no_cpython_wrapper=True, **_OPTIONS)(function)
    return cast(F, _with_one_signature(dispatcher))


def often(function: F) -> F:
    """Compile `function` as `inner` does, and inline it into each caller, however large it is.

    A call passes the positions of all arrays that a function works on, which takes as long as a small function itself.
    """
    dispatcher = numba.njit(pipeline_class=OftenPartCompiler, no_cpython_wrapper=True, **_OPTIONS)(function)
    return cast(F, _with_one_signature(dispatcher))


def _with_one_signature(dispatcher: Any) -> Any:
    """Let compiled callers pass whole numbers of any type as `int64`."""
    template = getattr(dispatcher, "get_call_template", None)
    if template is None:  # a plain function, with NUMBA_DISABLE_JIT
        return dispatcher

    def with_int64(args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        return template(tuple(_widened(each) for each in args), {name: _widened(each) for name, each in kws.items()})

    dispatcher.get_call_template = with_int64
    return dispatcher


def _widened(given: types.Type) -> types.Type:
    if isinstance(given, types.Integer):
        return types.int64
    return types.boolean if isinstance(given, types.Boolean) else given
