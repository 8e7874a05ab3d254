"""What the warden has told so far, and what the daemons logged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stormwright.storm.local_cluster.plan import ClusterPlan

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
