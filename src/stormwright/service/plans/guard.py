"""Modes and holds: which parts of a decision the service may apply."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from stormwright.client.shapes import ModesChange
from stormwright.controller.draining import DrainPolicy
from stormwright.controller.planning.order import Forbidden
from stormwright.controller.requests import NoPlan
from stormwright.controller.safety.holds import MAX_MISSING
from stormwright.controller.safety.move_kinds import MoveSafety
from stormwright.controller.safety.move_permissions import forbidden_moves, permission_of
from stormwright.errors import ConflictError, Fault, InputError
from stormwright.model import UNPLACED, Problem, Topology
from stormwright.model.humanize import in_utc
from stormwright.plans.modes import (
    AUTO,
    CHECK,
    OBSERVE,
    RANKS,
    SUGGEST,
    Mode,
    Modes,
    MoveKind,
    closed_reason,
    mode_of,
    response_to,
    staying,
    windows_of,
    without_expired_freeze,
)
from stormwright.plans.plan import Plan
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore
from stormwright.service.safety.drains import DrainedNodes
from stormwright.service.safety.holds import Holds
from stormwright.service.storage.database import State

#: Fields of modes that only responses have.
_RESPONSE_ONLY = ("version", "warnings")


class Guard:
    """Stores the modes, and decides which moves they allow.

    Parameters
    ----------
    state, plans, journal
        Database, stored plans, and journal of changes.
    default
        New default mode; None for the stored one, or ``observe``.
    most_missing, rebalancing
        Tolerated part of missing nodes, and function that lists rebalancing topologies, as in `Holds`.
    overrides
        Other parts of the modes that replace stored ones.
    """

    def __init__(
        self,
        state: State,
        plans: PlanStore,
        journal: Journal,
        default: Mode | None = None,
        most_missing: float = MAX_MISSING,
        rebalancing: Callable[[], Sequence[str]] = lambda: (),
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self._state, self._plans, self._journal = state, plans, journal
        self.drains = DrainedNodes(state)
        self.holds = Holds(state, self.drains, most_missing, rebalancing)
        self._moving: dict[str, frozenset[str]] = {}
        stored = state.read("SELECT document FROM modes")
        self._modes = Modes.model_validate_json(stored[0]["document"]) if stored else Modes()
        self._changing = threading.Lock()
        given = dict(overrides or {}) | ({} if default is None else {"default": default})
        if any(getattr(self._modes, name) != value for name, value in given.items()):
            self._save(given)

    @property
    def modes(self) -> Modes:
        """Current modes."""
        return without_expired_freeze(self._modes, self._state.clock.time())

    def change(self, wanted: ModesChange) -> Modes:
        """Replace the modes.

        Raises
        ------
        InputError
            A window is invalid, or a freeze ends before it begins.
        ConflictError
            The version is outdated.
        """
        windows_of(wanted)
        self._require_future_end(wanted)
        with self._changing:
            if "version" in wanted.model_fields_set and wanted.version != self._modes.version:
                raise ConflictError(
                    f"the modes have changed since: they are version {self._modes.version}, and this is a change of "
                    f"{wanted.version}; read them again and repeat the change"
                )
            modes = {name: getattr(wanted, name) for name in Modes.model_fields if name not in _RESPONSE_ONLY}
            changed = {name: value for name, value in modes.items() if value != getattr(self._modes, name)}
            with self._plans.transaction():
                text = "; ".join(_change_texts(changed, wanted)) or "as before"
                self._journal.add_entry("modes", wanted.by, wanted.reason, text)
                self._save(modes)
            return self._modes

    def stay(self, problem: Problem) -> dict[str, str | Forbidden]:
        """Return topologies (ids) about which nothing is decided now, with the reason."""
        observed = staying(self._modes, [(each.id, each.name) for each in problem.topologies], self.proposed())
        return {**self.forbidden(problem), **observed}

    def not_automatic(self, problem: Problem) -> dict[str, str]:
        """Return topologies (ids) that nothing may move automatically now, with the reason."""
        if shut := closed_reason(self.modes, self._state.clock.time()):
            return dict.fromkeys(problem.topology_index, shut)
        modes = ((each.id, mode_of(self._modes, each.id, each.name)) for each in problem.topologies)
        return {topology: f"mode {mode}" for topology, mode in modes if mode != AUTO}

    def forbidden(
        self,
        problem: Problem,
        allowed: Sequence[MoveKind] = (),
        rates: Callable[[Problem], Mapping[str, float]] = lambda _: {},
    ) -> dict[str, Forbidden]:
        """Return topologies (ids) that may not be moved because of their kind (`forbidden_moves`)."""
        return forbidden_moves(self._modes, problem, allowed, rates)

    def safety_of(
        self, topology: Topology, rate_tps: float | None = None, restarts: Mapping[str, float] | None = None
    ) -> MoveSafety:
        """Return how a topology can be moved, under the current modes (`move_safety`)."""
        return permission_of(self._modes, topology.id, topology.name).safety(topology, rate_tps, restarts)

    def drain_policy(self, topology: Topology) -> DrainPolicy:
        """Return how a topology is drained, under the current modes."""
        return permission_of(self._modes, topology.id, topology.name).drain_policy(self.safety_of(topology))

    def verdict(self, decision: Plan | NoPlan) -> tuple[Mode, str]:
        """Return the mode for a decision, that of its most restricted topology, and the reason for it."""
        moving = {move.topology: move.name for move in decision.moves}
        modes = [mode_of(self._modes, *each) for each in moving.items()] or [self._modes.default]
        mode = min(modes, key=RANKS.index)
        shut = closed_reason(self.modes, self._state.clock.time())
        if mode != OBSERVE and self.modes.frozen:
            return OBSERVE, shut
        if isinstance(decision, Plan) and decision.because and response_to(self.modes, decision.because) == CHECK:
            mode = min(mode, SUGGEST, key=RANKS.index)
        if mode == AUTO and shut:
            return OBSERVE, shut
        if mode == AUTO and moving and (hold := self.holds.before_moving()):
            return OBSERVE, hold.why
        return mode, f"mode {mode}"

    def allowed(self, problem: Problem, host: str) -> tuple[Mode, str]:
        """Return the mode for everything that runs on a host, and the reason for it."""
        nodes = [index for index, node in enumerate(problem.supervisors) if node.host == host]
        there = np.isin(problem.slot_node[problem.current_slot], nodes) & (problem.current_slot != UNPLACED)
        topologies = [problem.topologies[index] for index in np.unique(problem.executor_topology[there]).tolist()]
        modes = [mode_of(self._modes, each.id, each.name) for each in topologies] or [self._modes.default]
        mode = min(modes, key=RANKS.index)
        if mode != AUTO:
            return mode, f"mode {mode}"
        if why := closed_reason(self.modes, self._state.clock.time()):
            return OBSERVE, why
        if other := self._plans.active_summary():
            return OBSERVE, f"plan {other.id} is {other.state}"
        hold = self.holds.before_moving()
        return (OBSERVE, hold.why) if hold else (mode, "")

    def proposed(self) -> Mapping[str, str]:
        """Return the proposal that waits for a person by topology id."""
        # Cached: this is called each second, and steps are large.
        self._moving = {plan: self._moving.get(plan) or self._topologies(plan) for plan in self._plans.proposed()}
        return {topology: plan for plan, moving in self._moving.items() for topology in moving}

    def _require_future_end(self, wanted: Modes) -> None:
        """Raise InputError if a freeze is over already, as with a wrong clock of the client."""
        now_ms, until_ms = round(1000 * self._state.clock.time()), wanted.frozen_until_ms
        if wanted.frozen and until_ms is not None and until_ms <= now_ms:
            text = f"{in_utc(until_ms)} is over already: by the clock of the service it is {in_utc(now_ms)}"
            raise InputError("modes", [Fault(text, "$.frozen_until_ms")])

    def _topologies(self, plan: str) -> frozenset[str]:
        return frozenset(move.topology for move in self._plans.plan(plan).moves)

    def _save(self, changed: Mapping[str, Any]) -> None:
        modes = self._modes.model_copy(update={**changed, "version": self._modes.version + 1})
        with self._state.change() as to:
            to.execute("INSERT OR REPLACE INTO modes VALUES (1, ?)", (modes.model_dump_json(exclude={"warnings"}),))
        self._modes = modes


def _text(value: object) -> str:
    """Return a part of the modes for people."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items()) or "none"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_text, value)) or "none"
    return str(value) or "none"


def _change_texts(changed: dict[str, object], wanted: Modes) -> list[str]:
    """Return a change of modes as texts for the journal."""
    found = []
    if changed.keys() & {"frozen", "frozen_until_ms"}:
        ends = "" if wanted.frozen_until_ms is None else f" until {in_utc(wanted.frozen_until_ms)}"
        found.append(f"frozen{ends}: {wanted.frozen}" if wanted.frozen else "no longer frozen")
    others = {name: value for name, value in changed.items() if not name.startswith("frozen")}
    return found + [f"{name}: {_text(value)}" for name, value in others.items()]
