"""Default schedulers: the one place besides a scheduler's own file that names it."""

from __future__ import annotations

#: Who decides: by reachable throughput where a load was measured, else by traffic.
DECIDING = "optimizer"

#: Who finds places for what has lost its own, while all else stays where it runs.
KEEPING = "online"

#: Storm's own: what others are set against, and what places at once where nothing better is known yet.
STORMS_OWN = "even"
