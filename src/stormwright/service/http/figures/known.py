"""What a running service adds to its status in ``/metrics``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from stormwright.client.shapes import Modes
from stormwright.service.http.figures.cluster import of_cluster
from stormwright.service.http.figures.families import gauge
from stormwright.service.http.figures.operating import of_modes, of_state
from stormwright.service.operating.state import State
from stormwright.service.pages.seen.scene import Scene


class Figures:
    """Metrics of the cluster, of modes and of plans; may be asked from any thread.

    The cluster is that of the newest scene: it is worked out beside, for pages and for this together, so that who asks
    often costs nothing.

    Parameters
    ----------
    scene
        What runs now; None while that is not known.
    age_s
        Seconds since Nimbus asked last; any large number where it never has.
    modes, state
        What the service may do by itself, and where plans and history are kept.
    """

    def __init__(
        self, scene: Callable[[], Scene | None], age_s: Callable[[], float], modes: Callable[[], Modes], state: State
    ) -> None:
        self._scene, self._age_s, self._modes, self._state = scene, age_s, modes, state
        self._began_s = time.monotonic()

    def __call__(self, detail: str) -> Iterator[Metric]:
        """All of them, the cluster in `detail` (`stormwright.service.http.figures.cluster.DETAILS`)."""
        scene = self._scene()
        asked = {(): min(self._age_s(), time.monotonic() - self._began_s)}
        yield gauge("snapshot_age_seconds", "Since Nimbus asked last, or the service began.", (), asked)
        topologies = [(each.id, each.name) for each in scene.problem.topologies] if scene else []
        yield from of_modes(self._modes(), topologies)
        yield from of_state(self._state)
        if scene:
            yield from of_cluster(scene.problem, scene.by_topology, detail)
