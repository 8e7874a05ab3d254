"""Processes of a cluster, read from ``/proc``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: In the environment of every process of a cluster: its work directory.
MARK = "STORMWRIGHT_CLUSTER"


def outer_pids(namespace_of: int) -> dict[int, int]:
    """Return outer process ids by the ids inside the process namespace of `namespace_of`."""
    inside: dict[int, int] = {}
    for pid in _pids():
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            if _pid_namespace(pid) != _pid_namespace(namespace_of):
                continue
        except OSError:  # it has ended meanwhile
            continue
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
        inside[int(numbers[-1])] = pid
    return inside


def only_child(pid: int) -> int | None:
    """Return the child of a process that has at most one."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return None
    return int(children[0]) if children else None


def marked(work: Path) -> list[int]:
    """Return other processes that belong to the cluster with this work directory."""
    return with_variable(MARK, str(work))


def with_variable(name: str, value: str) -> list[int]:
    """Return other processes that have an environment variable with this value."""
    entry = f"{name}={value}".encode()
    found = []
    for pid in _pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if entry in environment.split(b"\0") and pid != os.getpid():
            found.append(pid)
    return found


def renice(pid: int, niceness: int) -> None:
    """Set the niceness of every thread of a process; later threads inherit it."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it has ended meanwhile
            os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)


def kill_all_marked(work: Path, timeout_s: float = 10.0) -> None:
    """Kill a cluster's processes until none is left; they may be starting others meanwhile."""
    deadline = time.monotonic() + timeout_s
    while (pids := marked(work)) and time.monotonic() < deadline:
        for pid in pids:
            kill(pid)
        time.sleep(0.02)


def wait_until_ended(pid: int, timeout_s: float = 10.0) -> None:
    """Return when a process, of whichever parent, has ended, reaped or not."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not is_alive(pid):
            return
        time.sleep(0.02)


def stat(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Return the fields of a process's ``stat`` behind its name: state, parent, …; raises OSError if it has ended."""
    return (proc / str(pid) / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()


def is_alive(pid: int, proc: Path = Path("/proc")) -> bool:
    """Return whether a process runs: one that has ended and was not reaped does not."""
    try:
        return stat(pid, proc)[0] != "Z"
    except OSError:
        return False


def kill(pid: int) -> None:
    """Kill one process, if it still exists."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _pid_namespace(pid: int) -> Path:
    return Path(f"/proc/{pid}/ns/pid").readlink()
