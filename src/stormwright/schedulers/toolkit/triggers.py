"""Triggers: when authors of schedulers reschedule running topologies, as a pure function of observations.

The parameters and the frame are those of Aniello, Baldoni, Querzoni, "Adaptive online scheduling in Storm", DEBS 2013,
§3.2.1, https://doi.org/10.1145/2488222.2488267. Others reschedule at other moments and for other gains, declared by
each scheduler's class (`Traits.adapts`), with its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from stormwright.defaults import TRIGGER_COOL_DOWN_S, TRIGGER_OVERLOAD_S, TRIGGER_PERIOD_S
from stormwright.model import Problem
from stormwright.schedulers.toolkit.configured_values import node_values
from stormwright.schedulers.toolkit.params import MAX_SECONDS, Params, param

#: Key of `supervisor.scheduler.meta`: X of that node, in seconds.
OVERLOAD_S = "stormwright.overload_s"


@dataclass(frozen=True, kw_only=True)
class TriggerParams(Params):
    """When a service searches again, and the gain it requires (X, P, R and T of the paper)."""

    overload_s: float = param(
        TRIGGER_OVERLOAD_S,
        "X: seconds for which a node is over its capacity before that triggers",
        low=0,
        high=MAX_SECONDS,
    )
    period_s: float = param(
        TRIGGER_PERIOD_S, "P: seconds from one look for a better placement to the next", low=0, high=MAX_SECONDS
    )
    min_gain_percent: float = param(
        20.0, "R: by how much inter-node traffic must fall for such a decision to be made", low=0, high=100
    )
    cool_down_s: float = param(
        TRIGGER_COOL_DOWN_S, "T: seconds without triggers after a change", low=0, high=MAX_SECONDS
    )


#: Kinds of gains: less traffic between nodes, fewer nodes, a less busy busiest worker.
TRAFFIC, NODES, BALANCE = GAINS = ("traffic", "nodes", "balance")


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """When a scheduler searches for a better placement by its source, and for which gain.

    Nothing triggers within T seconds after a change, for any scheduler: sources without such a rule would move the same
    executors repeatedly.

    Parameters
    ----------
    on_period
        It reschedules every P seconds.
    on_drift
        It reschedules as soon as the load has drifted since the last change of the placement.
    on_overload
        It reschedules, whatever the gain, once a node has exceeded its capacity for more than X seconds.
    gains
        Subset of `GAINS` of which any one has to improve by at least R percent otherwise. Empty: it reschedules
        whatever the gain.
    """

    on_period: bool = False
    on_drift: bool = False
    on_overload: bool = False
    gains: tuple[str, ...] = (TRAFFIC,)

    @property
    def ever(self) -> bool:
        """Whether there is any trigger."""
        return self.on_period or self.on_drift or self.on_overload


#: Adaptation of schedulers that never reschedule.
NEVER = Adaptation()

#: Adaptation of Aniello et al., and the default; the trigger by drift is not in the paper.
ONLINE = Adaptation(on_period=True, on_drift=True, on_overload=True)


@dataclass(frozen=True)
class TriggerView:
    """Observations that the triggers use.

    Parameters
    ----------
    since_change_s, since_look_s
        Seconds since the last change of the placement, and since the last search for a better one.
    overload_s
        Node → seconds for which its CPU has been at or over its capacity without a break.
    gain_percent, gained
        Gain of the proposed placement over the present one, and its description: in the paper the reduction of
        inter-node traffic.
    drifted
        Description of the drift of the load since the last change of the placement; empty if none.
    overload_gain_percent
        Minimum gain if a node is overloaded; in the paper it may be negative.
    own_overload_s
        Node → X of that node, if it has its own.
    """

    since_change_s: float
    since_look_s: float
    overload_s: Mapping[str, float]
    gain_percent: float
    gained: str = ""
    drifted: str = ""
    overload_gain_percent: float = -inf
    own_overload_s: Mapping[str, float] = field(default_factory=dict)

    def overloaded(self, overload_s: float) -> dict[str, float]:
        """Return X of the nodes that have exceeded their capacity for longer, in order of their names."""
        longest = {node: self.own_overload_s.get(node, overload_s) for node in sorted(self.overload_s)}
        return {node: most for node, most in longest.items() if self.overload_s[node] > most}


def own_overload_s(problem: Problem) -> dict[str, float]:
    """Return X by supervisor id for nodes with `OVERLOAD_S` in `supervisor.scheduler.meta`.

    Raises
    ------
    InputError
        Values that are not numbers, or below 0; all faults at once.
    """
    own_values = node_values(problem, (OVERLOAD_S,))
    nodes = zip(problem.supervisors, own_values, strict=True)
    return {node.id: of_node[OVERLOAD_S] for node, of_node in nodes if OVERLOAD_S in of_node}


def by_name(problem: Problem, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return seconds of existing nodes by their display names."""
    names, index = problem.cluster.node_names, problem.node_index
    return {names[index[node]]: amount for node, amount in seconds.items() if node in index}


def should_reschedule(params: TriggerParams, view: TriggerView, adapts: Adaptation = ONLINE) -> str | None:
    """Return the reason to change to the proposed placement now, or None to change nothing.

    1. Never within T seconds after a change.
    2. At once, whatever the gain, if a node has exceeded its capacity for more than X seconds; for objectives that are
       not in the papers (reachable throughput, latency or nodes) only with a positive gain.
    3. Every P seconds, if the proposed placement gains at least R percent; at once if the load has drifted.

    Parameters
    ----------
    params
        X, P, R and T.
    view
        Overloads, gain and drift, and seconds since the last change and search.
    adapts
        Triggers of the scheduler.
    """
    if view.since_change_s < params.cool_down_s:  # 1
        return None
    overloaded = view.overloaded(params.overload_s)
    if adapts.on_overload and overloaded and view.gain_percent >= view.overload_gain_percent:  # 2
        seconds = ", ".join(dict.fromkeys(f"{most:g}" for most in overloaded.values()))
        return f"{', '.join(overloaded)}: over CPU capacity for more than {seconds} s"
    due = adapts.on_period and view.since_look_s >= params.period_s
    if not (due or (adapts.on_drift and view.drifted)):
        return None
    why = f"{view.drifted}; " if view.drifted else ""
    if not adapts.gains:
        return f"{why}everything is placed from scratch, whatever the gain"
    if view.gain_percent < params.min_gain_percent or view.gain_percent <= 0:  # 3
        return None
    return f"{why}{view.gained}, at least {params.min_gain_percent:g} % wanted"
