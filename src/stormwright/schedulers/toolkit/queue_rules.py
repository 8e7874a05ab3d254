"""Options of all schedulers: order of topologies, and limits of users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from stormwright.model import Problem
from stormwright.model.arrays import MAX_AMOUNT
from stormwright.model.tenancy_config import (
    BACKFILL,
    EVERYBODY,
    LIMITED,
    ORDER,
    ORDERS,
    USERS,
    Users,
    read_queue,
    read_users,
)
from stormwright.schedulers.toolkit.params import Params, param

#: Text for "unlimited".
_ANY = -1

#: Upper bound of any count.
_MAX_COUNT = 2**53

#: Option → limited resource.
_LIMITS = dict(zip(("user_executors", "user_slots", "user_cpu_percent", "user_memory_mb"), LIMITED, strict=True))

#: Limited resource → option.
OPTION_OF = {name: option for option, name in _LIMITS.items()}


def _most(default: int | float, what: str) -> Any:
    text = f"{what} that a user may have of whom {USERS} does not say it; {_ANY}: any"
    return param(default, text, low=_ANY, high=MAX_AMOUNT if isinstance(default, float) else _MAX_COUNT)


@dataclass(frozen=True, kw_only=True)
class QueueRules(Params):
    """Order of topologies if not all fit, and limits of users."""

    order: str = param(
        "given", f"which topology comes first, see Order; given: as the scheduler has it; or {ORDER}", choices=ORDERS
    )
    backfill: bool = param(True, f"true: a topology that fits overtakes one that does not; or {BACKFILL}")
    user_executors: int = _most(_ANY, "executors")
    user_slots: int = _most(_ANY, "worker slots")
    user_cpu_percent: float = _most(float(_ANY), "CPU, 100 a core,")
    user_memory_mb: float = _most(float(_ANY), "memory")

    @property
    def leaves_all_to_the_scheduler(self) -> bool:
        """Whether no order is configured."""
        return self.order == "given" and self.backfill


#: Option names.
OPTIONS = frozenset(field.name for field in fields(QueueRules))


def rules_of(problem: Problem, given: Mapping[str, object]) -> QueueRules:
    """Return the effective rules: the scheduler's options, with the cluster's configuration as default."""
    return QueueRules.from_settings({**read_queue(problem.conf)[0], **given})


def users_of(problem: Problem, rules: QueueRules) -> Users:
    """Return the limits of users by the cluster's configuration and the rules."""
    users = read_users(problem.conf)[0]
    given = {name: float(getattr(rules, option)) for option, name in _LIMITS.items() if getattr(rules, option) >= 0}
    return {**users, EVERYBODY: {**users.get(EVERYBODY, {}), **given}} if given else users
