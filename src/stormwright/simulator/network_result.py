"""Results of simulated queueing networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from stormwright.base.tables import Tabular
from stormwright.jit.compiled import Records
from stormwright.model.humanize import counted
from stormwright.simulator.distributions import FloatArray

#: Quantiles in the table.
_QUANTILES = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}

#: Batches, of which the spread of their means gives the interval of the mean; and its confidence.
_BATCHES, _CONFIDENCE = 20, 0.95

#: Row of the stays in the whole network.
NETWORK = "(network)"


@dataclass(frozen=True)
class StationResult:
    """Result of one station, or of the whole network (`NETWORK`).

    Parameters
    ----------
    station
        Name of the station, or `NETWORK` for the whole network.
    jobs, jobs_per_s
        Mean number of jobs inside, and jobs that left per second.
    utilisation
        Mean fraction of servers in use; None for the whole network.
    stay_s, stay_error_s
        Mean time from the entry of a job to its departure, and half of its 95 % interval by batch means; None with too
        few jobs.
    p50_s, p95_s, p99_s
        Quantiles of that time.
    """

    station: str
    jobs: float
    jobs_per_s: float
    utilisation: float | None
    stay_s: float | None
    stay_error_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, eq=False, repr=False)
class NetworkResult(Tabular):
    """Result of a simulation; a sequence of rows, the last of which is that of the whole network.

    Parameters
    ----------
    rows
        Result of every station, then of the network.
    stays_s
        Station → times that its jobs stayed, in order of their departures; those in the whole network under `NETWORK`.
    seconds
        Duration in virtual time.
    services
        Number of completed services.
    """

    rows: tuple[StationResult, ...]
    stays_s: Mapping[str, FloatArray]
    seconds: float
    services: int

    def __iter__(self) -> Iterator[StationResult]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, station: str | int) -> StationResult:
        """Return the row of a station, by its name or position."""
        if not isinstance(station, str):
            return self.rows[station]
        for row in self.rows:
            if row.station == station:
                return row
        raise KeyError(station)

    def quantile_s(self, part: float, station: str = NETWORK) -> float | None:
        """Return a quantile of the time that jobs stay in a station or the whole network; None without jobs."""
        stays = self.stays_s[station]
        return float(np.quantile(stays, part)) if len(stays) else None

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows as a table."""
        return {"stations": [asdict(row) for row in self.rows]}

    def headline(self) -> str:
        """Return the first line of the text."""
        return f"{self.seconds:,.6g} s of virtual time, {counted(self.services, 'service')}"


def station_result(
    name: str, figures: tuple[float, float, float | None], log: Records, begin_s: float, seconds: float
) -> StationResult:
    """Return the result of a station.

    Parameters
    ----------
    name
        Name of the station.
    figures
        Its mean number of jobs, jobs per second, and utilisation.
    log
        Stays of its jobs, in order of their ends (`stormwright.simulator.queueing_network.STAY`).
    begin_s, seconds
        Begin and duration of the interval.
    """
    stays: FloatArray = log["stay"]
    mean = float(stays.mean()) if len(stays) else None
    quantiles = np.quantile(stays, [*_QUANTILES.values()]).tolist() if len(stays) else [None] * len(_QUANTILES)
    return StationResult(name, *figures, mean, _error(log, begin_s, seconds), *quantiles)


def _error(log: Records, begin_s: float, seconds: float) -> float | None:
    """Return half of the interval of the mean stay, by the means of batches of equal time."""
    batch = np.minimum((_BATCHES * (log["end"] - begin_s) / seconds).astype(np.int64), _BATCHES - 1)
    counts = np.bincount(batch, minlength=_BATCHES)
    if counts.min() < 2:
        return None
    means = np.bincount(batch, log["stay"], _BATCHES) / counts
    return float(stdtrit(_BATCHES - 1, (1 + _CONFIDENCE) / 2) * means.std(ddof=1) / np.sqrt(_BATCHES))
