"""Predicted flows: rates of topologies under a placement, and the work of each executor per tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.predict.costs import Costs
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.spread import SpreadFlows, spread
from stormwright.predict.queueing.trees import Times
from stormwright.predict.shares import with_shares
from stormwright.predict.steady import PlacedLoad, SteadyState
from stormwright.simulator.engine import Counts

#: Maximum utilisation of an open queue with a finite latency.
_NEARLY = 0.97

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


class Pace(NamedTuple):
    """Rates of topologies, shape (T,) each.

    Parameters
    ----------
    begin_tps, reach_tps
        Trees/s begun, and the highest sustainable ones.
    stay_s
        Time that each tree counts as pending.
    latency
        Complete latency, as Storm measures it.
    """

    begin_tps: FloatArray
    reach_tps: FloatArray
    stay_s: FloatArray
    latency: Times


@dataclass(frozen=True, eq=False)
class Share:
    """Work of executors per tree.

    Parameters
    ----------
    handled, cpu_s
        Tuples of a tree that each handles, and their CPU time, shape (E,); of a spout, trees that it begins.
    source, target, tuples
        Sending executors, receiving executors, and tuples per tree, shape (P,).
    """

    handled: FloatArray
    cpu_s: FloatArray
    source: Counts
    target: Counts
    tuples: FloatArray


class SteadyFlows:
    """Predicts a problem's topologies under successive placements.

    Shuffled tuples go to the nearest targets, even if Storm would send some further due to long queues.

    Parameters
    ----------
    problem
        Problem with a load measured under `Problem.measured`.
    costs
        Costs of messages and workers.
    """

    def __init__(self, problem: Problem, costs: Costs) -> None:
        self.profile, self._costs = Profile.of(problem), costs
        self._weights = weights_of(problem)

    def under(self, problem: Problem, slots: IntArray, offered_tps: FloatArray) -> tuple[Pace, Share]:
        """Return pace and share under a placement.

        Parameters
        ----------
        problem
            Problem with the present nodes.
        slots
            Slot of every executor, -1 for none, shape (E,).
        offered_tps
            Offered trees/s, inf for as many as possible, shape (T,).
        """
        profile, measured = self.profile, self.profile.rate_tps
        placed, state = self._state(PlacedLoad.under(profile, problem, slots), measured)
        running = state.demand.running & (measured > 0)
        most = profile.layout.pending
        limited = np.isfinite(most)
        reach = np.where(running, np.where(limited, state.pending.rate_tps, state.highest_tps), 0.0)
        begin = np.where(running, np.minimum(offered_tps, np.where(limited, reach, np.inf)), 0.0)
        # Without a limit of begun or pending trees the placement is the limit.
        begin = np.where(np.isfinite(begin), begin, reach)
        full = limited & (begin >= reach) & (reach > 0)
        placed, state = self._state(placed, np.minimum(begin, _NEARLY * reach))
        given, pending = state.given.ways, state.pending.ways
        # Little's law, with the maximum number of pending trees.
        stay = np.divide(most, reach, out=given.cycle.mean.copy(), where=full)
        factor = np.divide(stay, pending.cycle.mean, out=np.ones_like(stay), where=full & (pending.cycle.mean > 0))
        mean = np.where(full, pending.latency.mean * factor, given.latency.mean)
        variance = np.where(full, pending.latency.variance * factor**2, given.latency.variance)
        return Pace(begin, reach, stay, Times(mean, variance)), self._share(placed, state, full)

    def _state(self, placed: PlacedLoad, rate_tps: FloatArray) -> tuple[PlacedLoad, SteadyState]:
        weights = self._weights * self.profile.rate_tps
        placed, (state,) = steady_states(placed, rate_tps, weights, [(self._costs, {})])
        return with_shares(placed, self._costs), state

    def _share(self, placed: PlacedLoad, state: SteadyState, full: BoolArray) -> Share:
        """Return the share of topologies, saturated if `full`, by the routes at highest rates."""
        routes, profile = placed.routes, self.profile
        rate = full[profile.layout.executor_topology]
        handled = np.where(rate, (placed.full_routes or routes).handled, routes.handled)
        handled = np.where(routes.workers.of_executor >= 0, handled, 0.0)
        executors = len(handled)
        cpu_s = np.where(rate, state.full_demand.thread_s[:executors], state.demand.thread_s[:executors])
        pairs, flows, graph = profile.pairs, profile.flows, profile.graph
        near = SpreadFlows(flows.source, graph.of_flow, flows.local)
        where = spread(routes.workers.scopes, profile.layout.executor_component, graph.target, near)
        # Every flow of a group goes to all its members.
        order = np.argsort(where.lot_of_member, kind="stable")
        first, last = (np.searchsorted(where.lot_of_member[order], where.lot, side) for side in _SIDES)
        times = last - first
        row = np.repeat(np.arange(len(where.flow)), times)
        at = order[np.arange(len(row)) - np.repeat(np.cumsum(times) - times - first, times)]
        flow = where.flow[row]
        source = np.concatenate([pairs.source, flows.source[flow]])
        target = np.concatenate([pairs.target, where.member[at]])
        tuples = np.concatenate([pairs.tuples, flows.tuples[flow] * where.gets[at]]) * handled[source]
        sent = tuples > 0
        ends = source[sent].astype(np.int64), target[sent].astype(np.int64)
        return Share(handled, np.where(np.isfinite(cpu_s), cpu_s, 0.0), *ends, tuples[sent])
