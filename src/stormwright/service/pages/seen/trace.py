"""What was measured since the service started, a point each half minute: what the timeline draws."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stormwright.service.pages.seen.scene import Scene
from stormwright.service.status import ServiceStatus

#: From one point to the next, and points that are kept: half a day.
EVERY_S, KEPT = 30.0, 1440

#: The quantile of complete latency that is drawn.
QUANTILE = "p50"


@dataclass(frozen=True)
class Point:
    """A moment.

    Parameters
    ----------
    at_ms
        When.
    rate_tps, latency_ms
        Topology (id) → trees/s, and the median of its complete latency, of those that were measured.
    inter_node_tps
        Tuples/s between nodes.
    alarms
        Nodes that are overloaded.
    """

    at_ms: int
    rate_tps: Mapping[str, float]
    latency_ms: Mapping[str, float]
    inter_node_tps: float
    alarms: Sequence[str]


class Trace:
    """Keeps the newest points."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=KEPT)

    def add(self, scene: Scene, status: ServiceStatus | None) -> None:
        """Take note of a scene, unless it was noted already."""
        if self._points and self._points[-1].at_ms >= scene.at_ms:
            return
        told = status.pipeline if status else {"running": False, "error": None, "batch": -1}
        latencies = told.get("complete_latency_ms") or {}
        alarms = (told.get("alarms") or {}).get("up", [])
        self._points.append(
            Point(
                at_ms=scene.at_ms,
                rate_tps={t: each.measured_tps for t, each in scene.by_topology.items() if not each.assumed},
                latency_ms={t: ms for t, each in latencies.items() if (ms := each.get(QUANTILE)) is not None},
                inter_node_tps=scene.heat.total_tps,
                alarms=tuple(alarm["node"] for alarm in alarms),
            )
        )

    def points(self) -> list[Point]:
        """All of them, the oldest first."""
        return list(self._points)
