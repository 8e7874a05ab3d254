"""Traits that scheduler classes declare, so that no code depends on their names."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from stormwright.model import Component, Problem, Scheduler, Supervisor, Topology, default_executor_runs
from stormwright.schedulers.toolkit.triggers import NEVER, Adaptation

#: Number of executors that stands for any size.
ANY_NUMBER = 10**9


def warm_up(scheduler: Scheduler) -> None:
    """Let a scheduler place two executors on one node, unless it measures its own time.

    Compiled loops are typed by their arrays alone, so those of this problem work for every other.
    """
    if declared(scheduler).times_itself:
        return
    components = (Component("spout", "spout", 2),)
    topology = Topology("warm-up", "warm-up", 2, components, default_executor_runs(components))
    # Failures are reported by the real call.
    with suppress(Exception):
        scheduler.schedule(Problem((Supervisor("node", "node", (6700, 6701), cpu_hz=1e9),), (topology,)))


@dataclass(frozen=True)
class Traits:
    """Optional attributes of a scheduler or its class; missing ones have the defaults here.

    Parameters
    ----------
    heeds_limits
        It satisfies the constraints of nodes: CPU, memory, generic resources, and isolated hosts.
    heeds_requests
        It satisfies constraints on requested resources and on heaps of workers, if the cluster's own scheduler uses
        them.
    handles_isolation
        It implements isolated topologies; for others `IsolatingScheduler` does.
    heeds_tags
        Executors go only to nodes with the tags of their component. Classes of other packages that do not declare it
        are assumed to.
    keeps_untagged_apart
        Executors without a tag go only to nodes without tags.
    cpu_percent_parameter
        Name of the parameter for the percentage of a node's CPU that executors may use; empty: all of it.
    takes_turns
        Topologies are placed one after the other, so their order in the problem matters.
    uses_forecast
        A service has to compute forecasts for it.
    times_itself
        Its answer has its run time, without start-up costs: so it needs no warm-up.
    keeps_time_limit
        It observes a time limit.
    moves_running
        With its parameters, it moves running executors if that pays off; others never move them.
    stays_near
        With its parameters, its answer stays near the running placement, so that it cannot run from scratch.
    adapts
        When its source reschedules running executors; never by default.
    asks_others
        It chooses between the answers of other schedulers.
    quick_up_to
        Number of executors up to which it usually takes a second or two with default parameters.
    """

    heeds_limits: bool = True
    heeds_requests: bool = False
    handles_isolation: bool = False
    heeds_tags: bool = False
    keeps_untagged_apart: bool = False
    cpu_percent_parameter: str = ""
    takes_turns: bool = True
    uses_forecast: bool = False
    times_itself: bool = False
    keeps_time_limit: bool = False
    moves_running: bool = False
    stays_near: bool = False
    adapts: Adaptation = NEVER
    asks_others: bool = False
    quick_up_to: int = ANY_NUMBER


def declared(kind: object, **otherwise: Any) -> Traits:
    """Return the traits of a scheduler or its class.

    Parameters
    ----------
    otherwise
        Defaults of undeclared traits.
    """
    defaults = Traits(**otherwise)
    return Traits(**{of.name: getattr(kind, of.name, getattr(defaults, of.name)) for of in fields(Traits)})
