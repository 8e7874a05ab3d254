"""CPU of nodes over time, and for how long they have been at their capacity."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model.arrays import FloatArray


class NodeSeries:
    """CPU time of every node in every second.

    Parameters
    ----------
    seconds
        Columns `supervisor`, `second` (since 1970), `cpu_ns`.
    settle_s
        The last seconds are left out: not every worker has reported them.
    """

    def __init__(self, seconds: pa.Table, settle_s: int) -> None:
        self._cores: dict[str, FloatArray] = {}
        self._first = 0
        if not seconds.num_rows:
            return
        self._first = pc.min(seconds["second"]).as_py()
        length = max(pc.max(seconds["second"]).as_py() - settle_s + 1 - self._first, 0)
        for supervisor in pc.unique(seconds["supervisor"]).to_pylist():
            own = seconds.filter(pc.equal(seconds["supervisor"], supervisor))
            position = own["second"].to_numpy() - self._first
            settled = position < length
            cores = np.full(length, np.nan)
            cores[position[settled]] = own["cpu_ns"].to_numpy()[settled] / 1e9
            self._cores[supervisor] = cores

    def mean_cores(self, start_s: float, end_s: float) -> dict[str, float]:
        """Cores in use per supervisor on average over a stretch of time (seconds since 1970)."""
        inside = slice(max(round(start_s) - self._first, 0), max(round(end_s) - self._first, 0))
        heard = {supervisor: cores[inside][~np.isnan(cores[inside])] for supervisor, cores in self._cores.items()}
        return {supervisor: float(cores.mean()) for supervisor, cores in heard.items() if len(cores)}

    def overload_s(self, capacity_cores: Mapping[str, float]) -> dict[str, float]:
        """Seconds, up to the newest settled one, for which a supervisor was at or over its capacity without a break.

        A second in which no worker of a node reported is a break.
        """
        return {
            supervisor: _run_at_end(self._cores[supervisor] >= capacity) if supervisor in self._cores else 0.0
            for supervisor, capacity in capacity_cores.items()
        }


def _run_at_end(over: np.ndarray) -> float:
    """How many at the end are true without a break."""
    breaks = np.flatnonzero(~over)
    return float(len(over) - 1 - breaks[-1] if len(breaks) else len(over))
