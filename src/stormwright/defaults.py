"""Defaults that several packages use: schedulers, named nowhere else but in their own files, and triggers of moves."""

from __future__ import annotations

#: Default scheduler: by reachable throughput under the measured or assumed rates.
DEFAULT_SCHEDULER = "optimizer"

#: Scheduler of executors that lost their slots, while all else stays.
REPAIR_SCHEDULER = "online"

#: Storm's own scheduler, the baseline, and the fallback until something better is known.
BASELINE = "even"

#: Seconds: how long a node is overloaded before that alone justifies a move, between two searches for a better
#: placement, and without moves after a change.
TRIGGER_OVERLOAD_S, TRIGGER_PERIOD_S, TRIGGER_COOL_DOWN_S = 30.0, 60.0, 60.0
