"""Placements that were rolled back; they, and others that promise no more, are refused for some time."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from stormwright.base.documents import Document, read_or_default
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import IntArray

log = logging.getLogger(__name__)

#: Seconds for which a placement is refused, doubled each further time, and their maximum.
FIRST_S = 3600.0
LONGEST_S = 86_400.0

#: Relative difference of rates from which the load counts as another one, so that refusals no longer apply.
OTHER_LOAD = 0.25

#: Minimum relative increase in worth to promise more: about the error of predictions.
NO_BETTER = 0.05

#: Node, component and number of its executors there.
_Crowd = tuple[str, str, int]


@dataclass(frozen=True)
class Refusal:
    """A refused placement of one topology.

    Parameters
    ----------
    crowds
        Executors by node and component, sorted.
    worth
        Predicted worth (`Outlook.worth`); None if unknown.
    rate_tps
        Trees/s measured when it was refused; at another load it does not count.
    until_ms, wait_s
        End and length of the refusal.
    why
        Measured outcome that caused the refusal, as text.
    """

    crowds: tuple[_Crowd, ...]
    worth: float | None
    rate_tps: float
    until_ms: float
    wait_s: float
    why: str


class RefusedPlacements:
    """Persistent registry of refused placements by topology.

    Parameters
    ----------
    document
        Document for the registry.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        lost = "placements that were rolled back may be tried again"
        self._refusals: dict[str, list[Refusal]] = read_or_default(document, _read, dict, lost)

    def refuse_current(
        self,
        problem: Problem,
        topology: str,
        why: str,
        now_ms: float,
        worth: float | None = None,
        rate_tps: float = 0.0,
    ) -> None:
        """Refuse the current placement of a topology, which is rolled back.

        Parameters
        ----------
        problem
            Problem with the placement that is refused as its current one.
        topology
            Topology id; nothing is recorded if it is gone.
        why
            Measured outcome that caused the rollback, as text.
        now_ms
            Current time in ms since 1970.
        worth, rate_tps
            Predicted worth (None if unknown) and measured trees/s of the refused placement.
        """
        index = problem.topology_index.get(topology)
        if index is not None:
            where = crowds(problem, index, problem.current_slot)
            self.note(topology, Refusal(where, worth, rate_tps, now_ms + FIRST_S * 1000, FIRST_S, why))

    def note(self, topology: str, refusal: Refusal) -> None:
        """Record a rolled-back placement; it is refused even if it cannot be written to disk.

        The duration is that of `refusal`, doubled for each earlier refusal.
        """
        known = self._refusals.setdefault(topology, [])
        before = [each for each in known if each.crowds == refusal.crowds]
        if before:
            wait_s = min(2 * before[0].wait_s, LONGEST_S)
            more_ms = (wait_s - refusal.wait_s) * 1000
            refusal = Refusal(**{**vars(refusal), "wait_s": wait_s, "until_ms": refusal.until_ms + more_ms})
        self._refusals[topology] = [*(each for each in known if each not in before), refusal]
        try:
            self._write()
        except (OSError, sqlite3.Error) as error:
            log.warning("%s: a service that starts now might try its placement again: %s", topology, error)

    def stay(
        self,
        problem: Problem,
        wanted: IntArray,
        worth: Mapping[str, float],
        rate_tps: Mapping[str, float],
        now_ms: float,
    ) -> dict[str, str]:
        """Return the reason per topology why its wanted placement is refused.

        Parameters
        ----------
        problem
            Problem whose nodes, topologies and components the slots refer to.
        wanted
            Wanted slot of every executor, shape (E,).
        worth
            Predicted worth by topology id; for others only an equal placement is refused.
        rate_tps
            Trees/s as measured, by topology id.
        now_ms
            Current time in ms since 1970.
        """
        found = {}
        for topology, refusals in self._refusals.items():
            index = problem.topology_index.get(topology)
            if index is None:
                continue
            wish = crowds(problem, index, wanted)
            for refusal in refusals:
                same = wish == refusal.crowds
                if refusal.until_ms <= now_ms or _another_load(refusal, rate_tps.get(topology, 0.0)):
                    continue
                if same or _no_better(worth.get(topology), refusal.worth):
                    what = "this placement" if same else "one that promised as much"
                    left_min = (refusal.until_ms - now_ms) / 60_000
                    found[topology] = f"{what} was rolled back: {refusal.why}; next try in {left_min:.0f} min"
        return found

    def reasons(self, now_ms: float) -> dict[str, list[str]]:
        """Return the reasons of current refusals per topology, for the status page."""
        found = {
            topology: [each.why for each in refusals if each.until_ms > now_ms]
            for topology, refusals in self._refusals.items()
        }
        return {topology: whys for topology, whys in found.items() if whys}

    def _write(self) -> None:
        stored = {topology: [asdict(each) for each in refusals] for topology, refusals in self._refusals.items()}
        self._document.save(json.dumps(stored))


def crowds(problem: Problem, topology: int, slots: IntArray) -> tuple[_Crowd, ...]:
    """Return the executors of a topology (index) by node and component; equal executors are interchangeable."""
    return tuple(sorted(_crowds(problem, topology, slots)))


def _crowds(problem: Problem, topology: int, slots: IntArray) -> Iterator[_Crowd]:
    own = problem.topologies[topology]
    pairs = zip(slots[problem.executors_of(topology)].tolist(), own.executor_component.tolist(), strict=True)
    for (node, component), count in Counter(
        (problem.slot_node[slot], component) for slot, component in pairs if slot != UNPLACED
    ).items():
        yield problem.supervisors[node].id, own.components[component].id, count


def _another_load(refusal: Refusal, rate_tps: float) -> bool:
    return abs(rate_tps - refusal.rate_tps) > OTHER_LOAD * refusal.rate_tps


def _no_better(worth: float | None, refused: float | None) -> bool:
    return worth is not None and refused is not None and worth <= refused + NO_BETTER * abs(refused)


def _read(text: str) -> dict[str, list[Refusal]]:
    stored = json.loads(text)
    return {
        topology: [
            Refusal(**{**raw, "crowds": tuple((str(n), str(c), int(count)) for n, c, count in raw["crowds"])})
            for raw in refusals
        ]
        for topology, refusals in stored.items()
    }
