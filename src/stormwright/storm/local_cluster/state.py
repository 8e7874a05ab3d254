"""State directory of the running cluster, and the lock that shows whether one runs.

``<temporary directory>/stormwright-<uid>`` holds ``lock``, ``cluster.json`` and ``work/``. The holder of the lock owns
the directory: first the process that starts the cluster, then the warden, for as long as it lives. So the lock shows
whether a cluster runs, the kernel frees it whatever ends the warden, and its next holder may clear the directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stormwright.errors import ClusterError
from stormwright.storm.local_cluster.cpu import remove_groups
from stormwright.storm.local_cluster.plan import ClusterPlan
from stormwright.storm.local_cluster.processes import kill_all_marked

# Events -------------------------------------------------------------------------------------------
# Events of the warden, and logs of the daemons.

_Event = dict[str, Any]

#: Maximum length of a log line in an error message; daemons log their whole configuration in one line.
_WIDTH = 300


def read_events(plan: ClusterPlan) -> list[_Event]:
    """Return all events of the warden, oldest first."""
    try:
        text = (plan.work / "events.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    # The last line may be half written.
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def daemon_pids(events: Sequence[_Event]) -> dict[str, int]:
    """Return the process id of each daemon in the warden's namespace."""
    return {event["daemon"]: event["pid"] for event in events if "pid" in event}


def exit_codes(events: Sequence[_Event]) -> dict[str, int]:
    """Return the exit codes of daemons that ended and were not restarted."""
    last = {event["daemon"]: event for event in events if "daemon" in event}
    return {daemon: event["exit"] for daemon, event in last.items() if "exit" in event}


def namespace_holders(events: Sequence[_Event]) -> dict[str, int]:
    """Return the process that holds each node's network namespace, in the warden's namespace."""
    return {event["node"]: event["holder"] for event in events if "holder" in event}


def log_tail(plan: ClusterPlan, daemon: str, lines: int = 15) -> str:
    """Return the end of a daemon's log and output, for an error message."""
    logs = plan.daemon_dir(daemon) / "logs"
    return "\n".join(_tail(logs / name, lines) for name in ("daemon.log", "printed.log") if (logs / name).exists())


def warden_tail(plan: ClusterPlan) -> str:
    """Return the end of the warden's output: empty unless it crashed."""
    return _tail(plan.work / "warden.log", 15)


def _tail(path: Path, lines: int) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(f"    {line[:_WIDTH]}" for line in text.splitlines()[-lines:])


# State --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningProcesses:
    """A running cluster: process ids of its warden and its starter on this machine."""

    keeper_pid: int
    owner_pid: int
    started_s: float


def place() -> Path:
    """Return the directory of this user's cluster; it need not exist."""
    return Path(tempfile.gettempdir()) / f"stormwright-{os.getuid()}"


def work_dir() -> Path:
    """Return the directory of this user's cluster's configuration, state and logs."""
    return place() / "work"


def acquire() -> int | None:
    """Acquire the directory: return an open file that holds the lock, or None if a cluster is running.

    Leftovers of an ended cluster are removed.
    """
    while True:
        try:
            _make_place()
            lock = os.open(place() / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # removed by another command, a moment ago
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        if _is_current(lock):
            break
        os.close(lock)
    kill_all_marked(work_dir())
    remove_groups(work_dir())
    for left in (work_dir(), *place().parent.glob(place().name + ".*")):
        shutil.rmtree(left, ignore_errors=True)
    (place() / "cluster.json").unlink(missing_ok=True)
    return lock


def sweep() -> bool:
    """Remove leftovers of an ended cluster; return False if one runs or is being started."""
    lock = acquire()
    if lock is not None:
        release(lock)
    return lock is not None


def release(lock: int) -> None:
    """Remove the directory, which this process owns, and release the lock."""
    clear()
    os.close(lock)


def clear() -> None:
    """Remove the directory with its content; only for its owner."""
    # Moved away first: the next owner may make it again at once, and that one's is not ours to remove.
    grave = Path(tempfile.mkdtemp(prefix=place().name + ".", dir=place().parent))
    with suppress(FileNotFoundError):
        place().rename(grave / "place")
    shutil.rmtree(grave, ignore_errors=True)


def acquire_within(timeout_s: float) -> int | None:
    """Acquire the directory as soon as the cluster there has ended."""
    deadline = time.monotonic() + timeout_s
    while (lock := acquire()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return lock


def save(running: RunningProcesses) -> None:
    """Register the cluster for other commands."""
    (place() / "cluster.json").write_text(json.dumps(asdict(running)), encoding="utf-8")


def load() -> RunningProcesses | None:
    """Return the registered cluster, if any."""
    try:
        return RunningProcesses(**json.loads((place() / "cluster.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError):  # not there, or just being written
        return None


def _make_place() -> None:
    try:
        place().mkdir(mode=0o700)
    except FileExistsError:
        found = place().lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise ClusterError(f"{place()} belongs to someone else; set TMPDIR to a directory of your own") from None


def _is_current(lock: int) -> bool:
    """Return whether the lock file is still the current one: owners remove it on leaving."""
    try:
        there = (place() / "lock").stat()
    except FileNotFoundError:
        return False
    return there.st_ino == os.fstat(lock).st_ino
