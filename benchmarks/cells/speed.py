"""How fast the machine computes while something is measured: one with other guests is now faster, now slower.

    python speed.py FILE

It writes a line a tenth of a second: time in ms since 1970, and CPU ms that a fixed loop took.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean

_STEPS, _EVERY_S = 20_000, 0.1


@contextmanager
def watched(file: Path) -> Iterator[None]:
    """Have the machine's speed written to a file."""
    process = subprocess.Popen([sys.executable, "-m", __spec__.name, str(file)])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def loop_ms(file: Path, first_ms: float, last_ms: float) -> float | None:
    """Mean CPU ms of the loop between two moments."""
    lines = (line.split() for line in file.read_text(encoding="ascii").splitlines() if line.endswith("."))
    took = [float(ms) for at, ms, _ in lines if first_ms <= float(at) <= last_ms]
    return mean(took) if took else None


def _write(file: Path) -> None:
    with file.open("w", encoding="ascii", buffering=1) as out:
        while True:
            begin, total = time.process_time(), 0
            for step in range(_STEPS):
                total += step * step % 7
            # The full stop says that the line is whole.
            out.write(f"{time.time() * 1e3:.0f} {(time.process_time() - begin) * 1e3:.4f} .\n")
            time.sleep(_EVERY_S)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
