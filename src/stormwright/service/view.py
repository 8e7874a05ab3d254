"""The current view of the cluster: Nimbus's last snapshot, under the newest measured load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stormwright.controller.live_heaps import LiveHeaps
from stormwright.controller.serialization import Serialization
from stormwright.model import LoadProfile, Problem
from stormwright.service.loads import Loads
from stormwright.service.storage.calibration import WINDOWS_PER_MINUTE, CostCalibration
from stormwright.service.storage.forecasts import ForecastStore
from stormwright.storm.bridge import Bridge


class View:
    """Combines the snapshot of Nimbus, the measured load and the forecasts; callable from any thread.

    Parameters
    ----------
    bridge, stream
        Sources of Nimbus's last snapshot and of the newest load.
    calibration
        Adds costs of messages and workers to a load, and the speed of cores to nodes.
    forecasts
        Forecasts, for a scheduler that uses them; else None.
    drained
        Returns a snapshot with its drained nodes blacklisted.
    heaps
        Adds the live heap of executors to a load; None for no such measurement.
    serialization
        Marks topologies whose tuples cannot leave their worker; None for none.
    """

    def __init__(
        self,
        bridge: Bridge,
        stream: Loads,
        calibration: CostCalibration,
        forecasts: ForecastStore | None,
        drained: Callable[[Problem], Problem],
        heaps: LiveHeaps | None = None,
        serialization: Serialization | None = None,
    ) -> None:
        self._drained = drained
        self._bridge = bridge
        self._stream = stream
        self._calibration = calibration
        self._forecasts, self._heaps, self._serialization = forecasts, heaps, serialization
        self._known: tuple[Problem, LoadProfile, Problem] | None = None

    def problem(self) -> Problem | None:
        """Return the last snapshot under the newest measured load; None if there is no snapshot.

        It has no load if none was measured. The same object is returned as long as neither changes: each second and
        each page calls this.
        """
        snapshot = self._bridge.snapshot()
        if snapshot is None:
            return None
        snapshot = self._calibration.with_speeds(self._drained(snapshot))
        snapshot = self._serialization.confine(snapshot) if self._serialization else snapshot
        load = self._stream.latest(snapshot)
        if load is None:
            return snapshot
        load = self._calibration.with_costs(load)
        load = self._forecasts.with_forecast(load, snapshot) if self._forecasts else load
        load = self._heaps.with_heaps(load, snapshot) if self._heaps else load
        known = self._known
        if known is None or known[0] is not snapshot or known[1] is not load:
            parts = snapshot.parts
            if known is not None and parts is not None:
                # Of the same topologies under the same load all that was made of them stays, wherever they run now.
                parts = parts._replace(demand=known[2].demand)
            self._known = known = (snapshot, load, replace(snapshot, load=load, parts=parts))
        return known[2]

    def age_s(self) -> float:
        """Return the seconds since Nimbus last called."""
        return self._bridge.snapshot_age_s()

    def unfitted(self, problem: Problem) -> dict[str, str]:
        """Return topologies whose predictions are not reliable yet, with the reason."""
        return self._calibration.unfitted(problem)

    def unfit(self) -> dict[str, str]:
        """Return topologies that Nimbus describes in an unusable way, with the reason."""
        return dict(self._bridge.unfit())

    def note(self, problem: Problem, *, fit: bool = False) -> None:
        """Record a load for forecasts and the nodes for alarms, and fit costs if that is due.

        With `fit` costs are fitted now, however few records are new.
        """
        self._stream.note(problem)
        self._calibration.refresh(problem, min_windows=1 if fit else WINDOWS_PER_MINUTE)
        if self._forecasts:
            self._forecasts.note(problem)
