"""Makes all machine code, so that nothing is left to compile: ``python -m stormwright.experiments.machine_code``.

The set-up of a clone runs it, and whoever builds a wheel. It is made in as many processes as there are kinds and cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from stormwright import optimize
from stormwright.optimize.ahead import ready_greedy, ready_rates, ready_search, ready_small
from stormwright.optimize.kernel.compiled import ENTRIES
from stormwright.optimize.kernel.kept import BROUGHT, FILED_AS, LEVEL, Making, is_able
from stormwright.schedulers.mend.repair import ready_repair


def _rest() -> None:
    from stormwright.optimize.bound.prove import ready_bound  # brings the solvers of SciPy

    ready_small()
    ready_repair()
    ready_greedy()
    ready_rates()
    ready_bound()


#: Kinds of machine code that take about as long to make.
_KINDS: dict[str, Callable[[], None]] = {"search": ready_search, "rest": _rest}


def make() -> int:
    """Make what is missing, and remove what was made of other sources; how many functions were missing.

    Raises
    ------
    RuntimeError
        A function has no machine code in the end: it is in none of the kinds.
    subprocess.CalledProcessError
        A process failed; it has said why.
    """
    BROUGHT.mkdir(exist_ok=True)
    for path in BROUGHT.iterdir():
        if FILED_AS not in path.name:
            path.unlink()
    missing = len(_without_code())
    if missing:
        # Numba takes the processor from the environment, so this is another process in any case.
        level = {"NUMBA_CPU_NAME": LEVEL, "NUMBA_CPU_FEATURES": ""} if is_able() else {}
        command = [sys.executable, "-m", "stormwright.experiments.machine_code"]
        started = [subprocess.Popen([*command, kind], env={**os.environ, **level}) for kind in _KINDS]
        for process in started:
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, command)
    if left := _without_code():
        raise RuntimeError(f"nothing makes the machine code of {', '.join(left)}")
    return missing


def _without_code() -> list[str]:
    for module in walk_packages(optimize.__path__, f"{optimize.__name__}."):
        import_module(module.name)
    names = [f"{entry.py_func.__module__}.{entry.py_func.__qualname__}" for entry in ENTRIES]
    return [name for name in names if not list(BROUGHT.glob(f"{name}.{sys.implementation.cache_tag}*.nbc"))]


def main() -> None:
    """Make all of it, or one kind."""
    if len(sys.argv) > 1:
        Making.on = True
        _KINDS[sys.argv[1]]()
        return
    begun_s = time.perf_counter()
    missing = make()
    size_mb = sum(path.stat().st_size for path in BROUGHT.iterdir()) / 1e6
    print(
        f"machine code of {len(ENTRIES)} functions, {missing} of them new, {size_mb:.1f} MB in "
        f"{Path(os.path.relpath(BROUGHT))}: {time.perf_counter() - begun_s:.0f} s"
    )


if __name__ == "__main__":
    main()
