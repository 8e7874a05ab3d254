"""What virtual workers write on its way to a service that measures it with a real pipeline."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stormwright.errors import ClusterError
from stormwright.perflog.landing import SUFFIX
from stormwright.service.wiring import Service
from stormwright.simulator.cluster.clock import VirtualClock

#: Virtual seconds from one file to the next, and that a file may wait before virtual time does: who decides takes a
#: load for too old that was measured longer ago than a window and what a record may be late.
_LAND_S, _AHEAD_S = 1.0, 30.0

#: Seconds of this machine after which a pipeline stands still, and from one look to the next.
_STILL_S, _LOOK_S = 120.0, 0.02


class Shipping:
    """Delivers records: counted at once, and landed in files that tell a virtual second each.

    Virtual time waits where the pipeline has not kept up.

    Parameters
    ----------
    service
        Takes them.
    clock
        Of the cluster.
    """

    def __init__(self, service: Service, clock: VirtualClock) -> None:
        self._intake, self._directory = service.intake, service.settings.state_dir / "landing"
        self._lines: list[bytes] = []
        self._clock = clock
        clock.every(_LAND_S, self._land)

    def take(self, lines: Sequence[bytes]) -> None:
        """Take lines of the performance log."""
        body = b"\n".join(lines)
        self._intake.count([body])
        self._lines.append(body)

    def _land(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._intake.take(lines)
        until_s = time.monotonic() + _STILL_S
        while self._behind_s() > _AHEAD_S:
            if time.monotonic() > until_s:
                raise ClusterError(f"the pipeline has read nothing for {_STILL_S:g} s: is the machine too busy?")
            time.sleep(_LOOK_S)

    def _behind_s(self) -> float:
        """For how long the oldest file has waited, in virtual seconds."""
        waiting = []
        for path in self._directory.glob(f"*{SUFFIX}"):
            try:
                waiting.append(path.stat().st_mtime)
            except FileNotFoundError:  # it was read meanwhile
                continue
        return self._clock.time() - min(waiting, default=self._clock.time())
