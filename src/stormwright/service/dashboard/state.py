"""State of the dashboard: the newest scene and status, and measurements since the start."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Self, TypeVar

from stormwright.base.gc_pause import collection_paused
from stormwright.client.shapes import DrainedHost, History, Plans
from stormwright.plans.modes import Modes
from stormwright.plans.states import PlanState
from stormwright.plans.tuning import Tuning
from stormwright.service.dashboard.scene import Scene
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.trials import TrialService
from stormwright.service.status import ServiceStatus

log = logging.getLogger(__name__)

_Made = TypeVar("_Made")

#: Maximum share of the time that is spent computing a value.
_MAX_SHARE_OF_TIME = 0.1

#: From one point to the next, and points that are kept: half a day.
EVERY_S, MAX_POINTS = 30.0, 1440

#: Nodes of which each point has the CPU: the fullest.
MAX_NODES = 64

#: The quantile of complete latency that is drawn.
QUANTILE = "p50"

#: Seconds for which a scene and a status are new enough.
SCENE_S, STATUS_S = 5.0, 2.0

#: How long a page waits for the very first scene before it says that one is being made.
FIRST_S = 1.5


class CachedValue(Generic[_Made]):
    """Recomputes a value in its own thread when it is requested and the last one is old.

    Parameters
    ----------
    make
        Takes the last one (None at first), and gives the next, or None where there is none.
    fresh_s
        Seconds for which one is new enough; longer where it takes long to make.
    """

    def __init__(self, make: Callable[[_Made | None], _Made | None], fresh_s: float) -> None:
        self._make, self._fresh_s = make, fresh_s
        self._lock = threading.Lock()
        self._made = threading.Event()
        self._value: _Made | None = None
        self._due_s = float("-inf")
        self._busy = False
        #: Why the last one could not be made; empty where it could.
        self.error = ""
        #: Seconds from one to the next.
        self.every_s = fresh_s

    def get(self, wait_s: float = 0.0) -> _Made | None:
        """Return the last value; wait up to `wait_s` if there is none."""
        with self._lock:
            begin = not self._busy and time.monotonic() >= self._due_s
            if begin:
                self._busy = True
                self._made.clear()
        if begin:
            threading.Thread(target=self._renew, name="stormwright-pages", daemon=True).start()
        if self._value is None and wait_s:
            self._made.wait(wait_s)
        return self._value

    def _renew(self) -> None:
        began_s = time.monotonic()
        try:
            with collection_paused():
                self._value = self._make(self._value)
            self.error = ""
        except Exception as error:  # a page says so; the service goes on
            log.warning("the dashboard cannot show what runs: %s: %s", type(error).__name__, error)
            log.debug("what failed", exc_info=error)
            self.error = f"{type(error).__name__}: {error}"
        with self._lock:
            took_s = time.monotonic() - began_s
            self.every_s = max(self._fresh_s, took_s / _MAX_SHARE_OF_TIME)
            # What is not there yet may be there soon.
            self._due_s = time.monotonic() + (self.every_s if self._value is not None else min(self.every_s, 1.0))
            self._busy = False
        self._made.set()


@dataclass(frozen=True)
class Point:
    """A moment.

    Parameters
    ----------
    at_ms
        Time of the observation in ms since 1970.
    rate_tps, latency_ms
        Topology (id) → trees/s, and the median of its complete latency, of those that were measured.
    inter_node_tps
        Traffic between nodes, in tuples/s of all topologies.
    alarms
        Nodes that are overloaded.
    node_use
        Supervisor (id) → part of its CPU in use, of the fullest nodes.
    """

    at_ms: int
    rate_tps: Mapping[str, float]
    latency_ms: Mapping[str, float]
    inter_node_tps: float
    alarms: Sequence[str]
    node_use: Mapping[str, float] = field(default_factory=dict)


class Trace:
    """Keeps the newest points."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=MAX_POINTS)

    def add(self, scene: Scene, status: ServiceStatus | None) -> None:
        """Take note of a scene, unless it was noted already."""
        if self._points and self._points[-1].at_ms >= scene.at_ms:
            return
        measured = status.pipeline if status else {"running": False, "error": None, "batch": -1}
        latencies = measured.get("complete_latency_ms") or {}
        alarms = (measured.get("alarms") or {}).get("up", [])
        self._points.append(
            Point(
                at_ms=scene.at_ms,
                rate_tps={t: each.measured_tps for t, each in scene.by_topology.items() if not each.assumed},
                latency_ms={t: ms for t, each in latencies.items() if (ms := each.get(QUANTILE)) is not None},
                inter_node_tps=scene.heat.total_tps,
                alarms=tuple(alarm["node"] for alarm in alarms),
                node_use={scene.problem.supervisors[node].id: use for node, use in scene.nodes.by_use(MAX_NODES)},
            )
        )

    def points(self) -> list[Point]:
        """All of them, the oldest first."""
        return list(self._points)


class DashboardState:
    """The data of the pages; a context manager that records measurements while it is open.

    Nothing here waits for Nimbus's requests or delays them: scenes are made in a thread of their own, from immutable
    snapshots.

    Parameters
    ----------
    sources
        Data of the pages.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.trials = TrialService()
        self.trace = Trace()
        self._scenes = CachedValue(self._look, SCENE_S)
        self._statuses: CachedValue[ServiceStatus] = CachedValue(lambda _: sources.status(), STATUS_S)
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="stormwright-trace", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self.trials.close()

    def scene(self) -> Scene | None:
        """The newest; None where nothing is known, or the first is still being made."""
        return self._scenes.get(FIRST_S)

    def status(self) -> ServiceStatus | None:
        """The newest; None where there is no service."""
        return self._statuses.get(FIRST_S)

    def runs(self) -> Collection[str]:
        """Topologies (ids) that have a page."""
        scene = self._scenes.get()
        return scene.problem.topology_index if scene else ()

    @property
    def error(self) -> str:
        """Why there is no new scene; empty where there is."""
        return self._scenes.error

    def modes(self) -> Modes | None:
        """Return the automation modes; None if there are none."""
        return self.sources.plan_service.modes() if self.sources.plan_service else None

    def drained(self) -> dict[str, DrainedHost]:
        """Host → its drain, of those that take nothing new."""
        plan_service = self.sources.plan_service
        return {each.host: each for each in plan_service.nodes.drained().drained} if plan_service else {}

    def plans(self, *states: PlanState, most: int = 100) -> Plans:
        """Plans, the newest first; none where there is no service."""
        return self.sources.plan_service.plans(states, most) if self.sources.plan_service else Plans(plans=())

    def tuning(self, topology: str) -> Tuning | None:
        """Return the newest tuning of a topology (id); None without one."""
        plan_service = self.sources.plan_service
        found = plan_service.tunings.all().tunings if plan_service else ()
        return next((each for each in found if each.topology == topology), None)

    def history(self, most: int = 50, before: int | None = None) -> History:
        """Return entries of the history, newest first."""
        return (
            self.sources.plan_service.history(most, before)
            if self.sources.plan_service
            else History(entries=(), more=False)
        )

    def version(self) -> str:
        """Changes when something that a page shows has; open pages compare it every few seconds."""
        self.sources.watched()
        scene = self._scenes.get()
        plans = [(each.id, each.state, each.stage, each.steps_completed) for each in self.plans(most=20).plans]
        trials = [(each.id, each.state) for each in self.trials.trials()]
        done = [each.n for each in self.history(1).entries]
        plan_service = self.sources.plan_service
        hosts = plan_service.nodes.hosts() if plan_service else ()
        tunings = plan_service.tunings.all().tunings if plan_service else ()
        tuned = [(each.id, each.state, each.plan) for each in tunings]
        measured = repr((scene.at_ms if scene else 0, plans, trials, done, self.modes(), hosts, tuned))
        return hashlib.sha256(measured.encode()).hexdigest()[:16]

    def _look(self, last: Scene | None) -> Scene | None:
        problem, status = self.sources.problem(), self._statuses.get(FIRST_S)  # the first scene has measured nodes, too
        measured = status.pipeline.get("nodes") if status else None
        return None if problem is None else Scene.of(problem, last, self.sources.clock, measured)

    def _watch(self) -> None:
        while not self._stop.is_set():
            scene = self._scenes.get(60.0)
            if scene is not None:
                self.trace.add(scene, self.status())
            self._stop.wait(max(EVERY_S, self._scenes.every_s) if scene else 1.0)
