"""What the class of a scheduler declares of itself, so that nobody has to know it by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Traits:
    """Attributes that the class of a scheduler may have; each that it leaves out counts as its default here.

    Parameters
    ----------
    heeds_limits
        It keeps to what nodes have: CPU, memory, generic resources, and hosts that are set apart.
    handles_isolation
        It gives isolated topologies hosts of their own by itself; for others `Isolating` does.
    heeds_tags
        Executors go only where the tags of their component are. What another package's class does not tell is not
        known, and taken for yes.
    keeps_untagged_apart
        Executors without a tag go only where there are no tags.
    cpu_percent_parameter
        Name of the parameter that says how much of a node's CPU, in percent, executors may use; empty: all of it.
    takes_turns
        Topologies that wait are placed one after the other, and which one the problem has first may decide.
    uses_forecast
        A service is to keep forecasts for it.
    times_itself
        Its answer tells how long it took, without what comes before its first answer: so it needs no warming up.
    keeps_time_limit
        It ends by itself after the time that it is given.
    """

    heeds_limits: bool = True
    handles_isolation: bool = False
    heeds_tags: bool = False
    keeps_untagged_apart: bool = False
    cpu_percent_parameter: str = ""
    takes_turns: bool = True
    uses_forecast: bool = False
    times_itself: bool = False
    keeps_time_limit: bool = False


def declared(kind: object, **otherwise: Any) -> Traits:
    """The traits of a scheduler or of its class.

    Parameters
    ----------
    otherwise
        Traits that hold where it declares none.
    """
    defaults = Traits(**otherwise)
    return Traits(**{of.name: getattr(kind, of.name, getattr(defaults, of.name)) for of in fields(Traits)})
