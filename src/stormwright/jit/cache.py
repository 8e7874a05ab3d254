"""Cache of machine code: prebuilt code of the installation or wheel, which is read-only, then the user's own cache.

Prebuilt code is for processors of the level x86-64-v3 (AVX2, FMA), so that it fits other machines. If it does
not fit (another processor, Python or Numba, other sources), Numba compiles, and stores the result in its usual place:
in the package's folder if that is writable, else in the user's cache.
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

_JIT_FOLDER = Path(__file__).parent

#: Supported processors, and their features.
LEVEL = "x86-64-v3"
REQUIRED_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "xsave")


#: Pattern of the digest of sources in the name of a cached file.
_FILED = re.compile(r"\.(?P<digest>[0-9a-f]{12})-\d+\.py\d+")

#: Age in seconds beyond which code of other versions is deleted.
_OLD_S = 30 * 86_400.0


@dataclass(frozen=True)
class CompiledPackage:
    """A package with compiled functions.

    Functions call each other across modules, and machine code includes the called functions. So it is identified by a
    digest of all sources of the package and of this one, and no function calls one of another package.

    Parameters
    ----------
    path
        Folder of the package.
    sources
        Digest of all sources.
    """

    path: Path
    sources: str

    @classmethod
    @cache
    def at(cls, path: Path) -> CompiledPackage:
        """Return the package in a folder."""
        digest = hashlib.sha256()
        for folder in dict.fromkeys((_JIT_FOLDER, path)):
            for module in sorted(folder.rglob("*.py")):
                digest.update(module.relative_to(folder).as_posix().encode() + b"\0" + module.read_bytes())
        return cls(path, digest.hexdigest())

    @classmethod
    def of(cls, function: Callable[..., object]) -> CompiledPackage:
        """Return the package of a function: the folder beside this one that contains it."""
        path = Path(function.__code__.co_filename)
        return cls.at(next(folder for folder in path.parents if folder.parent == _JIT_FOLDER.parent))

    @property
    def prebuilt_folder(self) -> Path:
        """Folder of the prebuilt code: files of Numba's format."""
        return self.path / "machine_code"

    @property
    def short_digest(self) -> str:
        """Part of the digest in the names of functions, by which Numba files code in the user's cache."""
        return self.sources[:12]

    @property
    def stamp(self) -> str:
        """Identity of the toolchain: machine code with another stamp is not used."""
        versions = f"numba {numba.__version__} llvmlite {llvm.llvm_version_info}"
        return f"{self.sources} {sys.implementation.cache_tag} {versions}"


def compiled_packages() -> list[CompiledPackage]:
    """Return all packages with compiled functions."""
    return [CompiledPackage.at(_JIT_FOLDER.parent / name) for name in ("optimize", "simulator")]


class PrebuiltOutput:
    """Whether code that is compiled now is stored as prebuilt code."""

    enabled = False


@cache
def supports_prebuilt() -> bool:
    """Return whether this machine's processor is of the level of prebuilt code."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    with suppress(RuntimeError):  # LLVM does not know
        features = llvm.get_host_cpu_features()
        return all(features.get(name, False) for name in REQUIRED_FEATURES)
    return False


class CachedCode(_Cache):  # type: ignore[misc]
    """Machine code of one function, for Numba: looked up in the prebuilt code, then in the user's cache.

    It has the interface of a Numba cache, and replaces Numba's own. Unreadable prebuilt code is not an
    error: the function is compiled. Prebuilt code is written only while it is made (`PrebuiltOutput`).

    Parameters
    ----------
    function
        The Python function; its module, qualified name and the interpreter name the files.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function, self._package = function, CompiledPackage.of(function)
        name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}"
        self._prebuilt = IndexDataCacheFile(str(self._package.prebuilt_folder), name, self._package.stamp)

    @cached_property
    def _own(self) -> FunctionCache | None:
        """Numba's own cache; it checks whether it may write, so it is created on demand."""
        try:
            return FunctionCache(self._function)
        except RuntimeError:  # neither the package's folder nor the user's cache can be written to
            return None

    @property
    def cache_path(self) -> str:
        """Folder where machine code is looked up first."""
        return str(self._package.prebuilt_folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature, or None if it is not stored.

        Parameters
        ----------
        sig
            Types of the arguments.
        target_context
            Numba's, of the processor that the code is for.
        """
        target_context.refresh()
        with suppress(Exception):  # a file that is damaged, or that another user may not read: it is compiled
            data = self._prebuilt.load(_key(sig, target_context.codegen()))
            if data is not None:
                return CompileResult._rebuild(target_context, *data)  # noqa: SLF001
        if self._own is None or PrebuiltOutput.enabled:
            return None
        try:
            return self._own.load_overload(sig, target_context)
        except Exception:  # damaged, as by a power failure: it would prevent later writes
            with suppress(Exception):
                self._own.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the machine code for a signature."""
        if PrebuiltOutput.enabled:
            # The annotation, which only `inspect_types` shows, has paths and addresses of this process.
            plain = data._replace(type_annotation="")
            self._prebuilt.save(_key(sig, data.codegen), plain._reduce())  # noqa: SLF001
        elif self._own:
            with suppress(Exception):  # a full disk: next time it is compiled again
                self._own.save_overload(sig, data)
                _drop_old(Path(self._own.cache_path), self._package.short_digest)

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing: the cache is never disabled."""

    def flush(self) -> None:
        """Do nothing: prebuilt code is not deleted."""


def _drop_old(directory: Path, short_digest: str) -> None:
    """Delete old machine code of other sources: no current version looks for it."""
    for path in directory.glob("*.nb[ic]"):
        filed = _FILED.search(path.name)
        if filed and filed["digest"] != short_digest and path.stat().st_mtime < time.time() - _OLD_S:
            path.unlink(missing_ok=True)


def _key(sig: Any, codegen: Any) -> tuple[Any, ...]:
    """Return a signature and the processor: only the level, if that is sufficient."""
    triple, *processor = codegen.magic_tuple()
    if config.CPU_NAME in (None, LEVEL) and supports_prebuilt():
        processor = [LEVEL]
    return (sig, triple, *processor)
