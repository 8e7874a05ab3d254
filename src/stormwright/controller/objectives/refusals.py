"""Placements that were rolled back; they, and others that promise no more, are refused for some time."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from stormwright.controller.planning.plan import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.policy import Decision, planned_slots
from stormwright.files import write_whole
from stormwright.history.evaluation.moves import Worse, predicted_ratios
from stormwright.history.evaluation.verdict import Promise
from stormwright.model import UNPLACED, Assignment, Problem, cost_of
from stormwright.model.arrays import IntArray
from stormwright.state_files import load_or_default

# Rollback -----------------------------------------------------------------------------------------
# The decision that rolls back a move after which a topology performs measurably worse.


def way_back(problem: Problem, worse: Worse) -> Decision:
    """Return the rollback of a topology to its placement before the move, or the reason why it has to stay.

    It takes precedence over all triggers and needs no predicted gain: the loss was measured.
    """
    topology, before = worse.moved.topology, worse.moved.before
    index = problem.topology_index[topology]
    name = problem.topologies[index].name
    reason = f"{name} goes back to where it was: since its move {worse.why}"
    now = cost_of(problem, problem.current_slot)
    known = problem.slot_index
    if before is None or any(slot not in known for slot in before.slots):
        return Decision(True, f"{reason}; but it stays, as a node that it was on is gone", before=now)
    wanted = problem.current_slot.copy()
    wanted[problem.executors_of(index)] = [known[before.slots[slot]] for slot in before.slot_of_executor]
    # It performed better there, whatever CPU it seems to take.
    budget = MoveBudget(max_topologies=1, max_executors=len(wanted))
    had = len(before.slots)
    workers = {topology: had} if had != problem.topologies[index].num_workers else {}
    plan = plan_moves(problem, Assignment(wanted, num_workers=workers), budget, cpu_limits=False)
    if not plan.moves:
        return Decision(True, f"{reason}; but it stays, {plan.left.get(topology, 'as it is there')}", plan, now)
    promise = Promise(predicted_ratios(problem, [index], planned_slots(problem, plan.moves))[0])
    after = cost_of(problem, wanted)
    return Decision(True, reason, plan, now, after, promises={topology: promise}, takes_back=frozenset([topology]))


def refusal(problem: Problem, worse: Worse, now_ms: float) -> Refusal:
    """Return the refusal to record for the current placement, which is rolled back.

    Parameters
    ----------
    problem
        What runs.
    worse
        Why it is taken back.
    now_ms
        Current time in ms since 1970.
    """
    index, promise = problem.topology_index[worse.moved.topology], worse.moved.promise
    where = crowds(problem, index, problem.current_slot)
    return Refusal(where, promise.worth, promise.rate_tps, now_ms + FIRST_S * 1000, FIRST_S, worse.why)


log = logging.getLogger(__name__)

# Refusals -----------------------------------------------------------------------------------------

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
        Trees/s measured then.
    until_ms, wait_s
        End and length of the refusal.
    why
        Measured outcome.
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
    path
        File for the registry; its directory must exist.
    share
        Called with the new content before the file is written.
    """

    def __init__(self, path: Path, share: Callable[[str], None] = lambda _: None) -> None:
        self._path, self._share = path, share
        lost = "placements that were taken back may be tried again"
        self._of: dict[str, list[Refusal]] = load_or_default(path, lambda: _read(path), dict, lost)

    def note(self, topology: str, refusal: Refusal) -> None:
        """Record a rolled-back placement; it is refused even if it cannot be written to disk.

        The duration is that of `refusal`, doubled for each earlier refusal.
        """
        known = self._of.setdefault(topology, [])
        before = [each for each in known if each.crowds == refusal.crowds]
        if before:
            wait_s = min(2 * before[0].wait_s, LONGEST_S)
            more_ms = (wait_s - refusal.wait_s) * 1000
            refusal = Refusal(**{**vars(refusal), "wait_s": wait_s, "until_ms": refusal.until_ms + more_ms})
        self._of[topology] = [*(each for each in known if each not in before), refusal]
        try:
            self._write()
        except OSError as error:
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
            What runs.
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
        for topology, refusals in self._of.items():
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
                    found[topology] = f"{what} was taken back: {refusal.why}; next try in {left_min:.0f} min"
        return found

    def told(self, now_ms: float) -> dict[str, list[str]]:
        """Return the reasons of current refusals per topology, for the status page."""
        found = {
            topology: [each.why for each in refusals if each.until_ms > now_ms]
            for topology, refusals in self._of.items()
        }
        return {topology: whys for topology, whys in found.items() if whys}

    def _write(self) -> None:
        stored = {topology: [asdict(each) for each in refusals] for topology, refusals in self._of.items()}
        content = json.dumps(stored)
        self._share(content)
        write_whole(self._path, content.encode())


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


def _read(path: Path) -> dict[str, list[Refusal]]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {
        topology: [
            Refusal(**{**raw, "crowds": tuple((str(n), str(c), int(count)) for n, c, count in raw["crowds"])})
            for raw in refusals
        ]
        for topology, refusals in stored.items()
    }
