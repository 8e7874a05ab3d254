"""All that pages know: the newest scene, the newest status, and what was measured since the start."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection
from types import TracebackType
from typing import Self

from stormwright.client.guarding import Drained
from stormwright.client.shapes import History, Modes, Plans
from stormwright.service.pages.seen.keeper import Keeper
from stormwright.service.pages.seen.scene import Scene
from stormwright.service.pages.seen.trace import EVERY_S, Trace
from stormwright.service.pages.sources import Sources
from stormwright.service.pages.trials import TrialDesk
from stormwright.service.status import ServiceStatus

#: Seconds for which a scene and a status are new enough.
SCENE_S, STATUS_S = 5.0, 2.0

#: How long a page waits for the very first scene before it says that one is being made.
FIRST_S = 1.5


class Known:
    """What pages are made of; a context manager, which takes note of what is measured while it is open.

    Nothing here waits for Nimbus's questions or keeps them waiting: scenes are made in a thread of their own, from
    snapshots that nobody changes.

    Parameters
    ----------
    sources
        Tell it.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.trials = TrialDesk()
        self.trace = Trace()
        self._scenes = Keeper(self._look, SCENE_S)
        self._statuses: Keeper[ServiceStatus] = Keeper(lambda _: sources.status(), STATUS_S)
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
        """What the service may do by itself; None where there is none."""
        return self.sources.desk.modes() if self.sources.desk else None

    def drained(self) -> dict[str, Drained]:
        """Host → its drain, of those that take nothing new."""
        desk = self.sources.desk
        return {each.host: each for each in desk.nodes.drained().drained} if desk else {}

    def plans(self, *states: str, most: int = 100) -> Plans:
        """Plans, the newest first; none where there is no service."""
        return self.sources.desk.plans(states, most) if self.sources.desk else Plans(plans=())

    def history(self, most: int = 50, before: int | None = None) -> History:
        """What was done, the newest first."""
        return self.sources.desk.history(most, before) if self.sources.desk else History(done=(), more=False)

    def version(self) -> str:
        """Changes when something that a page shows has."""
        scene = self._scenes.get()
        plans = [(each.id, each.state, each.stage, each.steps_made) for each in self.plans(most=20).plans]
        trials = [(each.id, each.state) for each in self.trials.trials()]
        done = [each.n for each in self.history(1).done]
        hosts = self.sources.desk.nodes.hosts() if self.sources.desk else ()
        told = repr((scene.at_ms if scene else 0, plans, trials, done, self.modes(), hosts))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def _look(self, last: Scene | None) -> Scene | None:
        problem = self.sources.problem()
        return None if problem is None else Scene.of(problem, last, self.sources.clock)

    def _watch(self) -> None:
        while not self._stop.is_set():
            scene = self._scenes.get(60.0)
            if scene is not None:
                self.trace.add(scene, self.status())
            self._stop.wait(max(EVERY_S, self._scenes.every_s) if scene else 1.0)
