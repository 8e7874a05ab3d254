"""Placement policies, one a file; the file's name is the one to ask for.

Called, the package tells what there is: ``stormwright.schedulers()``.
"""

from __future__ import annotations

import sys
from types import ModuleType

from stormwright.model import Scheduler
from stormwright.schedulers.kit.describe import Description, describe_anyway
from stormwright.schedulers.kit.registry import (
    make_scheduler,
    parse_settings,
    scheduler_names,
    scheduler_type,
)

__all__ = ["Scheduler", "make_scheduler", "parse_settings", "scheduler_names", "scheduler_type"]


class _Schedulers(ModuleType):
    """A package that answers when it is called: at a prompt `schedulers` is a question, in code it is a room."""

    def __call__(self) -> dict[str, Description]:
        """Every scheduler there is, by name, with its rule, its source and its parameters; of a broken one, why."""
        return {name: describe_anyway(name) for name in scheduler_names()}


sys.modules[__name__].__class__ = _Schedulers
