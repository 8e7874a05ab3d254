"""CPU of nodes over time, and durations at full capacity."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model.arrays import FloatArray
from stormwright.pipeline.measurement.windows import numbers


class NodeSeries:
    """Cores used on every node, second by second.

    They are those of the node's control group where its workers report them, on average over the workers, as each
    reports the same group; else those of its workers, added up.

    Parameters
    ----------
    seconds
        Per worker (`topology`, `supervisor`, `port`) and second (`at`, since 1970) its `cpu_ns` and the `length_ns` of
        the intervals that cover it; `used_ns` of the node's control group, the `quota_ns` that it allows, and the
        `used_known_ns` of the intervals that have both, null where none has.
    settle_s
        The last seconds are left out: not every worker has reported them. A worker's silence that is no longer is
        bridged: its records were lost. A longer one counts as no worker.
    """

    def __init__(self, seconds: pa.Table, settle_s: int) -> None:
        self._cores: dict[str, FloatArray] = {}
        self._overhead: dict[str, FloatArray] = {}
        self._quota: dict[str, FloatArray] = {}
        self._first = self._end = 0
        if not seconds.num_rows:
            return
        self._first = pc.min(seconds["at"]).as_py()
        length = pc.max(seconds["at"]).as_py() + 1 - self._first
        self._end = self._first + max(length - settle_s, 0)
        position = seconds["at"].to_numpy() - self._first
        known_ns = numbers(seconds, "used_known_ns")
        values = np.stack(
            [
                numbers(seconds, "cpu_ns") / numbers(seconds, "length_ns"),
                numbers(seconds, "used_ns") / known_ns,
                numbers(seconds, "quota_ns") / known_ns,
            ]
        )
        workers: dict[str, list[FloatArray]] = {}
        for (supervisor, _, _), rows in _rows_by_worker(seconds).items():
            own = _bridged(position[rows], values[:, rows], length, settle_s)[:, : self._end - self._first]
            workers.setdefault(supervisor, []).append(own)
        for supervisor, series in workers.items():
            cores, used, quota = np.stack(series, axis=1)
            of_workers, used = _sum_of_known(cores), _mean_of_known(used)
            self._cores[supervisor] = np.where(np.isnan(used), of_workers, used)
            if not np.isnan(used).all():
                self._overhead[supervisor] = used - of_workers
                self._quota[supervisor] = _mean_of_known(quota)

    @property
    def end_s(self) -> int:
        """The first second that is not settled, since 1970."""
        return self._end

    def cores(self, supervisor: str, begin_s: int) -> FloatArray:
        """Return the cores of a node in every settled second from `begin_s` on; NaN for silence."""
        known = self._cores.get(supervisor)
        inside = slice(max(begin_s - self._first, 0), None)
        return np.full(self._end - self._first, np.nan)[inside] if known is None else known[inside]

    def limits(self, supervisor: str, begin_s: int, capacity_cores: float) -> FloatArray:
        """Return the cores that a node has in every settled second from `begin_s` on: its capacity or its quota."""
        inside = slice(max(begin_s - self._first, 0), None)
        capacity = np.full(self._end - self._first, capacity_cores)
        known = self._quota.get(supervisor)
        limits: FloatArray = capacity if known is None else np.fmin(capacity, known)
        return limits[inside]

    def mean_cores(self, start_s: float, end_s: float) -> dict[str, float]:
        """Return the mean cores in use per supervisor between two moments (seconds since 1970)."""
        return {node: float(known.mean()) for node, known in self._known(self._cores, start_s, end_s).items()}

    def mean_overhead_cores(self, start_s: float, end_s: float) -> dict[str, float]:
        """Return the mean cores that others than workers use per supervisor between two moments, where known."""
        known = self._known(self._overhead, start_s, end_s)
        return {node: max(float(overhead.mean()), 0.0) for node, overhead in known.items()}

    def quota_cores(self, start_s: float, end_s: float) -> dict[str, float]:
        """Return the last quota in cores per supervisor between two moments (seconds since 1970), where known."""
        return {node: float(known[-1]) for node, known in self._known(self._quota, start_s, end_s).items()}

    def overload_s(self, capacity_cores: Mapping[str, float], part: float = 1.0) -> dict[str, float]:
        """Return the seconds without a break, up to now, for which a supervisor was at or over its limit.

        A second in which no worker of a node reported is a break.

        Parameters
        ----------
        capacity_cores
            Cores of nodes by supervisor; infinite for a node whose only limit is a quota. One without any is left out.
        part
            Part of the capacity, or of the quota if that is less, from which a node is overloaded.
        """
        return {
            node: _run_at_end(self.cores(node, 0) >= part * self.limits(node, 0, capacity))
            for node, capacity in capacity_cores.items()
            if math.isfinite(capacity) or node in self._quota
        }

    def _known(self, series: Mapping[str, FloatArray], start_s: float, end_s: float) -> dict[str, FloatArray]:
        """Return the known values of series between two moments; series without any are left out."""
        inside = slice(max(round(start_s) - self._first, 0), max(round(end_s) - self._first, 0))
        known = {node: values[inside][~np.isnan(values[inside])] for node, values in series.items()}
        return {node: values for node, values in known.items() if len(values)}


def _rows_by_worker(seconds: pa.Table) -> dict[tuple[str, str, int], list[int]]:
    workers = zip(*(seconds[name].to_pylist() for name in ("supervisor", "topology", "port")), strict=True)
    rows: dict[tuple[str, str, int], list[int]] = {}
    for row, worker in enumerate(workers):
        rows.setdefault(worker, []).append(row)
    return rows


def _bridged(position: np.ndarray, values: FloatArray, length: int, longest: int) -> FloatArray:
    """Return values at positions as series with NaN elsewhere; gaps up to `longest` are interpolated.

    Values have the shape (series, positions).
    """
    order = np.argsort(position)
    position, values = position[order], values[:, order]
    series = np.full((len(values), length), np.nan)
    series[:, position] = values
    for gap in np.flatnonzero((np.diff(position) > 1) & (np.diff(position) <= longest + 1)):
        inside = np.arange(position[gap] + 1, position[gap + 1])
        share = (inside - position[gap]) / (position[gap + 1] - position[gap])
        series[:, inside] = values[:, gap, None] * (1 - share) + values[:, gap + 1, None] * share
    return series


def _sum_of_known(rows: FloatArray) -> FloatArray:
    """Return the sum of each column's numbers, NaN where it has none."""
    total: FloatArray = np.where(np.isnan(rows).all(axis=0), np.nan, np.nansum(rows, axis=0))
    return total


def _mean_of_known(rows: FloatArray) -> FloatArray:
    """Return the mean of each column's numbers, NaN where it has none."""
    mean: FloatArray = _sum_of_known(rows) / np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    return mean


def _run_at_end(over: np.ndarray) -> float:
    """Return the length of the run of true values at the end."""
    breaks = np.flatnonzero(~over)
    return float(len(over) - 1 - breaks[-1] if len(breaks) else len(over))
