"""CPU of a node by classes of threads, from the kernel's own counters of each thread."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from stormwright.storm.local_cluster import RunningCluster
from stormwright.storm.local_cluster.cpu import groups_of

_TICKS = os.sysconf("SC_CLK_TCK")

#: Classes of a worker's threads by their names, which the kernel cuts to 15 characters; the first that fits counts.
_CLASSES = (
    ("compilers", re.compile(r"C[12] CompilerThr")),
    ("garbage collection", re.compile(r"(GC |G1 |VM Thread|VM Periodic|Common-Clean|Reference Han|Finalizer)")),
    (
        "messaging",
        re.compile(r"(client-|server-|nioEventLoop|.*[Tt]ransfer|refresh-|Worker-Transfer|StormServer|StormClient)"),
    ),
    ("executors", re.compile(r"Thread-\d+")),
)

#: Processes by a part of their command line.
_WORKER, _SUPERVISOR, _STANDBY = (
    b"org.apache.storm.daemon.worker",
    b"daemon.supervisor.Supervisor",
    b"stormwright.standby",
)


class ThreadTime(NamedTuple):
    """CPU seconds of a class of threads, by the program itself and by the kernel for it."""

    user_s: float
    system_s: float


def times(cluster: RunningCluster) -> dict[str, dict[tuple[str, int, int], tuple[str, ThreadTime]]]:
    """Return the CPU so far of every thread of each node: node → process and thread → class and time."""
    found = {}
    for node in cluster.plan.nodes:
        (group, *_) = (each for each in groups_of(cluster.plan.work) if each.name.endswith(f"-{node.name}"))
        pids = [int(line) for line in (group / "cgroup.procs").read_text(encoding="ascii").split()]
        found[node.name] = {key: value for pid in pids for key, value in _threads(pid)}
    return found


def by_class(
    first: Mapping[tuple[str, int, int], tuple[str, ThreadTime]],
    last: Mapping[tuple[str, int, int], tuple[str, ThreadTime]],
) -> dict[str, ThreadTime]:
    """Return the CPU of each class between two readings of a node; threads that ended meanwhile are missing."""
    user_s, system_s = defaultdict(float), defaultdict(float)
    for key, (kind, now) in last.items():
        _, before = first.get(key, (kind, ThreadTime(0.0, 0.0)))
        user_s[kind] += now.user_s - before.user_s
        system_s[kind] += now.system_s - before.system_s
    return {kind: ThreadTime(user_s[kind], system_s[kind]) for kind in sorted(user_s)}


def _threads(pid: int) -> Iterable[tuple[tuple[str, int, int], tuple[str, ThreadTime]]]:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        process = _process(command)
        for task in Path(f"/proc/{pid}/task").iterdir():
            name, _, rest = (
                (task / "stat").read_text(encoding="utf-8", errors="replace").partition("(")[2].rpartition(")")
            )
            fields = rest.split()
            spent = ThreadTime(int(fields[11]) / _TICKS, int(fields[12]) / _TICKS)
            yield (process, pid, int(task.name)), (_kind(process, name), spent)
    except (FileNotFoundError, ProcessLookupError):
        return  # it has ended


def _process(command: bytes) -> str:
    if _SUPERVISOR in command:
        return "supervisor"
    return "worker" if _WORKER in command and b"LogWriter" not in command else "other processes"


def _kind(process: str, thread: str) -> str:
    if process != "worker":
        return process
    return next((kind for kind, pattern in _CLASSES if pattern.match(thread)), "other threads")
