"""Drift of loads since the last decision: CPU and output of every executor, window by window."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from stormwright.model import LoadProfile, TopologyLoad
from stormwright.model.arrays import FloatArray
from stormwright.pipeline.monitoring.cusum import Cusum, CusumSettings

#: Executors below this part of the mean are not followed: relative changes of small loads do not matter.
MIN_PART = 0.5

#: Compared quantities, and their floors per topology: in Hz, and in tuples/s.
_MIN = {"CPU": 1e6, "traffic": 1.0}

#: Number of windows whose start is stored.
_MAX_STARTS = 10_000


@dataclass(frozen=True)
class Drift:
    """A topology whose load has changed.

    Parameters
    ----------
    what
        Changed quantity, ``CPU`` or ``traffic``, of topology or executor.
    executor
        Executor that changed most, numbered within the topology; None for the topology as a whole.
    change
        Relative change: 0.5 is half as much again.
    since_ms
        Begin of the change, epoch milliseconds.
    """

    topology: str
    what: str
    executor: int | None
    change: float
    since_ms: int


class DriftWatch:
    """Comparison of the measured load with the load at the beginning or since the last `restart`.

    Only windows that do not overlap are compared. A load that has drifted stays so until the restart.
    """

    def __init__(self, settings: CusumSettings | None = None) -> None:
        self._settings = settings or CusumSettings()
        self._watched: dict[str, _TopologyState] = {}
        self._drifts: dict[str, Drift] = {}
        self._end_ms = 0

    def restart(self, from_ms: int) -> None:
        """Use the load from a moment on as the new reference."""
        self._watched, self._drifts = {}, {}
        self._end_ms = max(self._end_ms, from_ms)

    def see(self, profile: LoadProfile) -> list[Drift]:
        """Process the newest profile and return the drifted topologies, by id."""
        if profile.start_ms >= self._end_ms:
            self._end_ms = profile.end_ms
            for topology, load in profile.topologies.items():
                self._compare(topology, load, profile.start_ms)
        return [drift for topology, drift in sorted(self._drifts.items()) if topology in profile.topologies]

    def _compare(self, topology: str, load: TopologyLoad, start_ms: int) -> None:
        watched = self._watched.get(topology)
        if watched is None or watched.num_executors != len(load.cpu_hz):  # new, or rebalanced
            watched = self._watched[topology] = _TopologyState(self._settings, load)
            self._drifts.pop(topology, None)
        found = watched.add(topology, load, start_ms)
        if found:
            self._drifts.setdefault(topology, found)


class _TopologyState:
    """State of one topology: CPU and traffic of the whole and of its relevant executors."""

    def __init__(self, settings: CusumSettings, load: TopologyLoad) -> None:
        self.num_executors = len(load.cpu_hz)
        floors = []
        #: Followed series: quantity and executor, `num_executors` for the whole topology.
        self._series: list[tuple[str, int]] = []
        for what, amounts in _amounts(load).items():
            mean = amounts[-1] / max(self.num_executors, 1)
            followed = np.flatnonzero((amounts[:-1] >= MIN_PART * mean) & (amounts[:-1] > 0)).tolist()
            self._series += [(what, executor) for executor in (*followed, self.num_executors)]
            floors += [mean / 100] * len(followed) + [max(mean / 100, _MIN[what])]
        self._cusum = Cusum(settings, len(self._series), np.array(floors))
        self._starts_ms: deque[int] = deque(maxlen=_MAX_STARTS)

    def add(self, topology: str, load: TopologyLoad, start_ms: int) -> Drift | None:
        """Process the next window."""
        amounts = _amounts(load)
        changed = self._cusum.add(np.array([amounts[what][executor] for what, executor in self._series]))
        self._starts_ms.append(start_ms)
        if not changed.any():
            return None
        series = max(np.flatnonzero(changed).tolist(), key=lambda s: abs(np.log1p(self._cusum.change(s)[0])))
        change, windows = self._cusum.change(series)
        what, executor = self._series[series]
        return Drift(
            topology=topology,
            what=what,
            executor=executor if executor < self.num_executors else None,
            change=change,
            since_ms=self._starts_ms[-min(windows, len(self._starts_ms))],
        )


def _amounts(load: TopologyLoad) -> dict[str, FloatArray]:
    """Return CPU and tuples/s sent of every executor and, last, of the topology."""
    size = len(load.cpu_hz)
    sent = np.bincount(load.pair_source, load.pair_tps, size) + np.bincount(load.flow_source, load.flow_tps, size)
    return {"CPU": np.append(load.cpu_hz, load.cpu_hz.sum()), "traffic": np.append(sent, sent.sum())}
