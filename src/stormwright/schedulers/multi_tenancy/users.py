"""Which of the topologies that wait are within what their users may have, and why the others are not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.constraints.users import allowed_of, amount_text, amounts_of, slots_of, user_of
from stormwright.model.humanize import counted
from stormwright.model.topology_config import LIMITED, USERS, Users, read_users
from stormwright.schedulers.multi_tenancy.rules import OPTION_OF

#: Topology index → why it has to wait.
Reasons = dict[int, tuple[str, ...]]


class UserShares:
    """What users have and may have.

    Parameters
    ----------
    problem
        Whose topologies they have submitted.
    users
        What they may have.
    running
        Topologies that run, at least in part: what these ask for is taken already.
    """

    def __init__(self, problem: Problem, users: Users, running: Sequence[int]) -> None:
        self._problem = problem
        self._user = [user_of(topology) for topology in problem.topologies]
        self._limited = bool(users)
        self._amounts = amounts_of(problem) if users else np.zeros((len(LIMITED), len(self._user)))
        self._most = {
            user: np.array([allowed_of(users, user).get(name, np.inf) for name in LIMITED]) for user in self._user
        }
        self._running = {user: np.zeros(len(LIMITED)) for user in self._user}
        for index in running:
            self._running[self._user[index]] = self._running[self._user[index]] + self._amounts[:, index]

    def admitted(self, queue: Sequence[int], backfill: bool) -> tuple[list[int], Reasons]:
        """Those of a queue whose users may have them, in its order, and why not the others.

        Without `backfill` one that is too much for its user holds up all later ones of this user, and nobody else's.
        """
        has, admitted, over = dict(self._running), [], Reasons()
        first: dict[str, int] = {}
        for index in queue:
            user, wanted = self._user[index], self._amounts[:, index]
            whole = has[user] + wanted
            if np.any(whole > self._most[user] * (1 + RELATIVE_TOLERANCE)):
                over[index] = tuple(self._why(index, has[user]))
                first.setdefault(user, index)
            elif user in first and not backfill:
                name = self._problem.topologies[first[user]].id
                over[index] = (f"waits behind 1 topology of the same user, {name}, which is beyond a limit",)
            else:
                has[user] = whole
                admitted.append(index)
        return admitted, over

    def learn(self, slots: IntArray, topologies: Sequence[int]) -> bool:
        """Note how many worker slots these topologies take indeed; whether that is too much for a user.

        Some rules give a topology more workers than it asks for.
        """
        if not self._limited:
            return False
        taken, row = slots_of(self._problem, slots), list(LIMITED).index("slots")
        more = [index for index in topologies if taken[index] > self._amounts[row, index]]
        self._amounts[row, more] = taken[more]
        return bool(more) and bool(self.admitted(topologies, backfill=True)[1])

    def shared(self, topologies: Collection[int], others: Collection[int]) -> bool:
        """Whether a user has some of both."""
        return not {self._user[index] for index in topologies}.isdisjoint(self._user[index] for index in others)

    def _why(self, index: int, has: FloatArray) -> list[str]:
        user, why = self._user[index], list[str]()
        who, configured = f'user "{user}"' if user else "topologies of no user", read_users(self._problem.conf)[0]
        for name, had, wanted, most in zip(
            LIMITED, has.tolist(), self._amounts[:, index].tolist(), self._most[user].tolist(), strict=True
        ):
            if had + wanted > most * (1 + RELATIVE_TOLERANCE):
                with_it = amount_text(name, had + wanted, most)
                said = allowed_of(configured, user).get(name) == most
                raised = USERS if said else OPTION_OF[name]
                why.append(f"{who} would have {with_it} with it: make it smaller, kill another, or raise {raised}")
        return why


def behind(problem: Problem, first: int, count: int) -> tuple[str, ...]:
    """Why a topology waits that may not go ahead of others."""
    return (f"waits behind {counted(count, 'topology')}, the first of them {problem.topologies[first].id}",)
