"""The scheduler that a cluster falls back to if the service gives no answer, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stormwright.defaults import BASELINE

#: Key of the cluster's configuration: ``even``, ``none``, or a class of Storm's or of the operator's.
FALLBACK: Final = "stormwright.fallback"

#: Key of the cluster's configuration: the class that Nimbus asks; and ours, under which `FALLBACK` means something.
STORM_SCHEDULER: Final = "storm.scheduler"

PLACEMENT_SCHEDULER: Final = "stormwright.PlacementScheduler"

RESOURCE_AWARE: Final = "ResourceAwareScheduler"

ISOLATING: Final = "IsolationScheduler"

DEFAULT: Final = "DefaultScheduler"

_EVEN: Final = "EvenScheduler"

_NONE: Final = "none"


def fallback_class(conf: Mapping[str, Any]) -> str:
    """Return the name, without package, of the fallback class; empty if there is none.

    ``even`` stands for Storm's EvenScheduler. Values that are no text are ignored, as Nimbus does.

    Parameters
    ----------
    conf
        Storm configuration of the cluster, with its scheduler and the fallback.
    """
    named = conf.get(FALLBACK)
    if conf.get(STORM_SCHEDULER) != PLACEMENT_SCHEDULER or not isinstance(named, str) or named in (BASELINE, _NONE):
        return ""
    name = named.rpartition(".")[2]
    return "" if name == _EVEN else name


def is_resource_aware(conf: Mapping[str, Any]) -> bool:
    """Return whether the cluster's own scheduler is the ResourceAwareScheduler, in Nimbus or as our fallback."""
    scheduler = conf.get(STORM_SCHEDULER)
    in_nimbus = isinstance(scheduler, str) and scheduler.rpartition(".")[2] == RESOURCE_AWARE
    return in_nimbus or fallback_class(conf) == RESOURCE_AWARE
