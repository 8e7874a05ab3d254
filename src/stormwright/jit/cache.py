"""Where machine code is kept: what the set-up or the wheel brought, which is only read, then the user's own cache.

What is brought is made for processors of the level x86-64-v3 (AVX2, FMA), so that it fits other machines. Where it does
not fit (another processor, Python or Numba, other sources), Numba compiles, and keeps that where it keeps everything:
in the package's folder if that may be written to, else in the user's cache.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile, _Cache
from numba.core.compiler import CompileResult

_ROOM = Path(__file__).parent

#: Processors that this is for, and what these can do.
LEVEL = "x86-64-v3"
ABLE = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "xsave")


#: The digest of its sources that is in the name of a function.
_FILED = re.compile(r"\.(?P<digest>[0-9a-f]{12})-\d+\.py\d+")

#: What was made longer ago than that, in seconds, is of a version that has been left.
_OLD_S = 30 * 86_400.0


@dataclass(frozen=True)
class Room:
    """A package with functions that are compiled.

    Functions call each other across modules, and machine code includes what is called. So it is told by a digest of all
    sources of the room and of this one, and no function calls one of another room.

    Parameters
    ----------
    path
        Where it is.
    sources
        Digest of all sources.
    """

    path: Path
    sources: str

    @classmethod
    @cache
    def at(cls, path: Path) -> Room:
        """The room in a folder."""
        digest = hashlib.sha256()
        for room in dict.fromkeys((_ROOM, path)):
            for module in sorted(room.rglob("*.py")):
                digest.update(module.relative_to(room).as_posix().encode() + b"\0" + module.read_bytes())
        return cls(path, digest.hexdigest())

    @classmethod
    def of(cls, function: Callable[..., object]) -> Room:
        """The room of a function: the folder beside this one that it is in."""
        path = Path(function.__code__.co_filename)
        return cls.at(next(folder for folder in path.parents if folder.parent == _ROOM.parent))

    @property
    def brought(self) -> Path:
        """What was brought: files of Numba's form."""
        return self.path / "machine_code"

    @property
    def filed_as(self) -> str:
        """The part of the digest that is in the names of functions, by which Numba files code in the user's cache."""
        return self.sources[:12]

    @property
    def stamp(self) -> str:
        """Machine code that was made with anything else is not used."""
        versions = f"numba {numba.__version__} llvmlite {llvm.llvm_version_info}"
        return f"{self.sources} {sys.implementation.cache_tag} {versions}"


def rooms() -> list[Room]:
    """All rooms with functions that are compiled."""
    return [Room.at(_ROOM.parent / name) for name in ("optimize", "simulator")]


class Making:
    """Whether what is compiled now is to be brought to others."""

    on = False


@cache
def is_able() -> bool:
    """Whether this machine's processor is of the level that machine code is brought for."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    with suppress(RuntimeError):  # LLVM does not know
        features = llvm.get_host_cpu_features()
        return all(features.get(name, False) for name in ABLE)
    return False


class CachedCode(_Cache):  # type: ignore[misc]
    """The machine code of one function, for Numba: looked for in what was brought, then in the user's cache.

    It has what Numba asks of a cache, and is set in place of Numba's own. What was brought and cannot be read is no
    error: the function is compiled. It is written to only while it is made (`Making`).

    Parameters
    ----------
    function
        The Python function; its module, qualified name and the interpreter name the files.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function, self._room = function, Room.of(function)
        name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}"
        self._brought = IndexDataCacheFile(str(self._room.brought), name, self._room.stamp)

    @cached_property
    def _own(self) -> FunctionCache | None:
        """Numba's own; it tries whether it may write, so not before it is needed."""
        try:
            return FunctionCache(self._function)
        except RuntimeError:  # neither the package's folder nor the user's cache can be written to
            return None

    @property
    def cache_path(self) -> str:
        """Where machine code is looked for first."""
        return str(self._room.brought)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature, or None if it is kept nowhere.

        Parameters
        ----------
        sig
            Types of the arguments.
        target_context
            Numba's, of the processor that the code is for.
        """
        target_context.refresh()
        with suppress(Exception):  # a file that is damaged, or that another user may not read: it is compiled
            data = self._brought.load(_key(sig, target_context.codegen()))
            if data is not None:
                return CompileResult._rebuild(target_context, *data)  # noqa: SLF001
        if self._own is None or Making.on:
            return None
        try:
            return self._own.load_overload(sig, target_context)
        except Exception:  # damaged, as by a power failure: it would be in the way of what is kept from now on
            with suppress(Exception):
                self._own.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature."""
        if Making.on:
            self._brought.save(_key(sig, data.codegen), data._reduce())  # noqa: SLF001
        elif self._own:
            with suppress(Exception):  # a full disk: next time it is compiled again
                self._own.save_overload(sig, data)
                _drop_old(Path(self._own.cache_path), self._room.filed_as)

    def enable(self) -> None:
        """It always is."""

    def disable(self) -> None:
        """It never is."""

    def flush(self) -> None:
        """What was brought stays."""


def _drop_old(directory: Path, filed_as: str) -> None:
    """Delete machine code of other sources that nobody has made for long: no version of ours looks for it again."""
    for path in directory.glob("*.nb[ic]"):
        filed = _FILED.search(path.name)
        if filed and filed["digest"] != filed_as and path.stat().st_mtime < time.time() - _OLD_S:
            path.unlink(missing_ok=True)


def _key(sig: Any, codegen: Any) -> tuple[Any, ...]:
    """A signature and the processor: the level, where that will do."""
    triple, *processor = codegen.magic_tuple()
    if config.CPU_NAME in (None, LEVEL) and is_able():
        processor = [LEVEL]
    return (sig, triple, *processor)
