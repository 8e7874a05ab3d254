"""Compilation of all machine code in advance: ``python -m stormwright.workbench.machine_code``.

It runs when a clone is set up and when a wheel is built, in as many processes as there are kinds and cores.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from stormwright.jit.cache import LEVEL, PrebuiltOutput, compiled_packages, supports_prebuilt
from stormwright.jit.compiled import ENTRIES
from stormwright.optimize.precompile import ready_greedy, ready_rates, ready_search, ready_small
from stormwright.schedulers.placement.repair import ready_repair
from stormwright.simulator.precompile import ready_simulator


def _large() -> None:
    ready_search()
    ready_repair()
    ready_greedy()


def _rest() -> None:
    from stormwright.optimize.bounds.prove import ready_bound  # brings the solvers of SciPy

    ready_small()
    ready_rates()
    ready_bound()
    ready_simulator()


#: Packages with compiled functions.
PACKAGES = {f"stormwright.{package.path.name}": package for package in compiled_packages()}

#: Groups of functions with similar compilation times.
_KINDS: dict[str, Callable[[], None]] = {"large": _large, "rest": _rest}


def make() -> int:
    """Compile missing functions, remove code of other sources, and return the number that was missing.

    Raises
    ------
    RuntimeError
        A function has no machine code in the end: it is in none of the kinds.
    subprocess.CalledProcessError
        A process failed; its output has the reason.
    """
    for package in PACKAGES.values():
        package.prebuilt_folder.mkdir(exist_ok=True)
        for path in package.prebuilt_folder.iterdir():
            if package.short_digest not in path.name:
                path.unlink()
    missing = len(_without_code())
    if missing:
        # Numba takes the processor from the environment, so this is another process in any case.
        level = {"NUMBA_CPU_NAME": LEVEL, "NUMBA_CPU_FEATURES": ""} if supports_prebuilt() else {}
        command = [sys.executable, "-m", "stormwright.workbench.machine_code"]
        started = [subprocess.Popen([*command, kind], env={**os.environ, **level}) for kind in _KINDS]
        for process in started:
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, command)
    if left := _without_code():
        raise RuntimeError(f"no prebuilt machine code was written for {', '.join(left)}")
    return missing


def _without_code() -> list[str]:
    for name, package in PACKAGES.items():
        for module in walk_packages([str(package.path)], f"{name}."):
            import_module(module.name)
    names = [f"{entry.py_func.__module__}.{entry.py_func.__qualname__}" for entry in ENTRIES]
    made = {path.name.partition(f".{sys.implementation.cache_tag}")[0] for path in files() if path.suffix == ".nbc"}
    return [name for name in names if name not in made]


def files() -> list[Path]:
    """Return all files of machine code."""
    return [path for package in PACKAGES.values() for path in package.prebuilt_folder.iterdir()]


def main() -> None:
    """Compile all of it, or one kind."""
    if len(sys.argv) > 1:
        gc.disable()  # a sixth of the time: compilers make millions of objects that live to the end
        PrebuiltOutput.enabled = True
        _KINDS[sys.argv[1]]()
        return
    begun_s = time.perf_counter()
    missing = make()
    size_mb = sum(path.stat().st_size for path in files()) / 1e6
    folders = ", ".join(os.path.relpath(package.prebuilt_folder) for package in PACKAGES.values())
    elapsed_s = time.perf_counter() - begun_s
    print(
        f"machine code of {len(ENTRIES)} functions, {missing} of them new, {size_mb:.1f} MB in {folders}: "
        f"{elapsed_s:.0f} s"
    )


if __name__ == "__main__":
    main()
