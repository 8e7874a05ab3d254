"""Permissions of moves: the kinds of moves that the modes forbid for a topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from stormwright.controller.draining import DrainPolicy
from stormwright.controller.planning.order import Forbidden
from stormwright.controller.safety.move_kinds import DRAIN_SLACK_S, REPLAY, WINDOW, MoveSafety, move_safety
from stormwright.model import Problem, Topology
from stormwright.plans.modes import KindRule, Modes, MoveKind


@dataclass(frozen=True)
class Permission:
    """The rule for a topology, and whether a person has set it: then no plan may relax it."""

    rule: KindRule
    is_set: bool = False

    def safety(
        self, topology: Topology, rate_tps: float | None = None, restarts: Mapping[str, float] | None = None
    ) -> MoveSafety:
        """Return how a topology can be moved (`move_safety`), with the wait for windows that the rule allows."""
        return move_safety(topology, rate_tps, restarts, max_wait_s=self.rule.max_wait_s)

    def reason_against(self, name: str, safety: MoveSafety, allowed: Sequence[MoveKind] = ()) -> str:
        """Return why a move is forbidden; empty if it is not.

        Parameters
        ----------
        name, safety
            Name of the topology, and how it can be moved.
        allowed
            Kinds that the request for a plan allows.
        """
        forbidden = set(self.rule.forbid) - (set() if self.is_set else set(allowed))
        for kind in needed_kinds(safety):
            if kind in forbidden:
                ways = f"`stormwright mode --topology {name} --allow {kind}`"
                if not self.is_set:
                    ways = f"`stormwright plan --allow {kind}` or {ways}"
                by = "its mode" if self.is_set else "default"
                return f"moves of kind {kind} are forbidden by {by}, and {safety.reason}; {ways} allows it"
        return ""

    def drain_policy(self, safety: MoveSafety) -> DrainPolicy:
        """Return how long its drain may take, and whether pending trees may be replayed then."""
        limit_s = safety.wait_s + DRAIN_SLACK_S if safety.wait_s else None
        replays = REPLAY in needed_kinds(safety)
        may_replay = replays or (safety.kind == WINDOW and REPLAY not in self.rule.forbid)
        return DrainPolicy(safety.checkpoint_s, safety.wait_s != 0, limit_s, may_replay, at_once=replays)


def needed_kinds(safety: MoveSafety) -> tuple[MoveKind, ...]:
    """Return the kinds that have to be allowed: windows that do not end are replayed."""
    if safety.kind == WINDOW and safety.wait_s is None:
        return (WINDOW, REPLAY)
    return (safety.kind,)


def permission_of(modes: Modes, topology: str, name: str) -> Permission:
    """Return the permission of a topology by its id and name."""
    for pattern, rule in modes.kinds.items():
        if fnmatchcase(name, pattern) or fnmatchcase(topology, pattern):
            return Permission(rule, is_set=True)
    return Permission(KindRule())


def forbidden_moves(
    modes: Modes,
    problem: Problem,
    allowed: Sequence[MoveKind] = (),
    rates: Callable[[Problem], Mapping[str, float]] = lambda _: {},
) -> dict[str, Forbidden]:
    """Return topologies (ids) that may not be moved because of their kind, with the reason.

    Parameters
    ----------
    modes
        Current modes, which hold the permissions of each kind and topology.
    problem
        Problem with all topologies to check.
    allowed
        Kinds that the request for a plan allows.
    rates
        Returns measured trees/s by topology id, for the reasons; called once, and only if there are any.
    """
    found = {}
    rate_tps: Mapping[str, float] | None = None
    for topology in problem.topologies:
        permission = permission_of(modes, topology.id, topology.name)
        if permission.reason_against(topology.name, permission.safety(topology), allowed):
            rate_tps = rates(problem) if rate_tps is None else rate_tps
            safety = permission.safety(topology, rate_tps.get(topology.id))
            found[topology.id] = Forbidden(permission.reason_against(topology.name, safety, allowed))
    return found
