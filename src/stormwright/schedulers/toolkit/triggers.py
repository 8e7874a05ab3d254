"""When authors of schedulers reschedule what runs, as a pure function of what is observed.

The parameters and the frame are those of Aniello, Baldoni, Querzoni, "Adaptive online scheduling in Storm", DEBS 2013,
§3.2.1, https://doi.org/10.1145/2488222.2488267. Others look at other moments and for other gains: each scheduler's
class says which (`Traits.adapts`), with its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from stormwright.model import Problem
from stormwright.schedulers.toolkit.params import MOST_SECONDS, Params, nodes_tell, param

#: Key of `supervisor.scheduler.meta`: X of that node, in seconds.
OVERLOAD_S = "stormwright.overload_s"


@dataclass(frozen=True, kw_only=True)
class TriggerParams(Params):
    """X, P, R and T of the paper; a controller uses them, a single call of the scheduler does not."""

    overload_s: float = param(
        30.0, "X: seconds for which a node is over its capacity before that triggers", low=0, high=MOST_SECONDS
    )
    period_s: float = param(
        60.0, "P: seconds from one look for a better placement to the next", low=0, high=MOST_SECONDS
    )
    min_gain_percent: float = param(
        20.0, "R: by how much inter-node traffic must fall for such a look to trigger", low=0, high=100
    )
    cool_down_s: float = param(60.0, "T: seconds after a change in which nothing triggers", low=0, high=MOST_SECONDS)


#: What a placement can be better in: less traffic between nodes, fewer nodes, a less busy busiest worker.
TRAFFIC, NODES, BALANCE = GAINS = ("traffic", "nodes", "balance")


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """When a scheduler looks for a better placement by its source, and what that has to gain.

    Nothing triggers within T seconds after a change, whoever it is: sources that say nothing of it would move again
    and again what has just moved.

    Parameters
    ----------
    on_period
        It looks every P seconds.
    on_drift
        It looks as soon as the load is no longer what it was when the placement changed last.
    on_overload
        It looks, and moves whatever that gains, once a node was over its capacity for more than X seconds.
    gains
        Of `GAINS`: what a placement has to be better in by at least R percent, any one of them, on other looks. Empty:
        it moves whatever that gains.
    """

    on_period: bool = False
    on_drift: bool = False
    on_overload: bool = False
    gains: tuple[str, ...] = (TRAFFIC,)

    @property
    def ever(self) -> bool:
        """Whether there is anything on which it looks."""
        return self.on_period or self.on_drift or self.on_overload


#: Of whoever places once.
NEVER = Adaptation()

#: Of Aniello et al., and of whoever has none of its own; that a drift is looked at off the clock is not in the paper.
ONLINE = Adaptation(on_period=True, on_drift=True, on_overload=True)


@dataclass(frozen=True)
class TriggerView:
    """What the triggers look at.

    Parameters
    ----------
    since_change_s, since_look_s
        Seconds since the last change of the placement, and since a better one was last looked for.
    overload_s
        Node → seconds for which its CPU has been at or over its capacity without a break.
    gain_percent, gained
        By how much the placement that the scheduler proposes is better than the one at hand, and what that means: in
        the paper by how much inter-node traffic falls.
    drifted
        How the load has changed since the last change of the placement; empty where it has not.
    overload_gain_percent
        What a placement has to gain where a node is overloaded; in the paper it may even lose.
    own_overload_s
        Node → X of that node, where it tells one of its own.
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
        """Node → X, of those that have been over their capacity for longer, in order of their names."""
        longest = {node: self.own_overload_s.get(node, overload_s) for node in sorted(self.overload_s)}
        return {node: most for node, most in longest.items() if self.overload_s[node] > most}


def own_overload_s(problem: Problem) -> dict[str, float]:
    """Supervisor id → X of that node, of those that tell one under `OVERLOAD_S` in `supervisor.scheduler.meta`.

    Raises
    ------
    InputError
        What nodes tell is no number, or below 0; all faults at once.
    """
    told = nodes_tell(problem, (OVERLOAD_S,))
    nodes = zip(problem.supervisors, told, strict=True)
    return {node.id: of_node[OVERLOAD_S] for node, of_node in nodes if OVERLOAD_S in of_node}


def by_name(problem: Problem, seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of nodes, by what people call them, of those that are there."""
    names, index = problem.cluster.node_names, problem.node_index
    return {names[index[node]]: amount for node, amount in seconds.items() if node in index}


def should_reschedule(params: TriggerParams, seen: TriggerView, adapts: Adaptation = ONLINE) -> str | None:
    """Why to change to the proposed placement now, or None to leave everything where it is.

    1. Never within T seconds after a change.
    2. At once, whatever it gains, if a node has been over its capacity for more than X seconds; where it is decided by
       reachable throughput, latency or nodes, which is not in the papers, only if it gains anything.
    3. Every P seconds, if the proposed placement gains at least R percent; at once where the load has drifted.

    Parameters
    ----------
    params
        X, P, R and T.
    seen
        What is observed.
    adapts
        On which of these the scheduler looks.
    """
    if seen.since_change_s < params.cool_down_s:  # 1
        return None
    overloaded = seen.overloaded(params.overload_s)
    if adapts.on_overload and overloaded and seen.gain_percent >= seen.overload_gain_percent:  # 2
        seconds = ", ".join(dict.fromkeys(f"{most:g}" for most in overloaded.values()))
        return f"{', '.join(overloaded)}: over CPU capacity for more than {seconds} s"
    due = adapts.on_period and seen.since_look_s >= params.period_s
    if not (due or (adapts.on_drift and seen.drifted)):
        return None
    why = f"{seen.drifted}; " if seen.drifted else ""
    if not adapts.gains:
        return f"{why}everything is placed anew, whatever that gains"
    if seen.gain_percent < params.min_gain_percent or seen.gain_percent <= 0:  # 3
        return None
    return f"{why}{seen.gained}, at least {params.min_gain_percent:g} % wanted"
