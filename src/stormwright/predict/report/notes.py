"""What should be known before one relies on a prediction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.humanize import counted
from stormwright.predict.costs import Costs
from stormwright.predict.flow.layout import MAX_SPOUT_PENDING
from stormwright.predict.flow.measured import BYTES_PER_TUPLE
from stormwright.predict.queueing.waits import node_use
from stormwright.predict.report.names import bottleneck
from stormwright.predict.report.prediction import ASSUMED
from stormwright.predict.steady import Placed, Steady


def notes_of_topology(placed: Placed, steady: Steady, costs: Costs, topology: int) -> Iterator[str]:
    """What is to be said of one topology.

    Parameters
    ----------
    placed, steady
        The placement and its steady state.
    costs
        By which it was computed.
    topology
        Its index.
    """
    problem, profile, layout = placed.problem, placed.profile, placed.profile.layout
    one = problem.topologies[topology]
    if profile.assumed[topology]:
        yield ASSUMED
    missing = int(np.count_nonzero(placed.standing.workers.scopes.slot[problem.executors_of(topology)] == UNPLACED))
    if missing:
        verb = "has" if missing == 1 else "have"
        yield f"{counted(missing, 'executor')} {verb} no slot: nothing is predicted, and it takes nothing"
        return
    if profile.rate_tps[topology] == 0:
        yield "its spouts began no trees while it was measured: nothing to go by"
        return
    components = slice(int(layout.component_offset[topology]), int(layout.component_offset[topology + 1]))
    # Edges are in the order of their sources, and these in that of their topologies.
    edges = slice(*np.searchsorted(profile.graph.source, [components.start, components.stop]).tolist())
    if layout.is_acker[components].any() and not profile.graph.begun[edges].any():
        yield "its load has no traffic to ackers, which will take more than is predicted"
    if placed.spills is not None and placed.spills[topology]:
        yield f"with {MAX_SPOUT_PENDING} as it is, queues can fill so far that shuffled tuples go further than near"
    if not steady.pending.settled:
        yield "the rate with all trees pending was not found to the last digit"
    yield from _beyond_rate(costs, one.id, float(steady.given.rate_tps[topology]))


def why_no_latency(placed: Placed, steady: Steady, topology: int, fullest: int) -> str:
    """Why there is no latency to tell of a topology at a rate that is not sustained.

    Parameters
    ----------
    placed, steady
        The placement and its steady state.
    topology
        Its index.
    fullest
        The row of what is fullest of all that it uses.
    """
    if not steady.demand.running[topology]:
        return "not all of its executors have a slot"
    if steady.given.rate_tps[topology] == 0:
        return "its spouts began no trees while it was measured"
    if steady.given_use[topology] >= 1:
        return f"more would be asked of {bottleneck(placed.problem, steady.demand, fullest)} than there is"
    return f"more trees would have to be pending than {MAX_SPOUT_PENDING} allows"


def notes_of_all(placed: Placed, steady: Steady, costs: Costs) -> Iterator[str]:
    """What is to be said of all that is predicted.

    Parameters
    ----------
    placed, steady
        The placement and its steady state.
    costs
        By which it was computed.
    """
    if costs.fitted_in is None:
        yield "what messages cost was not fitted to this cluster: intervals are as wide as that makes them"
    if len(np.unique(steady.demand.worker_node)) > 1 and not np.isfinite(steady.demand.nodes.link_bytes_per_s).all():
        yield "not all nodes tell the speed of their links (link_bps): those limit nothing"
    unsized = [each.bytes_per_tuple is None and each.pair_bytes_per_s is None for each in placed.profile.problem.loads]
    if any(unsized):
        yield f"sizes of tuples were not measured everywhere: {BYTES_PER_TUPLE:g} bytes each are taken there"
    if costs.fitted_in is not None:
        use = float(node_use(steady.demand, steady.given.rate_tps).max(initial=0.0))
        seen = costs.fitted_in.node_utilisation
        if not seen.holds(use):
            within = f"{seen.least:.0%} to {seen.most:.0%}"
            yield f"a node's CPU is {use:.0%} in use, outside of what costs were fitted in: {within}"


def _beyond_rate(costs: Costs, topology: str, rate_tps: float) -> Iterator[str]:
    seen = costs.fitted_in.rate_tps.get(topology) if costs.fitted_in else None
    if seen is not None and not seen.holds(rate_tps):
        yield f"{rate_tps:,.0f} trees/s are outside of what was measured: {seen.least:,.0f} to {seen.most:,.0f}"
