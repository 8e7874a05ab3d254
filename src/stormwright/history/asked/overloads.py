"""Which nodes were at or over their capacity, when and for how long: read from the history."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stormwright.formats import problem_from_dict
from stormwright.history.asked.looks import clusters
from stormwright.history.asked.reports import within
from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.store import Store
from stormwright.pipeline.measure.nodes import capacity_cores
from stormwright.pipeline.run.batch import TimeStretch
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.watch.episodes import FOREVER_S, Capacity, episodes

#: The service's own: what it raises alarms by is what is reported.
_SETTINGS = StreamSettings()

#: A pane that tells of a second began no longer before it: records land late by so much at most.
_PANE_BEFORE_MS = (_SETTINGS.watermark_s + _SETTINGS.window_s) * 1000


@dataclass(frozen=True)
class Episode:
    """A node at or over its capacity without a break, as `stormwright.pipeline.watch.episodes` defines it.

    Parameters
    ----------
    start_s, end_s
        Seconds since 1970: the first over the capacity, and the first that is not any more.
    peak_cores, capacity_cores
        The most cores that its workers used in a second, and those that it had.
    """

    supervisor: str
    start_s: int
    end_s: int
    peak_cores: float
    capacity_cores: float


def overload_episodes(store: Store, stretch: TimeStretch, after_s: float) -> list[Episode]:
    """All episodes of more than `after_s` seconds in a stretch of time, oldest first; the parts inside of it.

    Capacities are those that the nodes had at the time, as Nimbus told; before it first told in the stretch, or in the
    day before it, those that it told then.
    """
    start_ms = None if stretch.start_ms is None else stretch.start_ms - _PANE_BEFORE_MS
    end_ms = None if stretch.end_ms is None else stretch.end_ms + _SETTINGS.settle_s * 1000
    rows = episodes(
        within(store, FACTS, TimeStretch(start_ms, end_ms)),
        _capacities(clusters(store, stretch)),
        after_s,
        _SETTINGS.settle_s,
        (stretch.start_ms or 0) // 1000,
        FOREVER_S if stretch.end_ms is None else stretch.end_ms // 1000,
    )
    return [Episode(**row.asDict()) for row in rows.collect()]


def _capacities(states: list[dict[str, Any]]) -> list[Capacity]:
    """What nodes had, from one state of the cluster to the next."""
    changes = [state["at_ms"] // 1000 for state in states[1:]]
    stretches = itertools.pairwise([0, *changes, FOREVER_S])
    return [
        Capacity(supervisor, cores, since_s, until_s)
        for state, (since_s, until_s) in zip(states, stretches, strict=False)
        for supervisor, cores in _cores(state).items()
    ]


def _cores(state: Mapping[str, Any]) -> Mapping[str, float]:
    document = {
        "schema": "stormwright-problem/1",
        "supervisors": orjson.loads(state["supervisors"]),
        "core_hz": orjson.loads(state["core_hz"]),
        "topologies": [],
    }
    return capacity_cores(problem_from_dict(document, "snapshot of the history"), _SETTINGS)
