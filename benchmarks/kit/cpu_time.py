"""CPU time of this process and of the JVM that it has started: on a shared machine wall time says too little."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock, and CPU seconds."""

    wall_s: float
    python_s: float
    jvm_s: float

    @staticmethod
    def now() -> Spent:
        """Since some moment."""
        return Spent(time.monotonic(), time.process_time(), sum(map(_cpu_s, _children("java"))))

    def __sub__(self, before: Spent) -> Spent:
        return Spent(self.wall_s - before.wall_s, self.python_s - before.python_s, self.jvm_s - before.jvm_s)

    @property
    def cpu_s(self) -> float:
        """Of both together."""
        return self.python_s + self.jvm_s


def _children(name: str) -> list[int]:
    """Descendants of this process that run a program."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            about = path.read_text()
        except OSError:  # it has ended
            continue
        pid = int(path.parent.name)
        names[pid] = about[about.index("(") + 1 : about.rindex(")")]
        parents[pid] = int(about[about.rindex(")") + 2 :].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [pid for pid in found if names.get(pid) == name]


def _cpu_s(pid: int) -> float:
    about = Path(f"/proc/{pid}/stat").read_text()
    user, system = about[about.rindex(")") + 2 :].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def resident_mb() -> dict[str, float]:
    """Resident memory of this process (``python``) and of the JVM that it has started (``java``)."""
    return {
        "python": _resident_mb(os.getpid()),
        "java": sum(map(_resident_mb, _children("java"))),
    }


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
