"""Report of a prediction: values with intervals, the busiest threads and notes, from steady states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.batches import MAX_SPOUT_PENDING, batch_faults
from stormwright.model.humanize import counted
from stormwright.model.peculiarities import peculiarities
from stormwright.predict.bottleneck import bottleneck, thread_name
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.demand import cpu_s_of
from stormwright.predict.fairness import NO_LIMIT
from stormwright.predict.flow.measured import BYTES_PER_TUPLE
from stormwright.predict.polling import polls_per_s
from stormwright.predict.prediction import (
    ASSUMED,
    BusyThread,
    Interval,
    IsSustained,
    NodePrediction,
    Prediction,
    TopologyPrediction,
)
from stormwright.predict.queueing.waits import node_use
from stormwright.predict.reach import bottleneck_of, is_limited, is_sustained
from stormwright.predict.steady import PlacedLoad, SteadyState, fullest_rows, limits
from stormwright.predict.sums import ratio, sums

#: Quantile of latency that is predicted besides the mean.
_LATE = 0.99

#: Difference of a scale from 1 that is not worth a note.
_CLOSE = 0.1

#: Number of busiest threads in a prediction.
_BUSIEST = 5


def notes_of_topology(placed: PlacedLoad, steady: SteadyState, costs: Costs, topology: int) -> Iterator[str]:
    """Yield the notes on one topology.

    Parameters
    ----------
    placed, steady
        The placement and its steady state.
    costs
        Costs that the steady state was computed with.
    topology
        Index of the topology.
    """
    problem, profile, layout = placed.problem, placed.profile, placed.profile.layout
    one = problem.topologies[topology]
    if profile.assumed[topology]:
        yield ASSUMED
    missing = int(np.count_nonzero(placed.standing.workers.scopes.slot[problem.executors_of(topology)] == UNPLACED))
    if missing:
        verb = "has" if missing == 1 else "have"
        yield f"{counted(missing, 'executor')} {verb} no slot: not predicted, and assumed to use nothing"
        return
    yield from (fault.text for fault in batch_faults(one, problem.conf))
    yield from (each.text for each in peculiarities(problem, topology))
    if profile.rate_tps[topology] == 0:
        yield "its spouts began no trees while it was measured: no basis for a prediction"
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


def why_no_latency(placed: PlacedLoad, steady: SteadyState, topology: int, fullest: int) -> str:
    """Return why a topology has no latency at a rate that is not sustained.

    Parameters
    ----------
    placed, steady
        The placement and its steady state.
    topology
        Index of the topology.
    fullest
        Row of the fullest resource that the topology uses.
    """
    if not steady.demand.running[topology]:
        return "not all of its executors have a slot"
    if steady.given.rate_tps[topology] == 0:
        return "its spouts began no trees while it was measured"
    if steady.given_use[topology] >= 1:
        return f"{bottleneck(placed.problem, steady.demand, fullest)} would be overloaded"
    return f"more trees would have to be pending than {MAX_SPOUT_PENDING} allows"


def notes_of_all(placed: PlacedLoad, steady: SteadyState, costs: Costs) -> Iterator[str]:
    """Yield the notes on the prediction as a whole.

    Parameters
    ----------
    placed, steady
        The placement and its steady state.
    costs
        Costs that the steady state was computed with.
    """
    if costs.fitted_in is None:
        yield "message costs were not fitted to this cluster: intervals are wide accordingly"
    if len(np.unique(steady.demand.worker_node)) > 1 and not np.isfinite(steady.demand.nodes.link_bytes_per_s).all():
        yield "some nodes do not declare link_bps: their links are assumed unlimited"
    unsized = [each.bytes_per_tuple is None and each.pair_bytes_per_s is None for each in placed.profile.problem.loads]
    if any(unsized):
        yield f"sizes of tuples were not measured everywhere: {BYTES_PER_TUPLE:g} bytes each are taken there"
    if costs.fitted_in is not None:
        use = float(node_use(steady.demand, steady.given.rate_tps).max(initial=0.0))
        fitted = costs.fitted_in.node_utilisation
        if not fitted.holds(use):
            within = f"{fitted.least:.0%} to {fitted.most:.0%}"
            yield f"a node's CPU is {use:.0%} in use, outside of what costs were fitted in: {within}"


def _beyond_rate(costs: Costs, topology: str, rate_tps: float) -> Iterator[str]:
    fitted = costs.fitted_in.rate_tps.get(topology) if costs.fitted_in else None
    if fitted is not None and not fitted.holds(rate_tps):
        yield f"{rate_tps:,.0f} trees/s are outside of what was measured: {fitted.least:,.0f} to {fitted.most:,.0f}"


def described(
    placed: PlacedLoad, states: Sequence[SteadyState], costs: Costs, corrections: Mapping[str, Correction]
) -> Prediction:
    """Return the prediction from steady states with the given costs, followed by those with varied costs.

    Parameters
    ----------
    placed
        The load under the placement.
    states
        The first gives the values, all of them together the intervals.
    costs, corrections
        Costs of the first state, and corrections of single topologies, by id.
    """
    problem, steady = placed.problem, states[0]
    scales = [corrections.get(each.id, Correction()).scale for each in problem.topologies]
    shares, free = limits(steady.demand)
    use = shares @ steady.given.rate_tps + (1 - free)
    fullest = int(np.argmax(use)) if len(use) else NO_LIMIT
    if len(use) and use[fullest] == 0:
        fullest = NO_LIMIT
    late = [state.given.ways.latency.quantile(_LATE) for state in states]
    rows = fullest_rows(shares, free, steady.given.rate_tps)
    cpu_us = 1e6 * cpu_s_of(steady.full_demand)
    return Prediction(
        topologies=tuple(
            _scaled(_topology(placed, states, late, rows, costs, float(cpu_us[t]), t), scales[t])
            for t in range(len(problem.topologies))
        ),
        nodes=tuple(_nodes(placed, states, costs)),
        busiest=tuple(_busiest(problem, steady)),
        fullest=bottleneck(problem, steady.demand, fullest),
        fullest_use=float(use[fullest]) if fullest != NO_LIMIT else 0.0,
        notes=tuple(notes_of_all(placed, steady, costs)),
    )


def _topology(
    placed: PlacedLoad,
    states: Sequence[SteadyState],
    late: Sequence[FloatArray],
    fullest: IndexArray,
    costs: Costs,
    cpu_us: float,
    topology: int,
) -> TopologyPrediction:
    problem, profile, steady = placed.problem, placed.profile, states[0]
    highest = _interval([state.highest_tps[topology] for state in states])
    limited = is_limited(profile, steady, topology)
    pending = _interval([state.pending.rate_tps[topology] for state in states]) if limited else None
    rate = float(steady.given.rate_tps[topology])
    sustained = [is_sustained(profile, state, topology) for state in states]
    mean = [state.given.ways.latency.mean for state in states]
    return TopologyPrediction(
        topology=problem.topologies[topology].id,
        assumed=bool(profile.assumed[topology]),
        measured_tps=float(profile.rate_tps[topology]),
        rate_tps=rate,
        highest_tps=highest,
        pending_tps=pending,
        bottleneck=bottleneck_of(problem, profile, steady, topology),
        headroom=highest.value / rate if rate > 0 else 0.0,
        sustained=_answer(sustained) if rate > 0 else None,
        latency_ms=_ms([float(s[topology]) if held else None for s, held in zip(mean, sustained, strict=True)]),
        p99_ms=_ms([float(s[topology]) if held else None for s, held in zip(late, sustained, strict=True)]),
        pending_latency_ms=(
            _ms([float(state.pending.ways.latency.mean[topology]) for state in states]) if limited else None
        ),
        cpu_us=cpu_us,
        no_latency="" if sustained[0] else why_no_latency(placed, steady, topology, int(fullest[topology])),
        notes=tuple(notes_of_topology(placed, steady, costs, topology)),
    )


def _scaled(predicted: TopologyPrediction, scale: float) -> TopologyPrediction:
    """Return a prediction with the scale of its CPU, and a note if that differs much from 1."""
    if abs(scale - 1) < _CLOSE:
        return replace(predicted, scale=scale)
    note = f"by its measured rate the model explains {1 / scale:.0%} of the CPU of its trees: predictions are scaled"
    return replace(predicted, scale=scale, notes=(*predicted.notes, note))


def _answer(sustained: Sequence[bool]) -> IsSustained:
    if all(sustained):
        return "yes"
    return "perhaps" if any(sustained) else "no"


def _ms(seconds: Sequence[float | None]) -> Interval | None:
    """Return times in ms; None if the first is None. If another one is None the interval has no upper end."""
    if seconds[0] is None:
        return None
    return _interval([np.inf if each is None else each * 1e3 for each in seconds])


def _interval(values: Sequence[float]) -> Interval:
    """Return the first of `values` with the range of all of them."""
    return Interval(float(values[0]), float(min(values)), float(max(values)))


def _nodes(placed: PlacedLoad, states: Sequence[SteadyState], costs: Costs) -> Iterator[NodePrediction]:
    problem, count = placed.problem, len(placed.problem.supervisors)
    demand, busy = states[0].demand, states[0].given.busy
    cpu = [node_use(state.demand, state.given.rate_tps) for state in states]
    links = [state.demand.link_use(state.given.rate_tps) for state in states]
    workers = np.bincount(demand.worker_node, minlength=count)
    executors = problem.num_executors
    there = demand.executor_node != UNPLACED
    share = costs.spin_share * (1 - busy[:executors])
    if costs.poll_us:
        handled_tps = states[0].given.rate_tps[demand.thread_topology[:executors]] * demand.thread_visits[:executors]
        share = 1e-6 * costs.poll_us * polls_per_s(placed.profile, handled_tps, busy[:executors])
    # A full node polls, too: that is part of its base.
    cores = np.maximum(
        sums(demand.executor_node[there], share[there], count) - (workers > 0) * costs.polling_cores, 0.0
    )
    spinning = ratio(cores, demand.nodes.cores).tolist()
    for node, supervisor in enumerate(problem.supervisors):
        own = _interval([float(use[node]) for use in cpu])
        yield NodePrediction(
            node=problem.cluster.node_names[node],
            supervisor=supervisor.id,
            host=supervisor.host,
            cpu=own,
            link_out=_interval([float(use[node]) for use in links]) if supervisor.link_bps else None,
            link_in=_interval([float(use[count + node]) for use in links]) if supervisor.link_bps else None,
            spinning=max(min(1.0 - own.value, spinning[node]), 0.0),
            workers=int(workers[node]),
        )


def _busiest(problem: Problem, steady: SteadyState) -> Iterator[BusyThread]:
    demand = steady.demand
    use = steady.given.rate_tps[demand.thread_topology] * demand.thread_s
    for thread in np.argsort(-use, kind="stable")[:_BUSIEST].tolist():
        if use[thread] > 0:
            topology = problem.topologies[int(demand.thread_topology[thread])].id
            yield BusyThread(thread_name(problem, demand, thread), topology, float(use[thread]))
