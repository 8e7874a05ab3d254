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

#: Names of executors' threads.
_EXECUTOR = re.compile(r"Thread-\d+")

#: Classes of a worker's threads by their names, which the kernel cuts to 15 characters; the first that fits counts.
_CLASSES = (
    ("compilers", re.compile(r"C[12] CompilerThr")),
    ("garbage collection", re.compile(r"(GC |G1 |VM Thread|VM Periodic|Common-Clean|Reference Han|Finalizer)")),
    ("messaging", re.compile(r"(client-worker|Netty-server|Worker-Transfer)")),
    ("executors", _EXECUTOR),
)

#: Part of the command line of a supervisor.
_SUPERVISOR = b"daemon.supervisor.Supervisor"


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
    found = []
    try:
        process = _process(Path(f"/proc/{pid}/cmdline").read_bytes())
        for task in Path(f"/proc/{pid}/task").iterdir():
            text = (task / "stat").read_text(encoding="utf-8", errors="replace")
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            found.append((int(task.name), name, ThreadTime(int(fields[11]) / _TICKS, int(fields[12]) / _TICKS)))
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended
    # A standby that has become a worker has the command line of a standby.
    if any(_EXECUTOR.match(name) for _, name, _ in found):
        process = "worker"
    return [((process, pid, thread), (_kind(process, name), spent)) for thread, name, spent in found]


def _process(command: bytes) -> str:
    return "supervisor" if _SUPERVISOR in command else "standbys and others"


def _kind(process: str, thread: str) -> str:
    if process != "worker":
        return process
    return next((kind for kind, pattern in _CLASSES if pattern.match(thread)), "other threads")
