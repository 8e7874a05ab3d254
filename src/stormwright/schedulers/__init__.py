"""Placement policies, one a file; the file's name is the one to ask for."""

from stormwright.schedulers.kit.registry import (
    Scheduler,
    make_scheduler,
    parse_settings,
    scheduler_names,
    scheduler_type,
)

__all__ = ["Scheduler", "make_scheduler", "parse_settings", "scheduler_names", "scheduler_type"]
