"""CPU time of this process and of the JVM that it has started, as wall time varies on a shared machine."""

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
        """Return the current counters."""
        return Spent(time.monotonic(), time.process_time(), sum(map(_cpu_s, _children("java"))))

    def __sub__(self, before: Spent) -> Spent:
        return Spent(self.wall_s - before.wall_s, self.python_s - before.python_s, self.jvm_s - before.jvm_s)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of both together."""
        return self.python_s + self.jvm_s


def python_workers_s() -> float:
    """CPU seconds of the Python workers that the JVM has started, of those that have ended too."""
    return sum(_cpu_s(pid, with_ended=True) for pid in _python_workers(os.getpid()))


def _python_workers(pid: int) -> list[int]:
    """Python processes of the JVM that a process has started."""
    return [
        found for java in _children("java", pid) for name in ("python", "python3") for found in _children(name, java)
    ]


def _children(name: str, of: int | None = None) -> list[int]:
    """Descendants of a process, by default this one, that run a program."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            about = path.read_text()
        except OSError:  # it has ended
            continue
        pid = int(path.parent.name)
        names[pid] = about[about.index("(") + 1 : about.rindex(")")]
        parents[pid] = int(about[about.rindex(")") + 2 :].split()[1])
    found = {of or os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [pid for pid in found if names.get(pid) == name]


def _cpu_s(pid: int, with_ended: bool = False) -> float:
    """CPU seconds of a process; with those of its children that have ended."""
    about = Path(f"/proc/{pid}/stat").read_text()
    ticks = about[about.rindex(")") + 2 :].split()[11 : 15 if with_ended else 13]
    return sum(map(int, ticks)) / _TICKS


def resident_mb(pid: int | None = None) -> dict[str, float]:
    """Resident memory of a process (by default this one) and its JVM's Python workers, and of the JVM (``java``)."""
    pid = pid or os.getpid()
    return {
        "python": sum(map(_resident_mb, [pid, *_python_workers(pid)])),
        "java": sum(map(_resident_mb, _children("java", pid))),
    }


def peak_resident_mb() -> float:
    """Peak resident memory of this process, the JVM that it has started, and its Python workers."""
    pids = [os.getpid(), *_children("java"), *_python_workers(os.getpid())]
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(status.split("VmHWM:")[1].split()[0]) for status in statuses) * 1024 / 1e6


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
