"""The one place where a running cluster can be found, and where it keeps everything it writes.

``<temporary directory>/stormwright-<uid>`` holds ``lock``, ``cluster.json`` and ``work/``. Whoever holds the lock owns
the place: first the process that starts the cluster, then the warden, for as long as it lives. So the lock tells
whether a cluster runs, the kernel frees it whatever the warden dies of, and whoever gets it may clear the place.
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
# What the warden has told so far, and what the daemons logged.

_Event = dict[str, Any]

#: Of a log line in an error message; daemons log their whole configuration in one line.
_WIDTH = 300


def read_events(plan: ClusterPlan) -> list[_Event]:
    """Everything the warden has told, oldest first."""
    try:
        text = (plan.work / "events.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    # The last line may be half written.
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def daemon_pids(events: Sequence[_Event]) -> dict[str, int]:
    """Daemon → process id, in the warden's count."""
    return {event["daemon"]: event["pid"] for event in events if "pid" in event}


def exit_codes(events: Sequence[_Event]) -> dict[str, int]:
    """Daemons that have ended and were not started again, with their exit codes."""
    last = {event["daemon"]: event for event in events if "daemon" in event}
    return {daemon: event["exit"] for daemon, event in last.items() if "exit" in event}


def namespace_holders(events: Sequence[_Event]) -> dict[str, int]:
    """Node → process that holds its network namespace, in the warden's count."""
    return {event["node"]: event["holder"] for event in events if "holder" in event}


def log_tail(plan: ClusterPlan, daemon: str, lines: int = 15) -> str:
    """The end of what a daemon logged and printed, for an error message."""
    logs = plan.daemon_dir(daemon) / "logs"
    return "\n".join(_tail(logs / name, lines) for name in ("daemon.log", "printed.log") if (logs / name).exists())


def warden_tail(plan: ClusterPlan) -> str:
    """The end of what the warden printed: nothing unless it broke."""
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
    """A cluster that runs: its warden and the process that started it, as this machine counts processes."""

    keeper_pid: int
    owner_pid: int
    started_s: float


def place() -> Path:
    """The directory of this user's cluster; not necessarily there."""
    return Path(tempfile.gettempdir()) / f"stormwright-{os.getuid()}"


def work_dir() -> Path:
    """Where this user's cluster keeps configuration, state and logs."""
    return place() / "work"


def acquire() -> int | None:
    """Own the place: an open file that holds the lock, or None if a cluster runs or is being started.

    What an ended cluster left behind is removed.
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
    """Remove what an ended cluster left behind; False if one runs or is being started."""
    lock = acquire()
    if lock is not None:
        release(lock)
    return lock is not None


def release(lock: int) -> None:
    """Remove the place, which this process owns, and give it up."""
    clear()
    os.close(lock)


def clear() -> None:
    """Remove the place with everything in it; for its owner only."""
    # Moved away first: the next owner may make it again at once, and that one's is not ours to remove.
    grave = Path(tempfile.mkdtemp(prefix=place().name + ".", dir=place().parent))
    with suppress(FileNotFoundError):
        place().rename(grave / "place")
    shutil.rmtree(grave, ignore_errors=True)


def acquire_within(timeout_s: float) -> int | None:
    """Own the place as soon as the cluster there has ended."""
    deadline = time.monotonic() + timeout_s
    while (lock := acquire()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return lock


def save(running: RunningProcesses) -> None:
    """Tell other commands about the cluster."""
    (place() / "cluster.json").write_text(json.dumps(asdict(running)), encoding="utf-8")


def load() -> RunningProcesses | None:
    """The cluster that is told of, if any."""
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
    """Whether the lock file is still the one in the place: its last owner removes it on leaving."""
    try:
        there = (place() / "lock").stat()
    except FileNotFoundError:
        return False
    return there.st_ino == os.fstat(lock).st_ino
