"""Default schedulers: the one place besides a scheduler's own file that names it."""

from __future__ import annotations

#: Default scheduler: by reachable throughput if a load was measured, else by traffic.
DECIDING = "optimizer"

#: Scheduler of executors that lost their slots, while all else stays.
KEEPING = "online"

#: Storm's own scheduler: the baseline, and the fallback until something better is known.
STORMS_OWN = "even"
