"""The scheduler that Storm falls back to where the service gives no answer, from the configuration of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stormwright.defaults import STORMS_OWN

#: Key of the cluster's configuration: ``even``, ``none``, or a class of Storm's or of the operator's.
FALLBACK: Final = "stormwright.fallback"

#: Key of the cluster's configuration: the class that Nimbus asks; and ours, under which `FALLBACK` means something.
STORM_SCHEDULER: Final = "storm.scheduler"

PLACEMENT_SCHEDULER: Final = "stormwright.PlacementScheduler"

RESOURCE_AWARE: Final = "ResourceAwareScheduler"

ISOLATING: Final = "IsolationScheduler"

DEFAULT: Final = "DefaultScheduler"

_EVEN: Final = "EvenScheduler"

_NOBODY: Final = "none"


def fallback_class(conf: Mapping[str, Any]) -> str:
    """Name, without its package, of the class that a cluster keeps for placement; empty where it keeps none.

    Storm's EvenScheduler by its class is what ``even`` is. What is no text counts for nothing, as in Nimbus.

    Parameters
    ----------
    conf
        The cluster's configuration.
    """
    named = conf.get(FALLBACK)
    if conf.get(STORM_SCHEDULER) != PLACEMENT_SCHEDULER or not isinstance(named, str) or named in (STORMS_OWN, _NOBODY):
        return ""
    name = named.rpartition(".")[2]
    return "" if name == _EVEN else name
