"""Placement policies, one per file; a scheduler has the name of its file.

Calling the package lists all schedulers: ``stormwright.schedulers()``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from stormwright.model import Scheduler
from stormwright.schedulers.toolkit.registry import make_scheduler, parse_settings, scheduler_names, scheduler_type

if TYPE_CHECKING:
    from stormwright.schedulers.toolkit.describe import Description

__all__ = ["Scheduler", "make_scheduler", "parse_settings", "scheduler_names", "scheduler_type"]


class _Listed(dict[str, "Description"]):
    """Descriptions by name, shown at a prompt as a list of names and rules."""

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name.ljust(width)}  {found.rule}" for name, found in self.items())


class CallableSchedulers(ModuleType):
    """Type of this package; a function `stormwright.schedulers` would hide the package."""

    def __call__(self) -> Mapping[str, Description]:
        """Return the description of every scheduler by name; of a broken one, the error."""
        from stormwright.schedulers.toolkit.describe import describe_anyway

        return _Listed((name, describe_anyway(name)) for name in scheduler_names())


sys.modules[__name__].__class__ = CallableSchedulers
