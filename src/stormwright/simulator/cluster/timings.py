"""Durations in a virtual Storm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Kind of a message → delay in seconds.
Delay = Callable[[str], float]

#: Kinds of messages for `Delay`: a push to a supervisor, a change of status for spouts, a worker's record, and a
#: rebalance.
PUSH, STATUS, RECORD, REBALANCE = "push", "status", "record", "rebalance"


#: Key of the period in which workers poll the assignments of others, and Storm's default in seconds.
REFRESH_POLL, REFRESH_POLL_S = "task.refresh.poll.secs", 10.0


@dataclass(frozen=True)
class Timings:
    """Durations in seconds, by Storm's defaults and as measured on a local cluster of Storm 2.8.3.

    Parameters
    ----------
    monitor_s
        Interval between scheduling rounds of Nimbus (``nimbus.monitor.freq.secs``).
    sync_s
        Interval between polls of a supervisor without notification.
    start_s, stop_s
        Time to start or stop a worker.
    localize_s
        Time to download a topology's files before its first worker on a node starts.
    restart_s
        Time until a supervisor detects a dead worker.
    session_s
        Time after which Nimbus no longer has a silent supervisor: a supervisor is an ephemeral node of ZooKeeper, so
        its session (``storm.zookeeper.session.timeout``); ``nimbus.supervisor.timeout.secs`` is read by nothing.
    probe_s
        Interval between records of a worker.
    calm_s
        Maximum interval if nothing has changed for a while; 0 to disable that, as in Storm. It reduces records of large
        clusters.
    message_s
        Time of every message over the network.
    """

    monitor_s: float = 10.0
    sync_s: float = 10.0
    start_s: float = 6.0
    stop_s: float = 1.0
    localize_s: float = 0.0
    restart_s: float = 3.0
    session_s: float = 20.0
    probe_s: float = 1.0
    calm_s: float = 0.0
    message_s: float = 0.05

    def delay(self, what: str) -> float:  # noqa: ARG002  # other implementations distinguish
        """Return the same delay for all messages."""
        return self.message_s
