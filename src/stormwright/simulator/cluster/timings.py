"""How long things take in a virtual Storm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: What takes time between two parts of the cluster → seconds that it takes this once.
Delay = Callable[[str], float]

#: What `Delay` is asked for: a push to a supervisor, a change of status that spouts hear of, a worker's record on its
#: way, and a rebalance until Nimbus makes it.
PUSH, STATUS, RECORD, REBALANCE = "push", "status", "record", "rebalance"


@dataclass(frozen=True)
class Timings:
    """Seconds, by Storm's defaults and as measured on a local cluster of Storm 2.8.3.

    Parameters
    ----------
    monitor_s
        From one time that Nimbus asks where topologies should run to the next (``nimbus.monitor.freq.secs``).
    sync_s
        From one time that a supervisor asks what it should run to the next, unless it is told.
    start_s, stop_s
        From when a worker is started or told to end until it has.
    restart_s
        Until a supervisor finds that a worker has died.
    supervisor_s
        After which Nimbus takes a silent supervisor for dead (``nimbus.supervisor.timeout.secs``).
    probe_s
        From one record of a worker to the next.
    calm_s
        The same, at most, where nothing has changed for a while; 0 where that makes no difference, as in Storm. Large
        clusters write less so.
    message_s
        What everything takes that is told over the network.
    """

    monitor_s: float = 10.0
    sync_s: float = 10.0
    start_s: float = 6.0
    stop_s: float = 1.0
    restart_s: float = 3.0
    supervisor_s: float = 60.0
    probe_s: float = 1.0
    calm_s: float = 0.0
    message_s: float = 0.05

    def delay(self, what: str) -> float:  # noqa: ARG002  # others tell things apart
        """The same for all that is told."""
        return self.message_s
