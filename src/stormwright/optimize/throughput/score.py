"""Score of a placement: a sum over nodes and topologies, of which a step changes a few terms.

Utilisations are those at the topologies' `rate`, relative to `limit`, times the score's `scale`:

- `THROUGHPUT`: Σ u⁸ of all CPUs, links and busiest threads. Its eighth root is about the highest of them, whose inverse
  is the factor by which all rates can grow together; resources below the bottleneck are balanced too.
- `LATENCY`: Σ of the waiting and service times of trees, u / (1 − u) as in an open queue, and the way of their
  messages, simultaneous ones counting once.
- `NODES`: nodes in use, if nothing is fuller than `limit`; an excess counts more than any node. Uneven use is better,
  as it allows to empty nodes.
"""

from __future__ import annotations

from typing import Any

from stormwright.jit.compiled import compiled, inner
from stormwright.optimize.throughput.evaluate import evaluate
from stormwright.optimize.throughput.records import PlacementState

THROUGHPUT, LATENCY, NODES = 0, 1, 2

#: Utilisation limit of the open queue, whose waiting time would diverge; the slope of the cost beyond it.
_NEARLY_FULL, _STEEP = 0.95, 400.0

#: Relative to a node's price: the reward of full utilisation, and the cost of an excess by its whole capacity.
_UNEVEN, _TOO_FULL = 0.3, 100.0


@inner
def _eighth(part: float) -> float:
    square = part * part
    return square * square * (square * square)


@inner
def _waiting(part: float) -> float:
    if part < _NEARLY_FULL:
        return part / (1.0 - part)
    return _NEARLY_FULL / (1.0 - _NEARLY_FULL) + _STEEP * (part - _NEARLY_FULL)


@inner
def _too_full(part: float) -> float:
    return _TOO_FULL * max(part - 1.0, 0.0)


@inner
def _present(state: PlacementState, workers: int) -> float:
    """Return the base CPU of a number of workers of a node, in cores."""
    return float(workers * state.cost[0].worker_cores + (state.cost[0].polling_cores if workers > 0 else 0.0))


@inner
def of_node(state: PlacementState, node: int) -> float:
    """Return the term of a node including the additions of a step."""
    on, objective = state.nodes[node], state.scoring[0]
    workers = on.workers + on.workers_by
    cpu = (on.base + _present(state, workers) + on.cpu + on.cpu_by) / (on.cores * objective.limit)
    out, into = (on.out + on.out_by) / objective.limit, (on.into + on.into_by) / objective.limit
    if objective.kind == THROUGHPUT:
        return _eighth(objective.scale * cpu) + _eighth(objective.scale * out) + _eighth(objective.scale * into)
    if objective.kind == LATENCY:
        return float(on.cores * _waiting(cpu) + _waiting(out) + _waiting(into))
    price = 1.0 - _UNEVEN * min(cpu, 1.0) ** 2 if workers > 0 else 0.0
    return float(price + _too_full(cpu) + _too_full(out) + _too_full(into))


@inner
def of_topology(state: PlacementState, rate: float, busiest_s: float, messages: float) -> float:
    """Return the term of a topology.

    Parameters
    ----------
    state
        Placement with the objective and the costs; not changed.
    rate
        Rate of the topology, in trees/s.
    busiest_s
        Seconds of a tree in its busiest thread.
    messages
        Sequential messages of a tree, whose way takes time.
    """
    objective, busy = state.scoring[0], rate * busiest_s / state.scoring[0].limit
    if objective.kind == THROUGHPUT:
        return _eighth(objective.scale * busy)
    if objective.kind == LATENCY:
        return float(_waiting(busy) + rate * messages * state.cost[0].hop_s)
    return _too_full(busy)


# Steps: `begin`, `try_topology` of each that it changes, `rise`; then `take` or `leave`.
@inner
def begin(state: PlacementState) -> None:
    """Begin a step."""
    state.scoring[0].touched, state.scoring[0].rise = 0, 0.0


@inner
def try_topology(state: PlacementState, topology: int) -> None:
    """Compute the demand of a topology under its current placement."""
    evaluate(state, topology)
    it = state.topologies[topology]
    for place in range(it.first, it.first + it.places):
        _touch(state, state.places[place], -1)
    for place in range(it.first, it.first + it.tried_places):
        _touch(state, state.tried[place], 1)
    for place in range(it.first, it.first + it.places):
        _add(state, state.places[place], -it.rate)
    for place in range(it.first, it.first + it.tried_places):
        _add(state, state.tried[place], it.rate)
    state.scoring[0].rise += of_topology(state, it.rate, it.tried_busiest_s, it.tried_messages)
    state.scoring[0].rise -= of_topology(state, it.rate, it.busiest_s, it.messages)


@inner
def rise(state: PlacementState) -> float:
    """Return the increase of the score by the step."""
    total = state.scoring[0].rise
    for number in range(state.scoring[0].touched):
        node = state.touched[number]
        total += of_node(state, node) - state.nodes[node].term
    return float(total)


@inner
def take(state: PlacementState, topology: int) -> None:
    """Accept the tried places of a topology."""
    it = state.topologies[topology]
    for place in range(it.first, it.first + it.tried_places):
        state.places[place] = state.tried[place]
    state.topologies[topology].places = it.tried_places
    state.topologies[topology].busiest_s, state.topologies[topology].messages = it.tried_busiest_s, it.tried_messages


@inner
def settle(state: PlacementState, taken: bool) -> None:
    """End a step: accept or discard the tried nodes."""
    for number in range(state.scoring[0].touched):
        node = state.touched[number]
        if taken:
            state.scoring[0].score -= state.nodes[node].term
            state.nodes[node].term = of_node(state, node)
            state.scoring[0].score += state.nodes[node].term
            state.nodes[node].cpu += state.nodes[node].cpu_by
            state.nodes[node].out += state.nodes[node].out_by
            state.nodes[node].into += state.nodes[node].into_by
            state.nodes[node].workers += state.nodes[node].workers_by
        state.nodes[node].cpu_by, state.nodes[node].out_by, state.nodes[node].into_by = 0.0, 0.0, 0.0
        state.nodes[node].workers_by, state.nodes[node].touched = 0, False
    if taken:
        state.scoring[0].score += state.scoring[0].rise


@inner
def _touch(state: PlacementState, place: Any, workers: int) -> None:
    node = place.node
    if not state.nodes[node].touched:
        state.nodes[node].touched = True
        state.touched[state.scoring[0].touched] = node
        state.scoring[0].touched += 1
    state.nodes[node].workers_by += workers * place.workers


@inner
def _add(state: PlacementState, place: Any, rate: float) -> None:
    state.nodes[place.node].cpu_by += rate * place.cpu
    state.nodes[place.node].out_by += rate * place.out
    state.nodes[place.node].into_by += rate * place.into


@compiled
def add_up(state: PlacementState) -> None:
    """Recompute every topology, node and the score, from the positions of executors and workers."""
    state.scoring[0].score = 0.0
    for node in range(len(state.nodes)):
        state.nodes[node].cpu, state.nodes[node].out, state.nodes[node].into, state.nodes[node].workers = (
            0.0,
            0.0,
            0.0,
            0,
        )
        state.nodes[node].cpu_by, state.nodes[node].out_by, state.nodes[node].into_by = 0.0, 0.0, 0.0
        state.nodes[node].workers_by, state.nodes[node].touched = 0, False
    for topology in range(len(state.topologies)):
        evaluate(state, topology)
        take(state, topology)
        it = state.topologies[topology]
        for place in range(it.first, it.first + it.places):
            on = state.places[place].node
            state.nodes[on].cpu += it.rate * state.places[place].cpu
            state.nodes[on].out += it.rate * state.places[place].out
            state.nodes[on].into += it.rate * state.places[place].into
            state.nodes[on].workers += state.places[place].workers
        state.scoring[0].score += of_topology(state, it.rate, it.busiest_s, it.messages)
    for node in range(len(state.nodes)):
        state.nodes[node].term = of_node(state, node)
        state.scoring[0].score += state.nodes[node].term


@compiled
def headroom(state: PlacementState) -> float:
    """Return the factor by which all rates can grow until a used resource is full; 0 if one is full anyway."""
    most = 1e300
    for node in range(len(state.nodes)):
        on = state.nodes[node]
        if on.cpu > 0.0:
            most = min(most, (on.cores - on.base - _present(state, on.workers)) / on.cpu)
        used = max(on.out, on.into)
        if used > 0.0:
            most = min(most, 1.0 / used)
    for topology in range(len(state.topologies)):
        used = state.topologies[topology].rate * state.topologies[topology].busiest_s
        if used > 0.0:
            most = min(most, 1.0 / used)
    return max(most, 0.0)
