"""What becomes of the service's own decisions: made, proposed to a person, or only told."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from stormwright.client.shapes import Mode, Modes, ModesChange
from stormwright.controller.plans.modes import AUTO, OBSERVE, RANKS, closed, mode_of, staying, windows_of
from stormwright.controller.policy import Decision
from stormwright.model import Problem
from stormwright.service.operating.ledger import Ledger
from stormwright.service.operating.plans import Plans
from stormwright.service.operating.state import State


class Guard:
    """Keeps the modes, and tells what they allow.

    Parameters
    ----------
    state, plans, ledger
        Keep modes, tell which topologies have a plan that waits, and are told of changes.
    default
        Mode of all topologies from now on; None for what was kept, ``observe`` where nothing was.
    """

    def __init__(self, state: State, plans: Plans, ledger: Ledger, default: Mode | None = None) -> None:
        self._state, self._plans, self._ledger = state, plans, ledger
        self._moving: dict[str, frozenset[str]] = {}
        kept = state.read("SELECT document FROM modes")
        self._modes = Modes.model_validate_json(kept[0]["document"]) if kept else Modes()
        if default is not None and default != self._modes.default:
            self._keep(self._modes.model_copy(update={"default": default}))

    @property
    def modes(self) -> Modes:
        """Those that hold now."""
        return self._modes

    def change(self, wanted: ModesChange) -> Modes:
        """Let other modes hold from now on.

        Raises
        ------
        InputError
            A window is none.
        """
        modes = Modes(**{name: getattr(wanted, name) for name in Modes.model_fields})
        windows_of(modes)
        told = [f"{name}: {_shown(getattr(modes, name))}" for name in _differing(self._modes, modes)]
        self._keep(modes)
        self._ledger.begin("modes", wanted.by, wanted.reason, "; ".join(told) or "as before")
        return modes

    def stay(self, problem: Problem) -> dict[str, str]:
        """Topologies (ids) that it does not decide about now, with the reason."""
        return staying(self._modes, [(each.id, each.name) for each in problem.topologies], self.proposed())

    def verdict(self, decision: Decision) -> tuple[Mode, str]:
        """What becomes of a decision, by the topology of which least is allowed; and why it is not made."""
        moving = {move.topology.id: move.topology.name for move in decision.plan.moves}
        modes = [mode_of(self._modes, *each) for each in moving.items()] or [self._modes.default]
        mode = min(modes, key=RANKS.index)
        shut = closed(self._modes, self._state.clock.time())
        if mode != OBSERVE and self._modes.frozen:
            return OBSERVE, shut
        if mode == AUTO and shut:
            return OBSERVE, shut
        return mode, f"mode {mode}"

    def proposed(self) -> Mapping[str, str]:
        """Topology (id) → the plan that would move it and waits for a person."""
        # It is asked each second, and steps are long.
        self._moving = {plan: self._moving.get(plan) or self._topologies(plan) for plan in self._plans.proposed()}
        return {topology: plan for plan, moving in self._moving.items() for topology in moving}

    def _topologies(self, plan: str) -> frozenset[str]:
        return frozenset(move["topology"] for step in self._plans.steps(plan) for move in step.told["moves"])

    def _keep(self, modes: Modes) -> None:
        with self._state.change() as to:
            to.execute("INSERT OR REPLACE INTO modes VALUES (1, ?)", (modes.model_dump_json(),))
        self._modes = modes


def _differing(before: Modes, after: Modes) -> list[str]:
    return [name for name in Modes.model_fields if getattr(before, name) != getattr(after, name)]


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value else orjson.dumps(value).decode()
