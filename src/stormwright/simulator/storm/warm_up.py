"""Warm-up of workers: until Java has compiled their code, tuples and messages take more CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model.arrays import FloatArray, IntArray
from stormwright.simulator.storm.records import ClusterState

#: Seconds of virtual time from one change of costs to the next.
STEP_S = 0.5


@dataclass(frozen=True)
class WarmUp:
    """Speed of a worker by the CPU time that it has used, as a part of the speed that it reaches in the end.

    Compilation follows the number of calls, so it progresses with work and not with time. Speeds between the points
    are interpolated.

    Parameters
    ----------
    cpu_s
        CPU time since the start in seconds, rising.
    speed
        Tuples per CPU second then, as parts of those in the end; the last one is 1.
    """

    cpu_s: tuple[float, ...]
    speed: tuple[float, ...]

    def factor(self, cpu_s: float) -> float:
        """Return the factor of the costs of tuples."""
        return 1.0 / float(np.interp(cpu_s, self.cpu_s, self.speed))

    @property
    def ends_s(self) -> float:
        """CPU time after which costs no longer change."""
        return self.cpu_s[-1]


def _of_periods(ends_s: tuple[float, ...], rates: tuple[float, ...]) -> WarmUp:
    """Return the warm-up of mean rates in consecutive periods of CPU time; each holds in the middle of its period."""
    begins_s = (0.0, *ends_s[:-1])
    middles = tuple((begin + end) / 2 for begin, end in zip(begins_s, ends_s, strict=True))
    return WarmUp((*middles, ends_s[-1]), (*(rate / rates[-1] for rate in rates), 1.0))


#: Java's first compiler alone, and both compilers, which are warm later and faster in the end: tuples per CPU second of
#: the new worker of a moved word count on nodes of 0.4 cores in its first 5, 10 and 30 s (60 and 120 s with both).
FIRST_COMPILER = _of_periods((2.0, 4.0, 12.0), (177.0, 300.0, 332.0))
BOTH_COMPILERS = _of_periods((2.0, 4.0, 12.0, 24.0, 48.0), (35.0, 71.0, 168.0, 287.0, 496.0))


@dataclass
class _Warming:
    """A worker that is warming up: its threads, their costs when it is warm, and CPU time at its start."""

    threads: IntArray
    work_s: FloatArray
    message_factor: FloatArray
    since_s: float


class WarmingWorkers:
    """Workers that are warming up.

    Parameters
    ----------
    model
        Speed by CPU time; None if workers are warm at once.
    """

    def __init__(self, model: WarmUp | None) -> None:
        self._model = model
        self._workers: dict[int, _Warming] = {}

    def __bool__(self) -> bool:
        return bool(self._workers)

    def start(self, cluster: ClusterState, worker: int) -> None:
        """Begin the warm-up of a worker that starts."""
        if self._model is None:
            return
        self.stop(cluster, worker)
        threads = np.flatnonzero(cluster.threads["worker"] == worker).astype(np.int32)
        own = cluster.threads[threads]
        warming = _Warming(threads, own["work_s"].copy(), own["message_factor"].copy(), float(own["cpu_s"].sum()))
        self._workers[worker] = warming
        self._set(cluster, warming, self._model.factor(0.0))

    def stop(self, cluster: ClusterState, worker: int) -> None:
        """End the warm-up of a worker, whose costs are those of a warm one again."""
        if warming := self._workers.pop(worker, None):
            self._set(cluster, warming, 1.0)

    def step(self, cluster: ClusterState) -> None:
        """Set the present costs of all workers that are warming up."""
        assert self._model is not None  # noqa: S101 (for the type checker)
        for worker, warming in list(self._workers.items()):
            cpu_s = float(cluster.threads["cpu_s"][warming.threads].sum()) - warming.since_s
            if cpu_s >= self._model.ends_s:
                self.stop(cluster, worker)
            else:
                self._set(cluster, warming, self._model.factor(cpu_s))

    def _set(self, cluster: ClusterState, warming: _Warming, factor: float) -> None:
        cluster.threads["work_s"][warming.threads] = factor * warming.work_s
        cluster.threads["message_factor"][warming.threads] = factor * warming.message_factor
