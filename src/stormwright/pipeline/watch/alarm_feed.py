"""What the alarms' query is told: seconds of nodes at or near an overload, as small files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import orjson

from stormwright.perflog.landing import Landing
from stormwright.pipeline.measure.overload import NodeSeries

#: A line of these files, as Spark reads it.
SECOND = "supervisor string, at long, cores double, capacity_cores double"


class SecondsFeed:
    """Writes the seconds of nodes for the alarms' query, each once or, if that is not known, again.

    1. A node that was over its capacity in one of the last seconds is told of second by second.
    2. When that is over its newest second is told: it ends what the query may still follow.
    3. So it is, at first, for every node: what was followed before a restart may have ended meanwhile.
    4. A node that has left the cluster is told to be silent.

    Parameters
    ----------
    final_s
        As `stormwright.pipeline.watch.episodes.final_after_s`.
    followed
        Nodes that the query follows already.
    """

    def __init__(self, directory: Path, final_s: int, followed: Iterable[str] = ()) -> None:
        self._landing = Landing(directory)
        self._last_s = final_s + 1
        self._end_s: int | None = None
        self._told: dict[str, dict[int, float | None]] = {node: {} for node in followed}
        self._quiet: set[str] = set()

    def write(self, series: NodeSeries, capacity_cores: Mapping[str, float]) -> None:
        """Tell what is new of nodes whose capacity is known."""
        if not capacity_cores:
            return
        # Whatever was not final when seconds were told last may have changed. After a restart all that is known is told
        # again: what is final does not change by it.
        begin_s = 0 if self._end_s is None else self._end_s - self._last_s
        gone = [node for node in self._told if node not in capacity_cores]
        for node in gone:
            del self._told[node]
        # A second so late that no run of the node can go on.
        lines = [_line(node, series.end_s + self._last_s, None, None) for node in gone]  # 4
        for node, capacity in capacity_cores.items():
            cores = series.cores(node, begin_s)
            if not len(cores):
                continue
            seconds = {series.end_s - len(cores) + n: _known(used) for n, used in enumerate(cores.tolist())}
            if np.any(cores >= capacity):  # 1
                before, self._told[node] = self._told.get(node, {}), seconds
                self._quiet.discard(node)
                new = [at for at, used in seconds.items() if before.get(at, -1.0) != used]
            elif node not in self._quiet:  # 2, 3
                self._told.pop(node, None)
                self._quiet.add(node)
                new = [series.end_s - 1]
            else:
                new = []
            lines += [_line(node, at, seconds[at], capacity) for at in new]
        self._landing.write(lines)
        self._end_s = series.end_s


def _line(node: str, at: int, cores: float | None, capacity_cores: float | None) -> bytes:
    return orjson.dumps({"supervisor": node, "at": at, "cores": cores, "capacity_cores": capacity_cores})


def _known(cores: float) -> float | None:
    return None if math.isnan(cores) else cores
