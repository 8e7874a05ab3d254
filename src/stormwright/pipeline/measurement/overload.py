"""CPU of nodes over time, and durations at full capacity."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model.arrays import FloatArray


class NodeSeries:
    """Cores used by the workers of every node, second by second.

    Parameters
    ----------
    seconds
        Per worker (`topology`, `supervisor`, `port`) and second (`at`, since 1970) its `cpu_ns` and the `length_ns` of
        the intervals that cover it.
    settle_s
        The last seconds are left out: not every worker has reported them. A worker's silence that is no longer is
        bridged: its records were lost. A longer one counts as no worker.
    """

    def __init__(self, seconds: pa.Table, settle_s: int) -> None:
        self._cores: dict[str, FloatArray] = {}
        self._first = self._end = 0
        if not seconds.num_rows:
            return
        self._first = pc.min(seconds["at"]).as_py()
        length = pc.max(seconds["at"]).as_py() + 1 - self._first
        self._end = self._first + max(length - settle_s, 0)
        position = seconds["at"].to_numpy() - self._first
        cores = seconds["cpu_ns"].to_numpy() / seconds["length_ns"].to_numpy()
        for (supervisor, _, _), rows in _rows_by_worker(seconds).items():
            own = _bridged(position[rows], cores[rows], length, settle_s)[: self._end - self._first]
            others = self._cores.get(supervisor)
            self._cores[supervisor] = own if others is None else _sum_of_known(own, others)

    @property
    def end_s(self) -> int:
        """The first second that is not settled, since 1970."""
        return self._end

    def cores(self, supervisor: str, begin_s: int) -> FloatArray:
        """Return the cores of a node in every settled second from `begin_s` on; NaN for silence."""
        known = self._cores.get(supervisor)
        inside = slice(max(begin_s - self._first, 0), None)
        return np.full(self._end - self._first, np.nan)[inside] if known is None else known[inside]

    def mean_cores(self, start_s: float, end_s: float) -> dict[str, float]:
        """Return the mean cores in use per supervisor between two moments (seconds since 1970)."""
        inside = slice(max(round(start_s) - self._first, 0), max(round(end_s) - self._first, 0))
        with_data = {supervisor: cores[inside][~np.isnan(cores[inside])] for supervisor, cores in self._cores.items()}
        return {supervisor: float(cores.mean()) for supervisor, cores in with_data.items() if len(cores)}

    def overload_s(self, capacity_cores: Mapping[str, float]) -> dict[str, float]:
        """Return the seconds without a break, up to now, for which a supervisor was at or over capacity.

        A second in which no worker of a node reported is a break.
        """
        return {
            supervisor: _run_at_end(self._cores[supervisor] >= capacity) if supervisor in self._cores else 0.0
            for supervisor, capacity in capacity_cores.items()
        }


def _rows_by_worker(seconds: pa.Table) -> dict[tuple[str, str, int], list[int]]:
    workers = zip(*(seconds[name].to_pylist() for name in ("supervisor", "topology", "port")), strict=True)
    rows: dict[tuple[str, str, int], list[int]] = {}
    for row, worker in enumerate(workers):
        rows.setdefault(worker, []).append(row)
    return rows


def _bridged(position: np.ndarray, cores: FloatArray, length: int, longest: int) -> FloatArray:
    """Return values at positions as a series with NaN elsewhere; gaps up to `longest` are interpolated."""
    order = np.argsort(position)
    position, cores = position[order], cores[order]
    series = np.full(length, np.nan)
    series[position] = cores
    for gap in np.flatnonzero((np.diff(position) > 1) & (np.diff(position) <= longest + 1)):
        inside = np.arange(position[gap] + 1, position[gap + 1])
        series[inside] = np.interp(inside, position, cores)
    return series


def _sum_of_known(one: FloatArray, other: FloatArray) -> FloatArray:
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))


def _run_at_end(over: np.ndarray) -> float:
    """Return the length of the run of true values at the end."""
    breaks = np.flatnonzero(~over)
    return float(len(over) - 1 - breaks[-1] if len(breaks) else len(over))
