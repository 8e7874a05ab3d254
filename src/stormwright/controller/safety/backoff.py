"""Topologies that could not be moved are left alone for a while."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Seconds until the first next try; each further failure doubles it, up to the last.
FIRST_S = 600.0
LONGEST_S = 86_400.0


@dataclass(frozen=True)
class _Setback:
    until_s: float
    wait_s: float
    why: str


@dataclass
class Backoff:
    """Failed moves by topology; times in seconds of one clock."""

    _of: dict[str, _Setback] = field(default_factory=dict)

    def note(self, topology: str, now_s: float, why: str) -> None:
        """A move of `topology` has failed."""
        before = self._of.get(topology)
        wait_s = min(2 * before.wait_s, LONGEST_S) if before else FIRST_S
        self._of[topology] = _Setback(now_s + wait_s, wait_s, why)

    def forget(self, topology: str) -> None:
        """A move of `topology` has succeeded."""
        self._of.pop(topology, None)

    def stay(self, now_s: float) -> dict[str, str]:
        """Topology → why it does not move yet."""
        return {
            topology: f"next try in {setback.until_s - now_s:.0f} s, the last one failed: {setback.why}"
            for topology, setback in self._of.items()
            if setback.until_s > now_s
        }
