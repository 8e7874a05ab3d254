"""What becomes of the service's own decisions: made, proposed to a person, or only told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from stormwright.client.shapes import Mode, Modes, ModesChange
from stormwright.controller.plans.modes import (
    AUTO,
    CHECK,
    OBSERVE,
    RANKS,
    SUGGEST,
    closed,
    mode_of,
    response_to,
    staying,
    thawed,
    windows_of,
)
from stormwright.controller.policy import Decision
from stormwright.controller.safety.holds import MOST_MISSING
from stormwright.errors import ConflictError, Fault, InputError
from stormwright.model import UNPLACED, Problem
from stormwright.model.humanize import in_utc
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plans import PlanStore
from stormwright.service.safety.drains import DrainedNodes
from stormwright.service.safety.holds import Holds
from stormwright.service.storage.database import State

#: Of modes, what the service tells and nobody asks for.
_TOLD_ONLY = ("version", "warnings")


class Guard:
    """Keeps the modes, and tells what they allow.

    Parameters
    ----------
    state, plans, ledger
        Keep modes, tell which topologies have a plan that waits, and are told of changes.
    default
        Mode of all topologies from now on; None for what was kept, ``observe`` where nothing was.
    most_missing, rebalancing
        As `Holds` has them.
    told
        Other parts of the modes that hold from now on, whatever was kept.
    """

    def __init__(
        self,
        state: State,
        plans: PlanStore,
        ledger: Journal,
        default: Mode | None = None,
        most_missing: float = MOST_MISSING,
        rebalancing: Callable[[], Sequence[str]] = lambda: (),
        told: Mapping[str, Any] | None = None,
    ) -> None:
        self._state, self._plans, self._ledger = state, plans, ledger
        self.drains = DrainedNodes(state)
        self.holds = Holds(state, self.drains, most_missing, rebalancing)
        self._moving: dict[str, frozenset[str]] = {}
        kept = state.read("SELECT document FROM modes")
        self._modes = Modes.model_validate_json(kept[0]["document"]) if kept else Modes()
        self._changing = threading.Lock()
        said = dict(told or {}) | ({} if default is None else {"default": default})
        if any(getattr(self._modes, name) != value for name, value in said.items()):
            self._keep(said)

    @property
    def modes(self) -> Modes:
        """Those that hold now."""
        return thawed(self._modes, self._state.clock.time())

    def change(self, wanted: ModesChange) -> Modes:
        """Let other modes hold from now on.

        Raises
        ------
        InputError
            A window is none, or a freeze would have ended before it begins.
        ConflictError
            They are others by now than those that were to be changed.
        """
        windows_of(wanted)
        self._refuse_what_is_over(wanted)
        with self._changing:
            if "version" in wanted.model_fields_set and wanted.version != self._modes.version:
                raise ConflictError(
                    f"the modes have changed since: they are version {self._modes.version}, and this is a change of "
                    f"{wanted.version}; look at them, and say it again"
                )
            modes = {name: getattr(wanted, name) for name in Modes.model_fields if name not in _TOLD_ONLY}
            told = _told({name: value for name, value in modes.items() if value != getattr(self._modes, name)}, wanted)
            with self._plans.together():
                self._ledger.begin("modes", wanted.by, wanted.reason, "; ".join(told) or "as before")
                self._keep(modes)
            return self._modes

    def stay(self, problem: Problem) -> dict[str, str]:
        """Topologies (ids) that it does not decide about now, with the reason."""
        return staying(self._modes, [(each.id, each.name) for each in problem.topologies], self.proposed())

    def verdict(self, decision: Decision) -> tuple[Mode, str]:
        """What becomes of a decision, by the topology of which least is allowed; and why it is not made."""
        moving = {move.topology.id: move.topology.name for move in decision.plan.moves}
        modes = [mode_of(self._modes, *each) for each in moving.items()] or [self._modes.default]
        mode = min(modes, key=RANKS.index)
        shut = closed(self.modes, self._state.clock.time())
        if mode != OBSERVE and self.modes.frozen:
            return OBSERVE, shut
        if decision.because and response_to(self.modes, decision.because) == CHECK:
            mode = min(mode, SUGGEST, key=RANKS.index)
        if mode == AUTO and shut:
            return OBSERVE, shut
        if mode == AUTO and moving and (hold := self.holds.before_moving()):
            return OBSERVE, hold.why
        return mode, f"mode {mode}"

    def allowed(self, problem: Problem, host: str) -> tuple[Mode, str]:
        """What may be done by itself with all that runs on a host, and why no more."""
        nodes = [index for index, node in enumerate(problem.supervisors) if node.host == host]
        there = np.isin(problem.slot_node[problem.current_slot], nodes) & (problem.current_slot != UNPLACED)
        topologies = [problem.topologies[index] for index in np.unique(problem.executor_topology[there]).tolist()]
        modes = [mode_of(self._modes, each.id, each.name) for each in topologies] or [self._modes.default]
        mode = min(modes, key=RANKS.index)
        if mode != AUTO:
            return mode, f"mode {mode}"
        if why := closed(self.modes, self._state.clock.time()):
            return OBSERVE, why
        if other := self._plans.under_way():
            return OBSERVE, f"plan {other.id} is {other.state}"
        hold = self.holds.before_moving()
        return (OBSERVE, hold.why) if hold else (mode, "")

    def proposed(self) -> Mapping[str, str]:
        """Topology (id) → the plan that would move it and waits for a person."""
        # It is asked each second, and steps are long.
        self._moving = {plan: self._moving.get(plan) or self._topologies(plan) for plan in self._plans.proposed()}
        return {topology: plan for plan, moving in self._moving.items() for topology in moving}

    def _refuse_what_is_over(self, wanted: Modes) -> None:
        """Whoever asks may have another clock: he would take for frozen what is not."""
        now_ms, until_ms = round(1000 * self._state.clock.time()), wanted.frozen_until_ms
        if wanted.frozen and until_ms is not None and until_ms <= now_ms:
            told = f"{in_utc(until_ms)} is over already: by the clock of the service it is {in_utc(now_ms)}"
            raise InputError("modes", [Fault(told, "$.frozen_until_ms")])

    def _topologies(self, plan: str) -> frozenset[str]:
        return frozenset(move["topology"] for step in self._plans.steps(plan) for move in step.told["moves"])

    def _keep(self, changed: Mapping[str, Any]) -> None:
        modes = self._modes.model_copy(update={**changed, "version": self._modes.version + 1})
        with self._state.change() as to:
            to.execute("INSERT OR REPLACE INTO modes VALUES (1, ?)", (modes.model_dump_json(exclude={"warnings"}),))
        self._modes = modes


def _told(changed: dict[str, object], wanted: Modes) -> list[str]:
    """What holds from now on, for the history."""
    found = []
    if changed.keys() & {"frozen", "frozen_until_ms"}:
        ends = "" if wanted.frozen_until_ms is None else f" until {in_utc(wanted.frozen_until_ms)}"
        found.append(f"frozen{ends}: {wanted.frozen}" if wanted.frozen else "no longer frozen")
    others = {name: value for name, value in changed.items() if not name.startswith("frozen")}
    return found + [
        f"{name}: {value if isinstance(value, str) and value else orjson.dumps(value).decode()}"
        for name, value in others.items()
    ]
