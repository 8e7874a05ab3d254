"""Budget of trials: how often a topology may be paused for a placement of which the prediction is unsure."""

from __future__ import annotations

import orjson

from stormwright.base.documents import read_or_default
from stormwright.service.storage.database import State

_NAME = "trials"

#: Seconds for which a trial counts.
DAY_S = 86_400.0


class TrialBudget:
    """Trials of the last day by topology, stored over restarts; used on the thread of the control loop.

    Parameters
    ----------
    state
        Database of the service.
    per_day
        Trials of one topology within a day, each of which pauses it once, or twice where it is taken back.
    """

    def __init__(self, state: State, per_day: int) -> None:
        self._state, self.per_day = state, per_day
        self._begun_s: dict[str, list[float]] = read_or_default(
            state.document(_NAME), orjson.loads, dict, "trials of the last day are forgotten"
        )

    def spent(self, names: list[str]) -> dict[str, str]:
        """Return the topologies (names) that may not be tried out now, with the reason."""
        why = f"it had {self.per_day} trials within a day"
        return {name: why for name in names if len(self._recent(name)) >= self.per_day}

    def begin(self, names: list[str]) -> None:
        """Count a trial of topologies (names)."""
        now_s = self._state.clock.time()
        self._begun_s = {name: recent for name in self._begun_s if (recent := self._recent(name))}
        for name in names:
            self._begun_s.setdefault(name, []).append(now_s)
        self._state.document(_NAME).save(orjson.dumps(self._begun_s).decode())

    def _recent(self, name: str) -> list[float]:
        now_s = self._state.clock.time()
        return [begun_s for begun_s in self._begun_s.get(name, []) if now_s - begun_s < DAY_S]
