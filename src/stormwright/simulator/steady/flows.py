"""What topologies come to under a placement, and what every tree means to each executor, by prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.predict.costs import Costs
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Routes
from stormwright.predict.flow.spread import Flows, spread
from stormwright.predict.queue.trees import Times
from stormwright.predict.steady import Placed, Steady

#: Of what a placement sustains: nearer to it, an open queue has no time that a tree takes.
_NEARLY = 0.97


class Pace(NamedTuple):
    """What topologies come to: trees/s that they begin, and could complete; how long each takes; shape (T,)."""

    begin_tps: FloatArray
    reach_tps: FloatArray
    latency: Times


@dataclass(frozen=True, eq=False)
class Share:
    """What a tree means to executors.

    Parameters
    ----------
    handled, cpu_s
        Tuples of a tree that each handles, and CPU time that they take, shape (E,); of a spout, trees that it begins.
    source, target, tuples
        Executors that send, to whom, and how many tuples of a tree, shape (P,).
    """

    handled: FloatArray
    cpu_s: FloatArray
    source: IndexArray
    target: IndexArray
    tuples: FloatArray


class Steadily:
    """Predicts a problem's topologies under one placement after the other.

    Shuffled tuples go as near as they can, also where a queue is so long that Storm would send some further.

    Parameters
    ----------
    problem
        With a load that was measured where `Problem.measured` says.
    costs
        Of messages and workers.
    """

    def __init__(self, problem: Problem, costs: Costs) -> None:
        self.profile, self._costs = Profile.of(problem), costs
        self._weights = weights_of(problem)

    def under(self, problem: Problem, slots: IntArray, offered_tps: FloatArray) -> tuple[Pace, Share]:
        """What they come to.

        Parameters
        ----------
        problem
            Has the nodes as they are now.
        slots
            Slot of every executor, -1 for none, shape (E,).
        offered_tps
            Trees/s that spouts would begin, inf for as many as they can, shape (T,).
        """
        profile = self.profile
        measured = profile.rate_tps
        placed = Placed.under(profile, problem, slots)
        state = self._state(placed, measured)
        running = state.demand.running & (measured > 0)
        limited = np.isfinite(profile.layout.pending)
        reach = np.where(running, np.where(limited, state.pending.rate_tps, state.highest_tps), 0.0)
        begin = np.where(running, np.minimum(offered_tps, np.where(limited, reach, np.inf)), 0.0)
        # Where nothing limits what is begun nor what is pending, it is what the placement can do.
        begin = np.where(np.isfinite(begin), begin, reach)
        at_limit = limited & (begin >= reach)
        state = self._state(placed, np.minimum(begin, _NEARLY * reach))
        latency = Times(*map(_chosen(at_limit), state.pending.ways.latency, state.given.ways.latency))
        return Pace(begin, reach, latency), self._share(placed.routes, state)

    def _state(self, placed: Placed, rate_tps: FloatArray) -> Steady:
        weights = self._weights * self.profile.rate_tps
        return steady_states(placed, rate_tps, weights, [(self._costs, {})])[1][0]

    def _share(self, routes: Routes, state: Steady) -> Share:
        executors = len(routes.handled)
        handled = np.where(routes.workers.of_executor >= 0, routes.handled, 0.0)
        pairs, flows, graph = self.profile.pairs, self.profile.flows, self.profile.graph
        scopes, component = routes.workers.scopes, self.profile.layout.executor_component
        where = spread(scopes, component, graph.target, Flows(flows.source, graph.of_flow, flows.local))
        # Every flow of a lot goes to all members of it.
        order = np.argsort(where.of, kind="stable")
        first, last = (np.searchsorted(where.of[order], where.lot, side) for side in ("left", "right"))
        times = last - first
        row = np.repeat(np.arange(len(where.flow)), times)
        at = order[np.arange(len(row)) - np.repeat(np.cumsum(times) - times - first, times)]
        flow = where.flow[row]
        source = np.concatenate([pairs.source, flows.source[flow]])
        target = np.concatenate([pairs.target, where.member[at]])
        tuples = np.concatenate([pairs.tuples, flows.tuples[flow] * where.gets[at]]) * handled[source]
        sent = tuples > 0
        cpu_s = np.where(np.isfinite(state.demand.thread_s), state.demand.thread_s, 0.0)[:executors]
        return Share(handled, cpu_s, source[sent], target[sent], tuples[sent])


def _chosen(where: BoolArray):  # type: ignore[no-untyped-def]  # numpy's own type
    return lambda one, other: np.where(where, one, other)
