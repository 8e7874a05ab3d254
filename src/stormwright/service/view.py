"""The cluster as it is known now: Nimbus's last snapshot, under the load that was measured last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stormwright.model import LoadProfile, Problem
from stormwright.service.loads import Loads
from stormwright.service.storage.calibration import MINUTE, CostCalibration
from stormwright.service.storage.forecasts import ForecastStore
from stormwright.storm.bridge import Bridge


class View:
    """Puts together what Nimbus, the pipeline and the forecasts tell; may be asked from any thread.

    Parameters
    ----------
    bridge, stream
        Have Nimbus's last snapshot, and the newest load.
    calibrating
        Adds to a load what messages and workers cost, and to nodes how fast their cores are.
    forecasting
        For a scheduler that uses forecasts; else None.
    drained
        A snapshot → the same, in which nodes that are drained take nothing new.
    """

    def __init__(
        self,
        bridge: Bridge,
        stream: Loads,
        calibrating: CostCalibration,
        forecasting: ForecastStore | None,
        drained: Callable[[Problem], Problem],
    ) -> None:
        self._drained = drained
        self._bridge = bridge
        self._stream = stream
        self._calibrating = calibrating
        self._forecasting = forecasting
        self._known: tuple[Problem, LoadProfile, Problem] | None = None

    def problem(self) -> Problem | None:
        """The last snapshot under the newest measured load, without one where none was measured; None if unknown.

        It is the same one as long as neither changes: it is asked for each second, and for each page.
        """
        snapshot = self._bridge.snapshot()
        if snapshot is None:
            return None
        snapshot = self._calibrating.with_speeds(self._drained(snapshot))
        load = self._stream.latest(snapshot)
        if load is None:
            return snapshot
        load = self._calibrating.added_to(load)
        load = self._forecasting.added_to(load, snapshot) if self._forecasting else load
        known = self._known
        if known is None or known[0] is not snapshot or known[1] is not load:
            parts = snapshot.parts
            if known is not None and parts is not None:
                # Of the same topologies under the same load all that was made of them stays, wherever they run now.
                parts = parts._replace(demand=known[2].demand)
            self._known = known = (snapshot, load, replace(snapshot, load=load, parts=parts))
        return known[2]

    def age_s(self) -> float:
        """Seconds since Nimbus asked last."""
        return self._bridge.snapshot_age_s()

    def unfitted(self, problem: Problem) -> dict[str, str]:
        """Topology → why predictions of it cannot be relied on yet."""
        return self._calibrating.unfitted(problem)

    def unfit(self) -> dict[str, str]:
        """Topology → why Nimbus's description of it cannot be used."""
        return dict(self._bridge.unfit())

    def note(self, problem: Problem, *, fit: bool = False) -> None:
        """Take note of a load for later forecasts, of the nodes for alarms, and fit costs where that is due.

        With `fit` costs are fitted now, however little was recorded since they were last.
        """
        self._stream.note(problem)
        self._calibrating.refresh(problem, least_windows=1 if fit else MINUTE)
        if self._forecasting:
            self._forecasting.note(problem)
